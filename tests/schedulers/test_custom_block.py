"""The family `block`: a user's own building block."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, NotApplicable, Problem, compare, make_problem, run
from pipesched.comparing.compare import every_name
from pipesched.config.load import load_config
from pipesched.pipeline.check.check import violations
from pipesched.schedulers.registry import FAMILIES
from tests.oracle.alike import replay
from tests.strategies import problems, starts, texts_of

EXAMPLE = Path(__file__).parents[2] / "configs" / "building-block.yaml"
PLACEMENTS = ("auto", "linear", "loop", "v", "wave", "explicit")


def two(**values: Any) -> Problem:
    """Two devices, F 1 and B 2, four microbatches."""
    return make_problem(**{"devices": 2, "microbatches": 4, "activation": 1, **values})


def peak(problem: Problem, **block: Any) -> int | float:
    """The most chunks on a device, each activation being 1."""
    return max(run(problem, "block", **block).schedule.peak_grains) / problem.grains.per_unit


@given(st.data())
def test_any_block_on_any_placement(data: st.DataObject) -> None:
    """Every block that keeps the order of a microbatch runs, squeezed or not: each operation once, by the rules, and
    within the chunks that the block holds. (What lasts no time may free before another of that moment takes.)"""
    problem = data.draw(problems(PLACEMENTS, most_microbatches=8))
    block = data.draw(starts(problem.stages))
    squeeze = data.draw(st.booleans())
    schedule = run(problem, "block", **block, squeeze=squeeze).schedule
    assert list(violations(schedule)) == []
    naive = replay(schedule.problem, texts_of(schedule.plan))
    assert schedule.makespan_ticks == naive.makespan
    assert schedule.peak_grains == list(map(int, naive.peak))
    assert len(naive.start) == schedule.plan.index.size
    said = re.search(r"holds (\d+) chunks? a device by residence", schedule.plan.note)
    assert said is not None
    held = int(said[1])
    if all(schedule.graph.durations):
        assert all(_most_chunks(row) <= held for row in texts_of(schedule.plan))


def _most_chunks(row: list[str]) -> int:
    """How many forwards of a device are ever without their B or W."""
    level = most = 0
    for text in row:
        level += ("F" in text) - ("B" in text or "W" in text)
        most = max(most, level)
    return most


def test_v_min_in_ten_lines() -> None:
    """The example config is V-Min's block for P = 4: 4 chunks, 59 at M = 8 as published and as the family itself."""
    config = load_config(str(EXAMPLE), {})
    problem, asked = config.problem, config.algorithm
    assert asked is not None
    mine, family = run(problem, asked.name, **asked.options), run(problem, "v-min")
    assert (mine.algorithm, mine.schedule.makespan_ticks, mine.schedule.span_ticks) == ("block", 59, 59)
    assert (family.schedule.makespan_ticks, family.schedule.span_ticks) == (59, 59)
    assert max(mine.schedule.peak_grains) == max(family.schedule.peak_grains) == 4 * problem.grains.per_unit
    assert mine.schedule.plan.note == "the block holds 4 chunks a device by residence"


def test_1f1b_as_a_block() -> None:
    """F going down, B coming back at once, every 3: that is 1F1B, operation by operation; squeezing gains nothing."""
    problem = make_problem(devices=4, microbatches=8)
    known = run(problem, "1f1b").schedule
    block: dict[str, Any] = {"period": 3, "forward": [0, 1, 2, 3], "backward": [10, 8, 6, 4]}
    kept, squeezed = run(problem, "block", **block, squeeze=False).schedule, run(problem, "block", **block).schedule
    assert texts_of(kept.plan) == texts_of(known.plan)
    assert [one.makespan_ticks for one in (kept, squeezed)] == [known.makespan_ticks] * 2 == [33, 33]
    assert squeezed.plan.note == "the block holds 4 chunks a device by residence"


def test_squeezing_and_not() -> None:
    """A block with waits keeps them in its order only where it is not squeezed."""
    waits = {"period": 3, "forward": [0, 3], "backward": [9, 4]}
    kept = run(two(), "block", **waits, squeeze=False).schedule
    squeezed = run(two(), "block", **waits).schedule
    assert texts_of(kept.plan)[1] == ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2", "1F3", "1B3"]
    assert texts_of(kept.plan)[0][:5] == ["0F0", "0F1", "0F2", "0F3", "0B0"]
    assert squeezed.makespan_ticks <= kept.makespan_ticks
    assert max(squeezed.peak_grains) == max(kept.peak_grains) == 4


def test_peak_allows_more() -> None:
    """More than what the block holds lets forwards move further up; the note still says what the block holds."""
    block = {"period": 3, "forward": [0, 1], "backward": [4, 2]}
    assert [peak(two(), **block), peak(two(), **block, peak=3)] == [2, 3]
    assert run(two(), "block", **block, peak=3).schedule.plan.note == "the block holds 2 chunks a device by residence"


@pytest.mark.parametrize("squeeze", [True, False])
def test_a_peak_too_small(squeeze: bool) -> None:
    """Less than what the block holds is refused, and what it holds is said."""
    block: dict[str, Any] = {"period": 3, "forward": [0, 1], "backward": [4, 2], "squeeze": squeeze}
    with pytest.raises(NotApplicable, match=r"holds 2 chunks a device by residence, more than a peak of 1$") as caught:
        run(two(), "block", **block, peak=1)
    assert caught.value.key == "peak"


def test_weights_where_they_are_put() -> None:
    """W is in the first free time after I, or where the user puts it."""
    problem = make_problem(devices=1, microbatches=2, forward=1, backward_input=1, backward_weight=1)
    block: dict[str, Any] = {"period": 3, "forward": [0], "backward_input": [1], "squeeze": False}
    assert texts_of(run(problem, "block", **block).schedule.plan) == [["0F0", "0I0", "0W0", "0F1", "0I1", "0W1"]]
    late = run(problem, "block", **block, backward_weight=[5]).schedule
    assert texts_of(late.plan) == [["0F0", "0I0", "0F1", "0I1", "0W0", "0W1"]]


def test_times_are_exact() -> None:
    """Starts finer than the costs' ticks still have their order: a millionth decides."""
    block: dict[str, Any] = {"period": 3, "forward": [0, 1], "squeeze": False}
    orders = [
        texts_of(run(two(), "block", **block, backward=[Decimal(text), 2]).schedule.plan)[0][:3]
        for text in ("5.999999", "6.000001")
    ]
    assert orders == [["0F0", "0F1", "0B0"], ["0F0", "0F1", "0F2"]]


def test_a_period_that_is_too_short() -> None:
    """Where the devices work longer than the period, only the order of the block counts, and the note says so."""
    note = run(two(forward=2.5, backward=5), "block", period=3, forward=[0, 1], backward=[4, 2]).schedule.plan.note
    assert note.endswith("; its order counts, not its period 3: a device works 7.5 for a microbatch")


GOOD: dict[str, Any] = {"period": 3, "forward": [0, 1], "backward": [4, 2]}
HALVES: dict[str, Any] = {"period": 3, "forward": [0, 1], "backward_input": [3, 2]}
BAD: list[tuple[dict[str, Any], str, str | tuple[str, int]]] = [  # the block, what is said, what is at fault
    ({"forward": [0, 1], "backward": [4, 2]}, "block needs `period`, for instance period=6, forward=[0, 1]", "period"),
    ({**GOOD, "period": None}, "block needs `period`, for instance", "period"),
    ({**GOOD, "forward": None}, "block needs `forward`, for instance", "forward"),
    ({"period": 3, "forward": [0, 1]}, "block needs `backward` (or `backward_input`), for instance", "backward"),
    ({}, "block needs `period`, `forward`, `backward` (or `backward_input`), for instance", "period"),
    ({}, "(in a config: algorithm: {block: {period: 6, forward: [0, 1], backward: [4, 2]}})", "period"),
    ({**GOOD, "backward_input": [4, 2]}, "give either backward or backward_input and backward_weight", "backward"),
    ({**GOOD, "backward_weight": [4, 2]}, "give either backward or backward_input and backward_weight", "backward"),
    ({"period": 3, "forward": [0, 1], "backward_weight": [4, 2]}, "block needs `backward` (or", "backward"),
    ({**GOOD, "period": 0}, "must be more than 0, not 0", "period"),
    ({**GOOD, "period": -3}, "must be at least 0, not -3", "period"),
    ({**GOOD, "period": "six"}, "must be a number, not 'six'", "period"),
    ({**GOOD, "period": [3]}, "must be a number, not [3]", "period"),
    ({**GOOD, "forward": 0}, "must be a list with one start for each stage, not 0", "forward"),
    ({**GOOD, "forward": [0]}, "one start for each of the 2 stages in forward; this one has 1", "forward"),
    ({**GOOD, "backward": [4, 2, 0]}, "for each of the 2 stages in backward; this one has 3", "backward"),
    ({**GOOD, "forward": [0, "x"]}, "must be a number, not 'x'", ("forward", 1)),
    ({**GOOD, "forward": [0, True]}, "must be a number, not true", ("forward", 1)),
    ({**GOOD, "forward": [-1, 0]}, "must be at least 0, not -1", ("forward", 0)),
    ({**GOOD, "forward": [1, 0.5]}, "F of stage 1 starts at 0.5, before F of stage 0 at 1", ("forward", 1)),
    ({**GOOD, "backward": [4, 0.5]}, "B of stage 1 starts at 0.5, before F of stage 1 at 1", ("backward", 1)),
    ({**GOOD, "backward": [1.5, 2]}, "B of stage 0 starts at 1.5, before B of stage 1 at 2", ("backward", 0)),
    ({**HALVES, "backward_input": [1, 2]}, "I of stage 0 starts at 1, before I of stage 1 at 2", ("backward_input", 0)),
    (
        {**HALVES, "backward_weight": [3, 1]},
        "W of stage 1 starts at 1, before I of stage 1 at 2",
        ("backward_weight", 1),
    ),
]


@pytest.mark.parametrize(("block", "message", "key"), BAD)
def test_what_is_no_block(block: dict[str, Any], message: str, key: str | tuple[str, int]) -> None:
    """A bad block is told by the option at fault, and of a list by its entry."""
    with pytest.raises(ConfigError) as caught:
        run(two(), "block", **block)
    assert message in str(caught.value)
    assert (caught.value.key, caught.value.entry) == (key if isinstance(key, tuple) else (key, None))


def test_not_bidirectional() -> None:
    """Two directions at once are refused with the reason."""
    with pytest.raises(NotApplicable, match="repeats one direction") as caught:
        run(two(placement="bidirectional"), "block", **GOOD)
    assert caught.value.key == "placement"


def test_no_option_of_the_command_line() -> None:
    """What other families take is answered with the keys of a block."""
    with pytest.raises(
        NotApplicable, match="block has no option `group_size`; it takes `period`, `forward`, `backward`,"
    ):
        run(two(), "block", **GOOD, group_size=2)


def test_in_a_comparison() -> None:
    """`compare` gives a family its own options, under those for all; every name leaves a block out that nobody gave."""
    entries = compare(two(), ["1f1b", "block"], each={"block": GOOD})
    assert [entry.outcome is not None for entry in entries] == [True, True]
    assert entries[1].options == GOOD
    assert every_name({}) == [name for name in FAMILIES if name != "block"]
    assert every_name({"block": GOOD}) == list(FAMILIES)
    (grouped,) = compare(two(stages=4), ["interleaved"], each={"interleaved": {"group_size": 2}}, group_size=4)
    assert grouped.options == {"group_size": 4}
    (short,) = compare(two(devices=3), ["block"], each={"block": GOOD})
    assert (short.outcome, "for each of the 3 stages" in short.reason) == (None, True)


def test_a_period_that_is_too_long_is_told() -> None:
    """A device that works 3 on a microbatch idles half of a period of 6; one of 3 is its work."""
    problem = make_problem(devices=4, backward_input=1, backward_weight=1)
    starts = {"forward": [0, 1, 2, 3]}
    note = run(problem, "block", period=6, backward_input=[10, 8, 6, 4], **starts).schedule.plan.note
    told = "block: period 6, device 0 works 3 on a microbatch, so it idles 50% of each period"
    assert note == f"{told}; it holds 2 chunks a device by residence"
    note = run(problem, "block", period=3, backward_input=[7, 6, 5, 4], **starts).schedule.plan.note
    assert note == "the block holds 3 chunks a device by residence"


def test_the_example_of_the_page_runs_as_it_stands() -> None:
    """The first config of own-schedule.md is whole, and its period is the work of a device."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "own-schedule.md").read_text(encoding="utf-8")
    config = load_config(page.split("```yaml\n")[1].split("```")[0], {})
    assert config.algorithm is not None
    made = run(config.problem, config.algorithm.name, **config.algorithm.options)
    assert made.schedule.plan.note == "the block holds 3 chunks a device by residence"
