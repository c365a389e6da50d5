"""Operations: their text and their numbers."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipesched.errors import ConfigError
from pipesched.pipeline.ops import Op, OpIndex, Pair, Slot, parse_op, parse_slot

small = st.integers(0, 10**9 - 1)
ops = st.builds(Op, small, st.sampled_from("FBIW"), small)
pairs = st.builds(Pair, st.builds(Op, small, st.just("F"), small), st.builds(Op, small, st.just("B"), small))
indices = st.builds(OpIndex, st.sampled_from(["FB", "FIW", "FBIW"]), st.integers(1, 5), st.integers(1, 5))


def test_texts_of_the_design() -> None:
    """The two examples of DESIGN section 3 read as what they say."""
    assert parse_slot("2F0") == Op(2, "F", 0)
    assert parse_slot("(0F3;3B1)OVERLAP_F_B") == Pair(Op(0, "F", 3), Op(3, "B", 1))


@given(st.one_of(ops, pairs))
def test_text_round_trip(slot: Slot) -> None:
    """What an operation or a pair prints reads as the same one."""
    assert parse_slot(str(slot)) == slot


@given(ops)
def test_op_text_is_stage_kind_microbatch(op: Op) -> None:
    """The text is `<stage><kind><microbatch>` and nothing else."""
    assert str(op) == f"{op.stage}{op.kind}{op.microbatch}"
    assert parse_op(str(op)) == op


JUNK = [
    "",
    "2F",
    "F0",
    "20",
    "2X0",
    "2f0",
    " 2F0",
    "2F0 ",
    "2F0\n",
    "-1F0",
    "2F-1",
    "+2F0",
    "2.0F0",
    "２F0",
    "2F٣",
    "2FF0",
    "2F0B1",
    "1_0F0",
    "9999999999F0",
    "(0F3;3B1)",
    "(0F3)OVERLAP_F_B",
    "0F3;3B1",
    "(0F3,3B1)OVERLAP_F_B",
    "(0F3;3B1)OVERLAP_F_B ",
    "(0F3; 3B1)OVERLAP_F_B",
    "(0F3;3B1)overlap_f_b",
    "(0F3;3B1;1B1)OVERLAP_F_B",
    "((0F3;3B1)OVERLAP_F_B;1B0)OVERLAP_F_B",
]


@pytest.mark.parametrize("text", JUNK)
def test_junk_is_refused(text: str) -> None:
    """A text that is no operation and no pair is a ConfigError that shows an operation."""
    with pytest.raises(ConfigError, match="is no operation; one looks like 2F0"):
        parse_slot(text)


@pytest.mark.parametrize("text", ["(3B1;0F3)OVERLAP_F_B", "(0F3;3I1)OVERLAP_F_B", "(0F3;3W1)OVERLAP_F_B"])
def test_a_pair_holds_a_forward_then_a_full_backward(text: str) -> None:
    """Other kinds, or the other order, are no pair; the message says what a pair holds."""
    with pytest.raises(ConfigError, match="a forward F, then a full backward B"):
        parse_slot(text)


@given(st.text(alphabet="0127FBIW();OVERLAP_ ", max_size=24))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever reads as a slot prints as one that reads the same; everything else is a ConfigError."""
    try:
        slot = parse_slot(text)
    except ConfigError:
        return
    assert parse_slot(str(slot)) == slot
    assert len(str(slot)) <= len(text)


@given(indices)
def test_numbers_are_a_bijection(index: OpIndex) -> None:
    """Every operation has its own number from 0 to size-1, and the number leads back to it."""
    all_ops = [Op(*op) for op in product(range(index.stages), index.kinds, range(index.microbatches))]
    numbers = {index.number(op) for op in all_ops}
    assert numbers == set(range(len(all_ops))) == set(range(index.size))
    assert all(index.op(index.number(op)) == op for op in all_ops)


@given(indices)
def test_rows_hold_one_stage_and_kind(index: OpIndex) -> None:
    """A row lists the microbatches of one stage and kind in order."""
    for kind in index.kinds:
        for stage, row in enumerate(index.rows(kind)):
            assert [index.op(number) for number in row] == [Op(stage, kind, mb) for mb in range(index.microbatches)]
            assert index.row(kind, stage) == row
