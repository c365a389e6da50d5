"""What a page knows of a schedule: orders, precedences, costs and memory as integers. Its times the page computes.

Orders of many operations are packed for `page/unpack.js`: differences as bytes of seven bits, compressed, as text.
Numbers come column by column, because equal neighbours compress best:

    for each device and lane: its length, the sorts of slots on it, the sort of each slot
    the microbatch of each slot (and of its backward, in a pair), less the one that its sort had last and one more;
        where they are cut into slices its place among the slices of all microbatches
    the wait edges: differences of the earlier and of the later operation
    where times are late: 1, and the start of each slot less the start of the one before it; else 0
    where operations have lengths of their own: 1, and each less the one before it; else 0
    with lengths, when the message of each was there (-1: it waited for none), in the same way
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pipesched.core.idle_time import Idle
from pipesched.core.timing import UNTIMED
from pipesched.documents.problem import problem_document
from pipesched.documents.solver import solver_document
from pipesched.documents.units import order_document
from pipesched.errors import Deadlock, NotApplicable
from pipesched.pipeline.bounds import lower_bound
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan, timed_schedule
from pipesched.render.html.step_data import step_data
from pipesched.render.html.unit_data import unit_data
from pipesched.render.marks import IDLE_MARKS
from pipesched.render.palette import HUES, colour_of, place_of
from pipesched.results.outcome import Outcome

MOST_PLAIN = 5_000  # operations: of more, orders are packed
MOST_EXACT = 2**53  # ticks: whole numbers that JavaScript holds exactly
STRIPES_OF_MARKS = {"=": "line", "~": "rise", "^": "fall", ">": "dots", "<": "dots"}
STRIPES = {letter: STRIPES_OF_MARKS[kind.mark] for letter, kind in KINDS.items() if kind.mark in STRIPES_OF_MARKS}
IDLE_LOOKS = {  # a colour, and its stripes
    Idle.WARM_UP: ("120,144,156", "dots"),
    Idle.WAIT: ("255,193,7", "rise"),
    Idle.TRANSFER: ("0,172,193", "fall"),
    Idle.ORDER: ("171,71,188", "cross"),
    Idle.MEMORY: ("239,83,80", "rise"),
    Idle.DRAIN: ("141,110,99", "fall"),
    Idle.LATE: ("66,165,245", "cross"),
    Idle.MESSAGE: ("0,121,107", "cross"),
    Idle.RUNTIME: ("66,165,245", "rise"),
}
MOST_SHADES = 16  # of the slices of a microbatch
COLUMNS = 3  # of times that may stand with a packed plan: starts, lengths, arrivals
ALONE = 0  # instead of the row of a backward: the slot is no pair
Palette = dict[tuple[int, ...], int]  # a sort of operations: its colour by kind and those by hue, 0xrrggbb; its number


def schedule_data(outcome: Outcome, name: str, palette: Palette | None = None) -> dict[str, Any]:
    """Return a schedule as the page reads it; `name` is its title. Its colours are added to `palette`.

    A row of operations is those of one kind and stage, in order of microbatches and slices; rows stand kind by kind.

    Raises NotApplicable where its times have too many digits for the page.
    """
    schedule, problem, index = outcome.schedule, outcome.problem, outcome.schedule.plan.index
    _require_exact(schedule)
    placement, bound = problem.settled_placement, outcome.bound
    return {
        "name": name,
        "algorithm": outcome.algorithm,
        "status": outcome.status,
        "problem": problem_document(problem),
        "fed": order_document(outcome) or None,
        "per": problem.ticks.per_unit,
        "grain": problem.grains.per_unit,
        "letters": index.letters,
        "kinds": [KINDS[letter].name for letter in index.letters],
        "useful": [KINDS[letter].in_ideal for letter in index.letters],
        **unit_data(problem, index),
        **({} if problem.speed is None else {"names": [*map(problem.device_name, range(problem.devices))]}),
        "tones": _tones(problem, index, {} if palette is None else palette),
        "p2p": problem.ticks.p2p if problem.links is None and not problem.has_units else problem.least_hops,
        "placement": placement.devices,
        "second": [one for one in range(problem.microbatches) if placement.is_second(one, problem.microbatches)],
        "static": [problem.static_grains(device) for device in range(problem.devices)],
        "capacity": problem.capacity_grains,
        "stored": schedule.makespan_ticks,
        "bound": {"ticks": bound.ticks, "own": lower_bound(schedule).ticks, "free": _bound_without_budget(schedule)},
        "solver": None if outcome.report is None else solver_document(outcome.report),
        **({"step": step_data(schedule, {} if palette is None else palette)} if problem.has_step else {}),
        "plan": plan_data(schedule),
    }


def looks_data(palette: Palette) -> dict[str, Any]:
    """Return the looks of operations and of the classes of idle time, as charts have them."""
    return {
        "palette": list(palette),
        "hues": len(HUES),
        "stripes": STRIPES,
        "idle": {
            idle.value: (IDLE_MARKS[idle].meaning, IDLE_MARKS[idle].letter, *look) for idle, look in IDLE_LOOKS.items()
        },
    }


def plan_data(schedule: Schedule) -> dict[str, Any]:
    """Return the orders of devices and lanes and the wait edges: as texts, or packed where there are many.

    With them starts that are later than they could be, and lengths that are the operations' own, position by position.
    """
    late, plan = _late_starts(schedule), schedule.plan
    lengths = arrived = None
    if schedule.own_lengths:
        numbers = [number for order in plan.machines for number in order]
        lengths = [schedule.graph.durations[number] for number in numbers]
        arrived = [schedule.arrival_ticks[number] if schedule.arrival_ticks else UNTIMED for number in numbers]
    if len(plan) > MOST_PLAIN and not plan.network:
        return {"packed": packed(plan, late, lengths, arrived)}
    op = plan.index.op
    return {
        "orders": [[str(slot) for slot in plan.slots(device)] for device in range(len(plan.orders))],
        "lanes": [[str(op(number)) for number in lane] for lane in (*chain(*plan.lanes), *plan.network_lanes)],
        "waits": [[str(op(before)), str(op(after))] for before, after in plan.waits],
        "starts": late,
        "lengths": lengths,
        "arrived": arrived,
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


def _one_a_way(problem: Problem) -> list[int]:
    """Return a microbatch that goes the first way, and one that goes the second, if there are two (0 for none)."""
    placement, count = problem.settled_placement, problem.microbatches
    found = {placement.is_second(part[0], count): part[0] for part in placement.directions(count)}
    return [found.get(second, 0) for second in (False, True)[: 1 + placement.mirrored]]


def _tones(problem: Problem, index: OpIndex, palette: Palette) -> list[list[int]]:
    """Return the number in `palette` of the colours of each row: a list for each direction of the microbatches."""
    placement = problem.settled_placement
    found: list[list[int]] = []
    for first in _one_a_way(problem):
        tones = []
        for letter in index.letters:
            for stage in range(index.stages):
                chunks = placement.stages_on(placement.device(stage, first, index.microbatches))
                look = letter, chunks.index(stage), len(chunks)
                shades = [place_of(shade, shades_of(index)) for shade in range(shades_of(index))]
                colours = [colour_of(None, *look)]
                colours += [colour_of(hue, *look, place) for hue in range(len(HUES)) for place in shades]
                key = tuple(red << 16 | green << 8 | blue for red, green, blue in colours)
                tones.append(palette.setdefault(key, len(palette)))
        found.append(tones)
    return found


def shades_of(index: OpIndex) -> int:
    """Return in how many shades the slices of a microbatch are drawn."""
    return min(index.slices, MOST_SHADES)


def _bound_without_budget(schedule: Schedule) -> int:
    """Return the bound in ticks that also holds for schedules over the budget."""
    memory = replace(schedule.problem.memory, budget=None)
    problem = replace(schedule.problem, memory=memory)
    free = timed_schedule(problem, schedule.plan, schedule.times, schedule.graph, own_lengths=schedule.own_lengths)
    return lower_bound(free).ticks


def _require_exact(schedule: Schedule) -> None:
    """Raise NotApplicable for times that JavaScript cannot add exactly, whatever the order."""
    durations = schedule.graph.durations
    lags = max(schedule.problem.largest_hops, default=0)
    most = max(schedule.end_ticks, default=0) + sum(durations) + lags * len(durations)
    if most * schedule.problem.devices >= MOST_EXACT:
        raise NotApplicable("html: the times of this schedule have more digits than a browser adds exactly")


def packed(plan: Plan, *columns: Sequence[int] | None) -> str:
    """Return a plan as base64 text: orders, pairs, lanes, wait edges; then starts, lengths and arrivals, if given."""
    numbers: list[int] = [len(plan.lanes)]
    units: list[int] = []
    for order in plan.machines:
        sorts: dict[tuple[int, int], int] = {}
        last: dict[int, int] = {}
        column = []
        for number in order:
            row, backward = plan.index.row_of(number), plan.pairs.get(number)
            other = ALONE if backward is None else 1 + plan.index.row_of(backward)
            column.append(sorts.setdefault((row, other), len(sorts)))
            for part in (number,) if backward is None else (number, backward):
                at, unit = divmod(part, plan.index.units)
                units.append(signed(unit - last.get(at, -1) - 1))
                last[at] = unit
        numbers += [len(order), len(sorts), *(entry for sort in sorts for entry in sort), *column]
    numbers += units
    numbers.append(len(plan.waits))
    for column_of_waits in zip(*plan.waits, strict=True):
        numbers += _differences(column_of_waits)
    for times in (*columns, None, None, None)[:COLUMNS]:
        numbers.append(int(times is not None))
        numbers += _differences(times or ())
    return compressed(_bytes(numbers))


def compressed(content: str | bytes) -> str:
    """Return a content as base64 text of its gzip, the same in every run."""
    plain = content.encode() if isinstance(content, str) else content
    return base64.b64encode(gzip.compress(plain, 9, mtime=0)).decode()


def signed(number: int) -> int:
    """Return a number without a sign: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4."""
    return 2 * number if number >= 0 else -2 * number - 1


def _differences(values: Sequence[int]) -> Iterable[int]:
    return (signed(value - before) for before, value in zip((0, *values), values, strict=False))


def _bytes(numbers: Iterable[int]) -> bytes:
    """Return numbers seven bits at a time, the lowest first; the eighth bit says that more follow."""
    found = bytearray()
    for number in numbers:
        rest = number
        while rest > 127:
            found.append(rest & 127 | 128)
            rest >>= 7
        found.append(rest)
    return bytes(found)
