"""What a page knows of a schedule: orders, costs, placement and memory as integers. Its times the page computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipesched.errors import Deadlock, NotApplicable
from pipesched.file_formats.schedule_json import problem_document
from pipesched.file_formats.solver_json import solver_document
from pipesched.outcome import Outcome
from pipesched.pipeline.bounds import lower_bound
from pipesched.pipeline.kinds import KINDS, Resource
from pipesched.pipeline.schedule import Schedule, schedule_plan, timed_schedule
from pipesched.render.html.packing import packed
from pipesched.render.palette import CHUNK_STEP, FALLING, HUES, KIND_SHADE

MOST_PLAIN = 5_000  # operations: of more, orders are packed
MOST_EXACT = 2**53  # ticks: whole numbers that JavaScript holds exactly
RESOURCES = (Resource.DEVICE, Resource.D2H, Resource.H2D)


def schedule_data(outcome: Outcome, name: str) -> dict[str, Any]:
    """Return a schedule as the page reads it; `name` is its title.

    Raises NotApplicable where its times have too many digits for the page.
    """
    schedule, problem, plan = outcome.schedule, outcome.problem, outcome.schedule.plan
    _require_exact(schedule)
    placement, bound = problem.settled_placement, outcome.bound
    return {
        "name": name,
        "algorithm": outcome.algorithm,
        "status": outcome.status,
        "problem": problem_document(problem),
        "perUnit": problem.ticks.per_unit,
        "perGrain": problem.grains.per_unit,
        "letters": plan.index.letters,
        "kinds": [_kind(schedule, letter) for letter in plan.index.letters],
        "p2p": list(problem.ticks.p2p),
        "overlap": None if problem.ticks.overlap is None else _short(problem.ticks.overlap),
        "placement": list(placement.devices),
        "mirrored": placement.mirrored,
        "static": [problem.static_grains(device) for device in range(problem.devices)],
        "capacity": list(problem.capacity_grains),
        "makespan": schedule.makespan_ticks,
        "bound": {"ticks": bound.ticks, "reason": bound.reason, "own": lower_bound(schedule).ticks},
        "unlimited": _bound_without_budget(schedule),
        "solver": None if outcome.report is None else solver_document(outcome.report),
        **orders_data(schedule),
    }


def colours_data() -> dict[str, Any]:
    """Return the colours of operations, as charts have them."""
    return {
        "hues": HUES,
        "shades": {letter: [*colour, part] for letter, (colour, part) in KIND_SHADE.items()},
        "falling": FALLING,
        "step": CHUNK_STEP,
    }


def orders_data(schedule: Schedule) -> dict[str, Any]:
    """Return the orders of devices and lanes and the wait edges: as texts, or packed where there are many.

    With them starts that are later than they could be, and lengths that are the operations' own, position by position.
    """
    late, plan = _late_starts(schedule), schedule.plan
    lengths = None
    if schedule.own_lengths:
        lengths = [schedule.graph.durations[number] for order in plan.machines for number in order]
    if len(plan) > MOST_PLAIN:
        return {"packed": packed(plan, late, lengths)}
    op = plan.index.op
    return {
        "orders": [[str(slot) for slot in plan.slots(device)] for device in range(len(plan.orders))],
        "lanes": [[str(op(number)) for number in lane] for pair in plan.lanes for lane in pair],
        "waits": [[str(op(after)), str(op(before))] for before, after in plan.waits],
        "starts": late,
        "lengths": lengths,
    }


def _late_starts(schedule: Schedule) -> list[int] | None:
    """Return the starts by device (then lane) and position, if some are later than they could be, else None."""
    starts = schedule.start_ticks
    if schedule.own_lengths:
        return [starts[number] for order in schedule.plan.machines for number in order]
    try:
        if all(map(int.__eq__, schedule_plan(schedule.problem, schedule.plan).start_ticks, starts)):
            return None
    except Deadlock:  # operations of no length that wait for each other: their times stand
        pass
    return [starts[number] for order in schedule.plan.machines for number in order]


def _kind(schedule: Schedule, letter: str) -> dict[str, Any]:
    """Return a kind of operations with what each stage's last, take and give."""
    kind, problem = KINDS[letter], schedule.problem
    grains = problem.grains
    return {
        "letter": letter,
        "name": kind.name,
        "duration": _short(problem.ticks.of(letter) or (0,) * problem.stages),
        "takes": _short(grains.of(kind.takes)),
        "gives": _short(grains.of(kind.gives)),
        "forwardGives": None if kind.forward_gives is None else _short(grains.of(kind.forward_gives)),
        "needs": [list(need) for need in kind.needs if need.letter in schedule.plan.index.letters],
        "lane": RESOURCES.index(kind.resource),
        "ideal": kind.in_ideal,
    }


def _short(values: Sequence[int]) -> int | list[int]:
    """Return one number where all are equal, else the list."""
    return values[0] if len(set(values)) == 1 else list(values)


def _bound_without_budget(schedule: Schedule) -> int:
    """Return the bound in ticks that also holds for schedules over the budget."""
    memory = replace(schedule.problem.memory, budget=None)
    problem = replace(schedule.problem, memory=memory)
    times = schedule.start_ticks, schedule.end_ticks
    free = timed_schedule(problem, schedule.plan, *times, schedule.graph, own_lengths=schedule.own_lengths)
    return lower_bound(free).ticks


def _require_exact(schedule: Schedule) -> None:
    """Raise NotApplicable for times that JavaScript cannot add exactly, whatever the order."""
    durations = schedule.graph.durations
    lags = max(schedule.problem.ticks.p2p, default=0)
    most = max(schedule.end_ticks, default=0) + sum(durations) + lags * len(durations)
    if most * schedule.problem.devices >= MOST_EXACT:
        raise NotApplicable("html: the times of this schedule have more digits than a browser adds exactly")
