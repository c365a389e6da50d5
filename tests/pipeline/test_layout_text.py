"""Texts of layouts, Megatron-LM's and torchtitan's, and the search of cuts."""

from __future__ import annotations

import re
from itertools import accumulate, combinations, pairwise
from math import comb

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError
from pipesched.pipeline.layers.cutting import (
    NEARLY,
    CutTask,
    Ends,
    EverySearch,
    LaneSearch,
    RunSearch,
    least_cost,
    least_cut,
)
from pipesched.pipeline.layers.layout_text import StageItems, megatron_text, read_megatron_text, stages_of
from pipesched.pipeline.problem.placement import named_placement
from pipesched.results.handover.subject import torchtitan_modules
from tests.examples import examples

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


# Cuts of items that differ against all of them: work, memory, speeds, one stage a device and several.

ENOUGH = 10**9  # stages to look at
CHUNKS = {"linear": [1, 2], "loop": [1, 2, 3], "v": [2], "wave": [2, 4]}


def sums(values: list[int]) -> tuple[int, ...]:
    """The sums of the first 0, 1, .. values."""
    return tuple(accumulate(values, initial=0))


@st.composite
def tasks(draw: st.DrawFn) -> CutTask:
    """A small list of items to cut, for each named placement or any other, often under budgets that bind."""
    kind = draw(st.sampled_from([*CHUNKS, "any"]))
    devices, chunks = draw(st.integers(1, 4)), draw(st.sampled_from(CHUNKS.get(kind, [1, 2])))
    stages = min(devices, 8 // chunks) * chunks
    devices = stages // chunks
    listed = [device for device in range(devices) for _ in range(chunks)]
    any_order = draw(st.permutations(listed))
    holders = named_placement(kind, devices, stages).devices if kind != "any" else tuple(any_order)
    items = draw(st.integers(stages, stages + 5))

    def each(most: int) -> tuple[int, ...]:
        return sums(draw(st.lists(st.integers(0, most), min_size=items, max_size=items)))

    def of_each(strategy: st.SearchStrategy[int], count: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(strategy, min_size=count, max_size=count)))

    room = of_each(st.integers(2, 12 * chunks), devices) if draw(st.booleans()) else None
    flying = of_each(st.integers(1, 3), stages) if chunks == 1 else (1,) * stages
    return CutTask(each(9), each(2), each(3), holders, of_each(st.integers(1, 3), devices), room, flying)


def fits(task: CutTask, ends: Ends) -> bool:
    """Whether a cut is within the memory of every holder."""
    held = [0] * len(task.weights)
    for stage, (begin, end) in enumerate(pairwise((0, *ends))):
        static, size = (column[end] - column[begin] for column in (task.static, task.activation))
        held[task.holders[stage]] += static + task.flying[stage] * size
    return task.room is None or all(one <= room for one, room in zip(held, task.room, strict=True))


def least_of_all(task: CutTask) -> int | None:
    """The least cost of all cuts within memory."""
    inner = combinations(range(1, task.items), task.stages - 1)
    cuts = ((*ends, task.items) for ends in inner)
    return min((task.cost(cut) for cut in cuts if fits(task, cut)), default=None)


def holds(task: CutTask, ends: Ends | None, cost: int | None) -> bool:
    """Whether a cut is one of the task, and has that cost."""
    if ends is None:
        return cost is None
    is_cut = len(ends) == task.stages and ends[-1] == task.items and all(a < b for a, b in pairwise((0, *ends)))
    return is_cut and fits(task, ends) and task.cost(ends) == cost


@examples(500)
@given(tasks())
def test_each_search_finds_the_least_of_all_cuts(task: CutTask) -> None:
    """The chosen search, and each other that suits, answers the least cost; none where no cut is within memory."""
    least, runs, lanes = least_of_all(task), RunSearch(task), LaneSearch(task, ENOUGH)
    assert least is None or task.may_hold(task.limits(least))
    assert holds(task, least_cut(task), least)
    if runs.is_laid:
        assert holds(task, runs.best(), least)
    if len({*task.flying}) == 1:
        assert holds(task, least_cost(task, EverySearch(task).any_within), least)
        if lanes.is_laid:
            assert holds(task, least_cost(task, lanes.any_within), least)


@pytest.mark.parametrize(
    ("kind", "devices", "chunks", "items"), [("loop", 6, 2, 28), ("v", 6, 2, 28), ("wave", 3, 4, 28)]
)
def test_of_very_many_cuts_one_is_nearly_the_best(kind: str, devices: int, chunks: int, items: int) -> None:
    """With more cuts than are gone through the answer is within five thousandths of the least cost."""
    work = sums([20 + 13 * item % 17 for item in range(items)])
    none = (0,) * (items + 1)
    stages = devices * chunks
    holders = named_placement(kind, devices, stages).devices
    task = CutTask(work, none, none, holders, (1,) * devices, None, (1,) * stages)
    assert comb(items - 1, stages - 1) > 200_000
    lanes, found = LaneSearch(task, ENOUGH), least_cut(task)
    assert lanes.is_laid
    assert found is not None
    best = least_cost(task, lanes.any_within)
    assert best is not None
    assert 1000 * task.cost(found) <= (1000 + NEARLY) * task.cost(best)


def test_lanes_are_cut_within_memory_at_once() -> None:
    """A cut of lanes within tight memory, and the least cost by the pigeonhole of items, take few looks."""
    work, static = sums([1, *[4] * 29, 2]), sums([1] * 31)
    holders = named_placement("wave", 4, 16).devices
    task = CutTask(work, static, (0,) * 32, holders, (1,) * 4, (8,) * 4, (1,) * 16)
    lanes = LaneSearch(task, 2_000)
    assert lanes.is_laid
    assert not task.may_hold(task.limits(31))  # one holder has 8 of the 29: their mean is below 30
    found = least_cost(task, lanes.any_within)
    assert holds(task, found, 32)


def test_the_stages_of_a_run_share_its_items() -> None:
    """A holder with two stages side by side has them of equal numbers of items, and the least cost counts both."""
    task = CutTask(sums([1, 1, 1, 1, 1, 6]), (0,) * 7, (0,) * 7, (0, 0, 1), (1, 1), None, (1, 1, 1))
    assert least_cut(task) == [3, 5, 6]


def test_more_stages_than_items() -> None:
    """There is no cut where some stage would have nothing."""
    assert least_cut(CutTask((0, 1), (0, 0), (0, 0), (0, 1), (1, 1), None, (1, 1))) is None
