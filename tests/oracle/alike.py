"""The second replay of a Problem with microbatches that are alike, and a schedule of the package beside it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from pipesched import Problem, Schedule
from pipesched.pipeline.check.check import replayed_peaks, violations
from pipesched.pipeline.problem.ops import parse_op
from tests.oracle import replay as second
from tests.oracle.optimum import optimum as second_optimum
from tests.oracle.replay import Op, Stuck
from tests.oracle.setup import Setup, read_setup

__all__ = ["Op", "Replayed", "Stuck", "device_of", "inputs", "name", "optimum", "parts", "replay", "setup_of"]
COLUMNS = ("forward", "backward_input", "backward_weight", "recompute", "offload", "reload", "overlap", "p2p")


class Replayed(NamedTuple):
    """When each operation starts and ends, by its text, and the metrics; times in ticks, memory in grains."""

    start: dict[str, int]
    end: dict[str, int]
    makespan: int
    span: int
    busy: list[int]
    peak: list[Fraction]


@lru_cache(maxsize=16)
def setup_of(problem: Problem) -> Setup:
    """The setup of a problem whose microbatches are alike."""
    costs, memory, placement = problem.costs, problem.memory, problem.settled_placement
    config: dict[str, Any] = {key: value for key in COLUMNS if (value := getattr(costs, key)) is not None}
    config |= {key: getattr(memory, key) for key in ("activation", "retain", "checkpoint", "static", "budget")}
    config |= {"backward": costs.whole, "speed": problem.speed or 1, "links": problem.links}
    config |= {key: getattr(problem, key) for key in ("devices", "stages", "microbatches")}
    return read_setup({**config, "placement": placement.ways if placement.mirrored else placement.devices})


def replay(
    problem: Problem,
    plan: Sequence[Sequence[str]],
    lanes: Sequence[Sequence[str]] = (),
    waits: Collection[tuple[str, str]] = (),
) -> Replayed:
    """Run the slots of each device (and of each lane) in order, each as early as its inputs allow. Raises Stuck."""
    found = second.replay(setup_of(problem), plan, lanes, waits)

    def ticks(time: Fraction) -> int:
        return _whole(problem, time)

    return Replayed(
        start={op: ticks(time) for op, time in found.start.items()},
        end={op: ticks(time) for op, time in found.end.items()},
        makespan=ticks(found.makespan),
        span=ticks(found.span),
        busy=[*map(ticks, found.busy)],
        peak=[held * problem.grains.per_unit for held in found.peak],
    )


def parts(slot: str) -> list[Op]:
    """The operations in the text of a slot: one, or the forward and the backward of a pair."""
    return [Op(int(stage), kind, int(mb)) for stage, kind, mb in re.findall(r"(\d+)([FBIWROL])(\d+)", slot)]


def name(op: Op) -> str:
    """The text of an operation."""
    return f"{op.stage}{op.kind}{op.microbatch}"


def device_of(problem: Problem, stage: int, microbatch: int) -> int:
    """Where a stage of a microbatch runs; in a bidirectional pipeline the second half runs the other way."""
    return setup_of(problem).device(stage, microbatch)


def inputs(problem: Problem, op: Op, planned: Collection[Op]) -> Iterator[tuple[Op, int]]:
    """What `op` waits for among the planned operations, each with its lag in ticks."""
    setup = setup_of(problem)
    there = setup.device(op.stage, op.microbatch)
    for before in second.needs(setup, op, planned):
        lag = second.lag(setup, before, op, setup.device(before.stage, before.microbatch), there)
        yield before, _whole(problem, lag)


def optimum(problem: Problem, kinds: str) -> int | None:
    """The least makespan over all orders of `kinds` ("FB" or "FIW") within the budget, in ticks."""
    best = second_optimum(setup_of(problem), kinds)
    return None if best is None else _whole(problem, best)


def _whole(problem: Problem, time: Fraction) -> int:
    ticks = time * problem.ticks.per_unit
    assert ticks.denominator == 1
    return int(ticks)


# A schedule of the package beside the second replay.


def require_replayed(schedule: Schedule, setup: Setup | None = None) -> None:
    """No rule is broken, and every time, metric and peak is that of the second replay; alike without a setup."""
    problem, plan = schedule.problem, schedule.plan
    assert list(violations(schedule)) == []
    setup = setup or setup_of(problem)
    lanes = [[str(plan.index.op(number)) for number in lane] for pair in plan.lanes for lane in pair]
    waits = [(str(plan.index.op(before)), str(plan.index.op(after))) for before, after in plan.waits]
    rows = [[str(slot) for slot in plan.slots(device)] for device in range(len(plan.orders))]
    replayed = second.replay(setup, rows, lanes, waits)
    ticks, grains = problem.ticks.per_unit, problem.grains.per_unit
    numbers = {text: plan.index.number(parse_op(text)) for text in replayed.start}
    assert len(numbers) == len(plan)
    for text, number in numbers.items():
        assert schedule.start_ticks[number] == replayed.start[text] * ticks, text
        assert schedule.end_ticks[number] == replayed.end[text] * ticks, text
    assert schedule.makespan_ticks == replayed.makespan * ticks
    assert schedule.span_ticks == replayed.span * ticks
    assert schedule.ideal_ticks == replayed.ideal * ticks
    assert schedule.busy_ticks == [time * ticks for time in replayed.busy]
    assert schedule.bubble == float(replayed.bubble)
    assert schedule.bubble_over_ideal == float(replayed.bubble_over_ideal)
    assert schedule.bubble_span == float(replayed.bubble_span)
    assert schedule.peak_grains == [held * grains for held in replayed.peak] == replayed_peaks(schedule)
    assert schedule.memory_grains == [
        (held + static) * grains for held, static in zip(replayed.peak, setup.statics(), strict=True)
    ]
