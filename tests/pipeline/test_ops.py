"""Operations: their text, their numbers and the table of their kinds."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, Op, Pair, make_problem
from pipesched.pipeline.problem.kinds import ALL_KINDS, KINDS, LETTERS, Resource
from pipesched.pipeline.problem.ops import OpIndex, Slot, parse_op, parse_slot

small = st.integers(0, 10**9 - 1)


def ops_of(kinds: str) -> st.SearchStrategy[Op]:
    """Operations of whole microbatches."""
    return st.builds(Op, small, st.sampled_from(kinds), small, st.just(0))


ops, pairs = ops_of("FBIW"), st.builds(Pair, ops_of("F"), ops_of("B"))


def indices_of(*letters: str) -> st.SearchStrategy[OpIndex]:
    """Indices of a few stages, microbatches and slices."""
    few = st.integers(1, 4)
    return st.builds(
        OpIndex, st.sampled_from(letters), few, few, slices=st.integers(1, 3), scoped=st.just(()), sent=st.just(())
    )


indices = indices_of("FB", "FIW", "FBIW")


def test_texts_of_the_design() -> None:
    """The two examples of the JSON reference read as what they say."""
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
    stages, microbatches, slices = range(index.stages), range(index.microbatches), range(index.slices)
    all_ops = [Op(*op) for op in product(stages, index.letters, microbatches, slices)]
    numbers = {index.number(op) for op in all_ops}
    assert numbers == set(range(len(all_ops))) == set(range(index.size))
    assert all(index.op(index.number(op)) == op for op in all_ops)


EVERY = indices_of("FB", "FIW", "FBIW", "FBR", "FIWOL", "FBIWROL")


@given(EVERY)
def test_what_a_number_says(index: OpIndex) -> None:
    """Stage, microbatch and slice, row and kind can be read off a number without its operation."""
    for number in range(index.size):
        op = index.op(number)
        unit = op.microbatch * index.slices + op.slice
        assert (index.stage_of(number), index.owner_of(number)) == (op.stage, unit)
        assert number in index.of_kind(op.kind)
        assert number in index.row(op.kind, op.stage)
        assert index.owners(index.microbatches)[number] == op.microbatch
        for kind in index.letters:
            assert index.op(index.counterpart(number, kind)) == op._replace(kind=kind)
    rows = [{index.row_of(number) for number in row} for kind in index.letters for row in index.rows(kind)]
    assert sorted(map(min, rows)) == list(range(len(rows)))
    assert all(len(row) == 1 for row in rows)


@pytest.mark.parametrize("letter", LETTERS)
def test_every_kind_is_whole(letter: str) -> None:
    """The names in the table are tables of Ticks and of the model, and letters are what they stand under."""
    kind, problem = KINDS[letter], make_problem(devices=2, microbatches=1, offload=3, placement="linear")
    assert kind.letter == letter
    assert kind.cost in problem.ticks.rows
    for column in (kind.takes, kind.gives, kind.forward_gives):
        assert problem.model.column(column).shape == (problem.stages, problem.microbatches)
    assert {need.letter for need in kind.needs} <= set(ALL_KINDS)
    assert {need.stage for need in kind.needs} <= {-1, 0, 1}
    assert kind.is_transfer == (kind.resource is not Resource.DEVICE)
