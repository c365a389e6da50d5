"""Texts of layouts: Megatron-LM's, written and read, and torchtitan's module names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.layers.layout_text import MOST, StageItems, megatron_text, read_megatron_text, stages_of
from pipesched.results.handover.subject import torchtitan_modules

EXAMPLE = "Et*9|(t*10|)*6t*10L"
EIGHT = (
    StageItems(embedding=True, layers=9),
    *[StageItems(embedding=False, layers=10)] * 6,
    StageItems(embedding=False, layers=10, head=True),
)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[StageItems, ...]:
    """Cuts of the items of a model, of which some stages may have none; several may have losses."""
    layers, mtp = draw(st.integers(0, 60)), draw(st.integers(0, 3))
    inner = draw(st.lists(st.integers(1, layers + mtp + 1), max_size=20))
    stages = stages_of([*sorted(inner), layers + mtp + 2], layers, mtp)
    more = sorted(draw(st.lists(st.integers(0, 2), max_size=3)))
    return (*stages, *(StageItems(0, 0, 0, losses) for losses in more if losses))


def as_megatron_reads(text: str) -> list[str]:
    """The letters of each stage: two substitutions, groups first, as Megatron-LM does it."""
    for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
        text = re.sub(pattern, lambda found: found[1] * int(found[2]), text)
    return text.split("|")


def test_the_example() -> None:
    """79 layers in 8 stages; with the embedding the first one has 10 items too."""
    assert read_megatron_text(EXAMPLE) == EIGHT
    assert megatron_text(EIGHT) == EXAMPLE
    assert [stage.items for stage in EIGHT] == [10] * 7 + [11]


def test_the_example_of_megatron() -> None:
    """DeepSeek-V3, of Megatron-LM's documentation: 61 layers and an MTP layer in 32 stages."""
    stages = read_megatron_text("Et*3|(tt|)*29,m|L", stages=32, layers=61, mtp=1)
    assert stages[0] == StageItems(embedding=True, layers=3)
    assert stages[-2:] == (StageItems(False, 0, mtp=1), StageItems(False, 0, head=True))
    assert megatron_text(stages) == "Et*3|(tt|)*29m|L"


@given(layouts())
def test_what_is_written_is_read_again(stages: tuple[StageItems, ...]) -> None:
    text = megatron_text(stages)
    assert read_megatron_text(text) == stages
    letters = ["E" * its.embedding + "t" * its.layers + "m" * its.mtp + "L" * its.head for its in stages]
    assert as_megatron_reads(text) == letters


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (" E t * 9 | ( t*10 | )*6 t*10, L ", EXAMPLE),
        ("E((t|)*2tt|)*3L", "Et|t|tt|t|t|tt|t|t|tt|L"),
        ("Ett*0|*1tL", "Et|tL"),
        ("E(|tt)*2|L", "E|tt|tt|L"),
        ("EL", "EL"),
    ],
)
def test_other_ways_to_write_a_layout(text: str, same: str) -> None:
    assert read_megatron_text(text) == read_megatron_text(same)


@pytest.mark.parametrize(
    ("stages", "text"),
    [
        ("Ett|tt|tt|ttL", "Ett|tt|tt|ttL"),
        ("Et*10|t*10|t*10|L", "Et*10|(t*10|)*2L"),
        ("Ett|tt|tt|tt|ttL", "Ett|(tt|)*3ttL"),
        ("Et*4|t*4|t*4|L", "Et*4|t*4|t*4|L"),
        ("E|ttt|mm|mmmL", "E|t*3|mm|m*3L"),
    ],
)
def test_groups_where_they_are_shorter(stages: str, text: str) -> None:
    assert megatron_text(read_megatron_text(stages)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have one E (embedding), not 0"),
        ("Et*9", "must have one L (head with the loss), not 0"),
        ("EtEL", "must have one E (embedding), not 2"),
        ("|EtL", "stage 0 of 2 must have E (embedding)"),
        ("EtL|", "stage 1 of 2 must have L (head with the loss)"),
        ("tE|L", "must begin with E (embedding), not t (layer)"),
        ("EtLt", "must end with L (head with the loss), not t (layer)"),
        ("EtmtL", "all t (layers) must come before the first m (MTP layer)"),
        ("ET*9L", "unknown 'T'; did you mean t? known are E (embedding), t (layer), m (MTP layer)"),
        ("Ex9L", "unknown 'x'; known are E (embedding)"),
        ("Et9L", "unknown '9'"),
        ("*2EtL", "* must follow a letter, | or a group in parentheses (at letter 1 of '*2EtL')"),
        ("Et*2*3L", "* must follow a letter, | or a group in parentheses (at letter 5"),
        ("Et*L", "* must be followed by a whole number of at most 7 digits (at letter 3"),
        ("Et*123456789L", "* must be followed by a whole number of at most 7 digits"),
        ("E(t|)L", "a group in parentheses must be followed by *n, how often it is repeated (at letter 2"),
        ("E(t|*3L", "an opening parenthesis without a closing one (at letter 2"),
        ("Et|)*3L", "a closing parenthesis without an opening one (at letter 4"),
        ("E()*3L", "a group of nothing (at letter 2"),
        ("Et*9999999L", "more than 100,000 letters with all repeats written out (at letter 2"),
        ("E((t*999)*999)*999L", "more than 100,000 letters"),
        ("E" + "(" * 60 + "t" + ")*1" * 60 + "L", "more than 50 groups inside each other"),
        ("t" * (MOST + 1), "must be a text of at most 100,000 letters, not 100,001"),
        (7, "must be a text, not 7"),
    ],
)
def test_a_text_that_is_no_layout(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read_megatron_text(text)
    assert caught.value.key == "layout"


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"stages": 7}, "has 8 stages; there must be 7"),
        ({"layers": 80}, "has 79 layers; there must be 80"),
        ({"mtp": 1}, "has 0 MTP layers; there must be 1"),
    ],
)
def test_a_layout_of_another_model(expected: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_megatron_text(EXAMPLE, **expected)
    assert read_megatron_text(EXAMPLE, stages=8, layers=79, mtp=0) == EIGHT


def test_torchtitan_names() -> None:
    """As its own generator spells them: layers are counted through, `norm` and the head stand together."""
    assert torchtitan_modules(stages_of([2, 4, 6], 4)) == [
        ["tok_embeddings", "layers.0"],
        ["layers.1", "layers.2"],
        ["layers.3", "norm", "lm_head"],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Et|mL", "torchtitan has no layers of multi-token prediction (MTP)"),
        ("Et||L", "stage 1 has none of torchtitan's modules"),
        ("Et|L|L", "torchtitan has one loss, and here 2 stand"),
    ],
)
def test_torchtitan_has_no_such_stages(text: str, message: str) -> None:
    """MTP layers, stages without a module, and several losses are refused."""
    with pytest.raises(NotApplicable, match=re.escape(message)):
        torchtitan_modules(read_megatron_text(text))


def test_stages_without_items_and_losses_on_several() -> None:
    """Two texts of DeepSeek-V3's size that people tried, and one with four losses; they read back."""
    empty = read_megatron_text("Et*3|(tt|)*14|(tt|)*15mL", stages=32, layers=61, mtp=1)
    assert [number for number, stage in enumerate(empty) if not stage.items] == [15]
    losses = read_megatron_text("E|(t|)*10m|m|m|LL|LL", stages=16, layers=10, mtp=3)
    assert [stage.head for stage in losses[-3:]] == [0, 2, 2]
    for stages in (empty, losses):
        assert read_megatron_text(megatron_text(stages)) == stages
