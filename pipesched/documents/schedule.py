"""The JSON document of a schedule (format "pipesched.schedule"): `document` writes it, `parse` reads it back.

Before these stand its section `solver` (`solver_document`, `report_of`) and its slots; `wrong_claims` compares metrics.
Version 3 is of costs that give the whole backward beside its halves, and of messages in queues. Version 2 is of
microbatches that differ, of slices, of forward passes alone, and of steps with more than passes. All else has
version 1.

Times and memory are in the user's units. A fraction such as the activation 1/3 is written as its nearest float, and
read as the simplest fraction with that float, so the document round-trips exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from pipesched.checks import shown
from pipesched.core.timing import UNTIMED
from pipesched.documents import json_text, problem as problems
from pipesched.documents.json_text import get, nearly_equal, picked, plain_values
from pipesched.documents.problem import exact_time
from pipesched.errors import ConfigError, InvalidSchedule, WrongOperation
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.pipeline.plan.message_programs import given_programs
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, Plan, plan_from_slots, with_parts
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.ops import (
    Op,
    Pair,
    Slot,
    parse_message,
    parse_network,
    parse_op,
    parse_slot,
    parse_transfer,
)
from pipesched.pipeline.problem.placement import placement_name
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import in_units, plain
from pipesched.results.outcome import (
    CHOSEN,
    MEASURED,
    Advice,
    BestHeuristic,
    CutReport,
    Outcome,
    Repetition,
    SolveReport,
    Status,
    StoppedBy,
    TriedCut,
)
from pipesched.schedulers.ordering import BEST


def advice_of(content: object) -> tuple[Advice, ...] | None:
    """Return the advice in a document, None where it has none. Raises ConfigError for what is none."""
    if content is None:
        return None
    if not isinstance(content, list) or not all(isinstance(one, Mapping) for one in content):
        raise ConfigError(f"solver: 'advice' must be a list of changes, not {shown(content)}")
    advice = []
    for one in content:
        change, found = _text(one, "change", None, " of 'advice'"), dict[str, Any]()
        for key in ("makespan_at_most", "difference"):
            value = one.get(key)
            if not isinstance(value, (int, float, Decimal)) or isinstance(value, bool):
                raise ConfigError(f"solver: {key!r} of 'advice' must be a number, not {shown(value)}")
            found[key] = plain(Fraction(value))
        for key in ("solve", "problem"):
            value = one.get(key, {})
            if not isinstance(value, Mapping):
                what = f"must hold parameters by their names, not {shown(value)}"
                raise ConfigError(f"solver: {key!r} of 'advice' {what}")
            found[key] = plain_values(value)
        advice.append(Advice(change, **found))
    return tuple(advice)


MAKESPAN, SPAN = "makespan", "span"
MOST = 10**30


def solver_document(report: SolveReport) -> dict[str, Any]:
    """Return the report of a solve: the value of its objective, the bound on it, and where both come from."""
    best, repetition, cuts = report.heuristic, report.repetition, report.cuts
    of_cuts: dict[str, Any] = {}
    if cuts is not None:
        own = {"layout": list(cuts.layout), "chunks": cuts.chunks, "bound": cuts.bound.value, "status": cuts.status}
        of_cuts = {"cut": own, "cuts": [{**cut._asdict(), "layout": list(cut.layout)} for cut in cuts.tried]}
    return {
        "status": report.status,
        "minimize": report.objective,
        "objective": report.value,
        "bound": report.bound.value,
        **picked(report, "covers"),
        "bound_reason": report.bound.reason,
        "gap": report.gap,
        "seconds": round(report.seconds, 3),
        **picked(report, "stopped_by", "source"),
        "heuristic": None if best is None else {"source": best.source, "objective": best.value},
        **{key: list(getattr(report, key)) for key in ("placements", "cut_off", "not_tried")},
        "equal": list(report.equal),
        "repetition": None if repetition is None else repetition._asdict(),
        **({} if report.advice is None else {"advice": [one._asdict() for one in report.advice]}),
        **of_cuts,
    }


def report_of(content: Mapping[str, Any], metrics: object, schedule: Schedule) -> SolveReport:
    """Return the report in a section `solver`, with plain defaults; its value is the schedule's. Raises ConfigError."""
    objective = _word(content, "minimize", (MAKESPAN, SPAN), MAKESPAN)
    per_unit = schedule.problem.ticks.per_unit
    value = schedule.makespan_ticks if objective == MAKESPAN else schedule.span_ticks
    bound = _bound(content, "bound", per_unit, _text(content, "bound_reason", "as the document says"))
    known = metrics.get("lower_bound") if isinstance(metrics, Mapping) else None
    own = _bound({"lower_bound": 0 if known is None else known}, "lower_bound", per_unit, bound.reason)
    name = placement_name(schedule.problem.settled_placement, schedule.problem.devices)
    best = _part(content, "heuristic", "a source and an objective")
    again = _part(content, "repetition", "a placement, a period and more")
    repetition = None
    if again is not None:
        count = _count(again, "microbatches", 1, " of 'repetition'")
        period, refuted = _plain(again, "period"), _plain(again, "refuted")
        repetition = Repetition(_text(again, "placement", ""), period, count, refuted)
    return SolveReport(
        objective=objective,
        status=Status(_word(content, "status", [*map(str, Status)], "feasible")),
        value_ticks=value,
        bound=bound,
        makespan_bound=own,
        seconds=float(_number(content, "seconds")),
        stopped_by=StoppedBy(_word(content, "stopped_by", [*map(str, StoppedBy)], "search")),
        source=_text(content, "source", "unknown"),
        heuristic=None if best is None else BestHeuristic(_text(best, "source", ""), _plain(best, "objective")),
        placements=_names(content, "placements", [name]),
        equal=dict.fromkeys(_names(content, "equal", []), 0),
        repetition=repetition,
        advice=advice_of(content.get("advice")),
        cuts=_cuts_of(content, per_unit),
        covers=_text(content, "covers", CHOSEN),
        cut_off=_names(content, "cut_off", []),
        not_tried=_names(content, "not_tried", []),
    )


def wrong_solver_claims(content: Mapping[str, Any], outcome: Outcome) -> Iterator[str]:
    """Yield a sentence for each claim of a section `solver` that its schedule, or another claim, contradicts."""
    report = outcome.report
    if report is None:
        return
    claimed = Fraction(_number(content, "objective")) if "objective" in content else None
    if claimed is not None and round(claimed * report.bound.per_unit) != report.value_ticks:
        yield f"solver.objective is {plain(claimed)} in the document; its schedule has {report.value}"
    if report.bound.ticks > report.value_ticks:
        yield f"solver.bound is {report.bound.value}, above the {report.objective} of the schedule, {report.value}"
    elif (report.status == Status.OPTIMAL) != (report.bound.ticks == report.value_ticks):
        values = f"a {report.objective} of {report.value} and a bound of {report.bound.value}"
        yield f"solver.status is {report.status}, with {values}"
    reached = [one.makespan_at_most for one in report.advice or ()]
    for one in report.advice or ():
        where = f"solver.advice, {one.change}: the difference is {one.difference}"
        if one.difference >= 0:
            yield f"{where}, which does not help"
        difference = Fraction(one.makespan_at_most) - Fraction(report.value_ticks, report.bound.per_unit)
        if round((Fraction(one.difference) - difference) * report.bound.per_unit):
            yield f"{where}, and from {report.value} to {one.makespan_at_most} it is {plain(difference)}"
    if reached != sorted(reached):
        yield "solver.advice is not in the order of its makespans"


def _bound(content: Mapping[str, Any], key: str, per_unit: int, reason: str) -> Bound:
    ticks = round(Fraction(_number(content, key)) * per_unit)
    if ticks < 0:
        raise ConfigError(f"solver: {key!r} must not be negative")
    return Bound(ticks, reason, per_unit)


def _number(content: Mapping[str, Any], key: str) -> int | float | Decimal:
    value = content.get(key, 0)
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if not is_number or not -MOST < value < MOST:
        raise ConfigError(f"solver: {key!r} must be a number, not {shown(value)}")
    number: int | float | Decimal = value
    return number


def _text(content: Mapping[str, Any], key: str, default: str | None, of: str = "") -> str:
    value = content.get(key, default)
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigError(f"solver: {key!r}{of} must be one line of text, not {shown(value)}")
    return value


def _word(content: Mapping[str, Any], key: str, known: list[str] | tuple[str, ...], default: str) -> str:
    value = content.get(key, default)
    if value not in known:
        raise ConfigError(f"solver: {key!r} must be one of {', '.join(known)}, not {shown(value)}")
    return str(value)


def _part(content: Mapping[str, Any], key: str, what: str) -> Mapping[str, Any] | None:
    part = content.get(key)
    if part is not None and not isinstance(part, Mapping):
        raise ConfigError(f"solver: {key!r} must hold {what}, not {shown(part)}")
    return part


def _plain(content: Mapping[str, Any], key: str) -> int | float:
    return plain(Fraction(_number(content, key)))


def _names(content: Mapping[str, Any], key: str, default: list[str]) -> tuple[str, ...]:
    names = content.get(key, default)
    if not isinstance(names, list) or not all(isinstance(name, str) and name.isprintable() for name in names):
        raise ConfigError(f"solver: {key!r} must be a list of names, not {shown(names)}")
    return tuple(names)


def _cuts_of(content: Mapping[str, Any], per_unit: int) -> CutReport | None:
    """Return what `cut` and `cuts` say. Raises ConfigError for what is no such section."""
    own, listed = content.get("cut"), content.get("cuts", [])
    if own is None:
        return None
    if not isinstance(own, Mapping) or not isinstance(listed, list) or not all(isinstance(c, Mapping) for c in listed):
        raise ConfigError("solver: 'cut' holds a layout, chunks, a bound and a status, and 'cuts' lists such cuts")
    tried = tuple(
        TriedCut(
            chunks=_count(cut, "chunks"),
            placement=_text(cut, "placement", ""),
            layout=_layout(cut),
            work=_plain(cut, "work"),
            makespan=None if cut.get("makespan") is None else _plain(cut, "makespan"),
        )
        for cut in listed
    )
    status = Status(_word(own, "status", [*map(str, Status)], "feasible"))
    bound = _bound(own, "bound", per_unit, "as the document says")
    return CutReport(_layout(own), _count(own, "chunks"), bound, status, tried)


def _layout(content: Mapping[str, Any]) -> tuple[int, ...]:
    layout = content.get("layout")
    if not isinstance(layout, list):
        raise ConfigError(f"solver: 'layout' must list the layers of each stage, not {shown(layout)}")
    return tuple(_count({"layout": count}, "layout") for count in layout)


def _count(content: Mapping[str, Any], key: str, least: int = 0, of: str = "") -> int:
    count = _number(content, key)
    if count != int(count) or count < least:
        raise ConfigError(f"solver: {key!r}{of} must be a whole number, not {shown(count)}")
    return int(count)


class WrittenSlot(NamedTuple):
    """What stands on a device or lane, times in ticks; `after` is where it is issued."""

    slot: Slot
    start: int
    end: int
    arrived: int = UNTIMED
    after: Slot | None = None


def written_entries(problem: Problem, content: Any, key: str, read: Callable[[str], Slot]) -> list[list[WrittenSlot]]:
    """Return what a key of the document lists for each device. Raises ConfigError."""
    devices = get(content, key, list)
    if len(devices) != problem.devices:
        raise ConfigError(f"{key!r} lists {len(devices)} devices; the problem has {problem.devices}")
    if not all(isinstance(slots, list) for slots in devices):
        raise ConfigError(f"{key!r} must hold a list of slots for each device")
    rows: list[list[WrittenSlot]] = [[] for _ in devices]
    for row, one in ((row, one) for row, slots in zip(rows, devices, strict=True) for one in slots):
        slot = read(get(one, "op", str))
        start, end = _ticks(one, "start", problem), _ticks(one, "end", problem)
        arrived = _ticks(one, "arrived", problem) if "arrived" in one else UNTIMED
        after = one.get("after")
        if after is not None and not isinstance(after, str):
            raise ConfigError(f"{one.get('op')}: 'after' must be the text of a slot, or null, not {shown(after)}")
        row.append(WrittenSlot(slot, start, end, arrived, None if after is None else parse_slot(after)))
    return rows


def _ticks(content: Mapping[str, Any], key: str, problem: Problem) -> int:
    """Return the tick that a time was written for: the nearest one, if it is written that way."""
    value, scale = content.get(key), problem.ticks.per_unit
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise ConfigError(f"{content.get('op')}: {key!r} must be a number, not {shown(value)}")
    exactly = exact_time(value)  # checks the range
    ticks = round((exactly if isinstance(value, int) else Fraction(float(value))) * scale)
    if ticks < 0 or in_units(ticks, scale) != (value if isinstance(value, int) else float(value)):
        raise ConfigError(f"{content.get('op')}: {key} {shown(value)} is no sum of the problem's costs")
    return ticks


NETWORK, QUEUE = "network", "queue"


def read_issued(problem: Problem, content: dict[str, Any], key: str) -> list[list[WrittenSlot]]:
    """Return what a document says of network lanes or messages. Raises ConfigError where none may be."""
    if problem.has_step if key == NETWORK else problem.messages is not None:
        return written_entries(problem, content, key, parse_network if key == NETWORK else parse_message)
    if key in content:
        step = "with a step: costs of gather or reduce, shard, side, .."
        raise ConfigError(f"{key!r} is for a problem {step if key == NETWORK else 'whose `messages` queue'}")
    return []


def with_queue(problem: Problem, plan: Plan, rows: Sequence[Sequence[WrittenSlot]]) -> Plan:
    """Return a plan with the messages of a document. Raises InvalidSchedule for others, and for two times of one."""
    if problem.messages is None:
        return plan
    times: dict[int, tuple[WrittenSlot, int]] = {}
    made = given_programs(problem, plan, programs_of(rows))
    for device, row in enumerate(rows):
        for entry in row:
            assert isinstance(entry.slot, Op)
            other, there = times.setdefault(made.index.number(entry.slot), (entry, device))
            if (other.start, other.end) != (entry.start, entry.end):
                ends = f"{other.slot} on device {there} and {entry.slot} on device {device}"
                raise InvalidSchedule(f"{ends} are one message, but have two times")
    return made


def programs_of(network: Sequence[Sequence[WrittenSlot]]) -> list[list[tuple[Op, Op | None]]]:
    """Return the operations of each lane, each with the slot behind which it is issued, of a pair its forward."""
    return [
        [
            (entry.slot, entry.after.forward if isinstance(entry.after, Pair) else entry.after)
            for entry in row
            if isinstance(entry.slot, Op)
        ]
        for row in network
    ]


FORMAT = "pipesched.schedule"
MOST_RESOLVED = 12  # digits behind the point, of the times of a measured schedule
UNPROVED = (Status.HEURISTIC, Status.FEASIBLE)  # what may be said of any schedule


def document(outcome: Outcome) -> dict[str, Any]:
    """Return the document of a schedule: problem, metrics, slots and transfers with their times in the user's unit."""
    schedule, has_units = outcome.schedule, outcome.problem.has_units or outcome.ordering is not None
    version = json_text.VERSION_OF_UNITS if has_units or schedule.problem.has_step else json_text.VERSION
    is_latest = schedule.problem.costs.chooses or schedule.problem.messages is not None
    op, waits = schedule.plan.index.op, schedule.plan.waits
    return {
        "format": FORMAT,
        "version": json_text.VERSION_OF_BOTH if is_latest else version,
        "algorithm": outcome.algorithm,
        "status": outcome.status,
        "problem": problems.problem_document(schedule.problem),
        **problems.order_document(outcome),
        **problems.cut_document(outcome.cut),
        "metrics": outcome.metrics,
        "covers": outcome.covers,
        **_slots(schedule),
        **({"waits": [[str(op(after)), str(op(before))] for before, after in waits]} if waits else {}),
        **({} if outcome.report is None else {"solver": solver_document(outcome.report)}),
    }


def _slots(schedule: Schedule) -> dict[str, Any]:
    """Return by their keys what devices, transfers, network lanes and messages run, with times, in order.

    `after`, of what is issued, is the text of a slot, or null.
    """
    plan, problem, scale = schedule.plan, schedule.problem, schedule.problem.ticks.per_unit
    starts, ends, arrived = schedule.start_ticks, schedule.end_ticks, schedule.arrival_ticks
    text = cache(lambda number: None if number == NOTHING_BEFORE else str(plan.slot(number)))

    def entry(number: int, op: Slot, **more: Any) -> dict[str, Any]:
        return {"op": str(op), "start": in_units(starts[number], scale), "end": in_units(ends[number], scale), **more}

    found = {"devices": [[entry(number, plan.slot(number)) for number in order] for order in plan.orders]}
    if arrived:
        for number, row in zip(chain(*plan.orders), chain(*found["devices"]), strict=True):
            if arrived[number] != UNTIMED:
                row["arrived"] = in_units(arrived[number], scale)
    if plan.lanes:
        found["transfers"] = [[] for _ in range(problem.devices)]
        for move in sorted(chain(*chain(*plan.lanes)), key=lambda number: (starts[number], ends[number])):
            found["transfers"][schedule.graph.pools[move]].append(entry(move, plan.index.op(move)))
    if problem.has_step:
        found[NETWORK] = [
            [entry(number, plan.slot(number), after=text(after)) for number, after in one] for one in plan.network
        ]
    if problem.messages is not None:
        listed = (zip(*(values.tolist() for values in program), strict=True) for program in plan.messages)
        found[QUEUE] = [
            [entry(number, plan.index.end(number, sends), after=text(after)) for number, sends, after, _ in one]
            for one in listed
        ]
    return found


def parse(text: str, name: str) -> Outcome:
    """Return the schedule in a document with its times, for the caller to check. Raises ConfigError with `name`."""
    return outcome_of(json_text.parse_document(text, name), name)


def outcome_of(content: dict[str, Any], name: str) -> Outcome:
    """Return the schedule in the content of a document. Raises ConfigError with `name`."""
    try:
        json_text.require_version(content, FORMAT, "schedule", json_text.VERSION_OF_BOTH)
        problem = problems.read_problem(get(content, "problem", dict))
        ordering = problems.read_ordering(content, problem.microbatches)
        if ordering is not None and problem.placement is not None:  # its microbatches go the ways that it feeds them
            problem = replace(problem, placement=problem.placement.fed(ordering.order))
        schedule = _schedule(problem, content)
        if isinstance(content.get("metrics"), dict):
            json_text.require_metrics(content["metrics"], "metrics.")
        report = None
        if "solver" in content:
            for key in {"objective", "gap"} & {*get(content, "solver", dict)}:
                json_text.require_finite(content["solver"][key], f"solver.{key}")
            report = report_of(get(content, "solver", dict), content.get("metrics"), schedule)
        if ordering is not None and ordering.rule != BEST and schedule.problem.has_units:
            ordering = None if ordering.order == schedule.order else ordering  # it says more than its schedule does
        return Outcome(schedule.plan.name, schedule, report, ordering, cut=problems.read_cut(content))
    except ConfigError as error:
        if isinstance(error, WrongOperation) and error.key == "network":
            raise InvalidSchedule(error.message) from None  # a program that breaks a rule, as others that `check` finds
        kind = WrongOperation if isinstance(error, WrongOperation) else ConfigError
        raise kind(f"{name}: {error}") from None


def wrong_claims(text: str, outcome: Outcome) -> Iterator[str]:
    """Yield a sentence for each metric of a document that is not that of its own schedule, and for false claims.

    A bound may be higher than ours, since whoever wrote the document may know a better one, but not above the makespan.
    """
    content = json.loads(text)
    claimed, ours = content.get("metrics"), outcome.metrics
    if isinstance(claimed, dict):
        others = {name: own for name, own in ours.items() if name not in ("lower_bound", "gap")}
        yield from _wrong_metrics("metrics", claimed, others)
        bound, makespan = claimed.get("lower_bound", ours["lower_bound"]), ours["makespan"]
        if bound is not None:
            if bound > makespan and not nearly_equal(bound, makespan):
                yield f"metrics.lower_bound is {shown(bound)} in the document, above the makespan, {shown(makespan)}"
            gap = (makespan - bound) / bound if bound else 0.0
            if not nearly_equal(claimed.get("gap", gap), gap):
                said = f"metrics.gap is {shown(claimed['gap'])} in the document"
                yield f"{said}; makespan and lower bound have {shown(gap)}"
    yield from problems.wrong_order(outcome)
    layers, cut = outcome.problem.layers, outcome.cut
    if cut is not None and layers is not None and cut.layout != layers.layout:
        yield f"cut.layout is {shown([*cut.layout])} in the document; its problem has {shown([*layers.layout])}"
    status = content.get("status", outcome.status)
    known = (outcome.status,) if outcome.report is not None else (outcome.status, *UNPROVED)
    if status not in known:
        yield f"status is {shown(status)} in the document; its schedule is {outcome.status}"
    if isinstance(content.get("solver"), dict):
        yield from wrong_solver_claims(content["solver"], outcome)


def _wrong_metrics(where: str, claimed: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    for name, own in ours.items():
        theirs = claimed.get(name, own)
        if isinstance(own, dict) and isinstance(theirs, dict):
            yield from _wrong_metrics(f"{where}.{name}", theirs, own)
        elif not nearly_equal(theirs, own):
            yield f"{where}.{name} is {shown(theirs)} in the document; its schedule has {shown(own)}"


def _schedule(problem: Problem, content: dict[str, Any]) -> Schedule:
    """Return the schedule that a document lists, with its times; measured ones set how fine the ticks are."""
    if problem.placement is None:
        raise ConfigError('problem.placement must be a list of devices or "bidirectional"')
    name = content.get("algorithm", "unknown")
    if not isinstance(name, str) or not name.isprintable():
        raise ConfigError(f"'algorithm' must be one line of text, not {shown(name)}")
    is_measured = name == MEASURED
    if is_measured:
        written = (row for key in ("devices", "transfers", "network") for row in _lists(content.get(key)))
        found = (entry for row in written for entry in _lists(row) if isinstance(entry, dict))
        times = (entry.get(key) for entry in found for key in ("start", "end", "arrived"))
        places = max((-time.as_tuple().exponent for time in times if isinstance(time, Decimal)), default=0)  # type: ignore[operator]
        resolution = int(10 ** min(max(places, 0), MOST_RESOLVED))  # which makes the times whole numbers
        problem = replace(problem, costs=replace(problem.costs, resolution=resolution))
    rows = written_entries(problem, content, "devices", parse_slot)
    moves = written_entries(problem, content, "transfers", parse_transfer) if "transfers" in content else []
    network, queue = (read_issued(problem, content, key) for key in (NETWORK, QUEUE))
    slots = [[entry.slot for entry in row] for row in rows]
    by_time = [sorted(lane, key=lambda entry: (entry.start, entry.end)) for lane in moves]
    transfers = ([entry.slot for entry in lane if isinstance(entry.slot, Op)] for lane in by_time)
    pairs = get(content, "waits", list) if "waits" in content else []
    if not all(isinstance(pair, list) and len(pair) == 2 and all(isinstance(t, str) for t in pair) for pair in pairs):
        raise ConfigError("'waits' must hold pairs of operations: [later, earlier]")
    waits = [(parse_op(earlier), parse_op(later)) for later, earlier in pairs]
    sizes = problem.stages, problem.microbatches
    programs, sides = programs_of(network), len(problem.side)
    plan = plan_from_slots(slots, *sizes, transfers, waits, problem.slices.count, programs, sides)
    plan = with_queue(problem, with_parts(plan, name=name), queue)
    starts, ends, arrived = ([UNTIMED] * plan.index.size for _ in range(3))
    for entry in chain(*rows, *moves, *network, *queue):
        for op in entry.slot if isinstance(entry.slot, Pair) else (entry.slot,):
            number = plan.index.number(op)
            starts[number], ends[number], arrived[number] = entry.start, entry.end, entry.arrived
    if is_measured:
        return Schedule(problem, plan, starts, ends, own_lengths=True, arrival_ticks=arrived)
    schedule = Schedule(problem, plan, starts, ends)
    scale = schedule.problem.ticks.per_unit
    if max(schedule.end_ticks, default=0) < 2**52:
        return schedule
    try:
        replay = schedule_plan(schedule.problem, schedule.plan)
    except InvalidSchedule:
        return schedule
    # The replay, if it is written the same: floats end at 17 digits, ticks do not.
    each = zip([*schedule.start_ticks, *schedule.end_ticks], [*replay.start_ticks, *replay.end_ticks], strict=True)
    return replay if all(in_units(old, scale) == in_units(new, scale) for old, new in each) else schedule


def _lists(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
