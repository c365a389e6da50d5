"""The JSON document of a schedule (format "pipesched.schedule", version 1): writing it, and reading it back.

Times and memory are in the user's units. A fraction such as the activation 1/3 is written as its nearest float, and
read as the simplest fraction with that float, so the document round-trips exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from math import isclose
from typing import Any, NamedTuple

from pipesched.config.fields import BY_KEY, SECTIONS, keys_of
from pipesched.core.timing import UNTIMED
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.outcome import Outcome, SolveReport
from pipesched.pipeline.ops import Op, Pair, Slot, parse_slot, parse_transfer
from pipesched.pipeline.plan import plan_from_slots
from pipesched.pipeline.problem import Problem, make_problem
from pipesched.pipeline.quantities import in_units, parse_number, plain, shown, simplest
from pipesched.pipeline.schedule import Schedule, assemble, schedule_plan

FORMAT, VERSION = "pipesched.schedule", 1
MOST_BYTES = 200_000_000
MOST_PLACES = 30  # digits before or behind the point


def document(outcome: Outcome) -> dict[str, Any]:
    """The whole document."""
    schedule = outcome.schedule
    solver = {} if outcome.report is None else {"solver": solver_document(outcome.report, schedule.problem.costs.scale)}
    return {
        "format": FORMAT,
        "version": VERSION,
        "algorithm": outcome.algorithm,
        "status": outcome.status,
        "problem": problem_document(schedule.problem),
        "metrics": metrics_document(outcome),
        "devices": [list(_slots(schedule, device)) for device in range(schedule.problem.devices)],
        **({"transfers": _transfers(schedule)} if schedule.plan.lanes else {}),
        **solver,
    }


def solver_document(report: SolveReport, scale: int) -> dict[str, Any]:
    """What a solve knows: the value of its objective, the bound on it, and what they rest on."""
    heuristic = None
    if report.heuristic is not None:
        heuristic = {"source": report.heuristic[0], "objective": in_units(report.heuristic[1], scale)}
    return {
        "status": report.status,
        "minimize": report.objective,
        "objective": in_units(report.value, scale),
        "bound": in_units(report.bound.ticks, scale),
        "bound_reason": report.bound.reason,
        "gap": report.gap,
        "seconds": round(report.seconds, 3),
        "stopped_by": report.stopped_by,
        "source": report.source,
        "heuristic": heuristic,
        "placements": list(report.placements),
    }


def metrics_document(outcome: Outcome) -> dict[str, Any]:
    """Every metric of DESIGN section 3, in the user's units."""
    schedule = outcome.schedule
    time, memory = schedule.problem.costs.scale, schedule.problem.memory.scale
    return {
        "makespan": in_units(schedule.makespan, time),
        "span": in_units(schedule.span, time),
        "ideal": in_units(schedule.ideal, time),
        "bubble": schedule.bubble,
        "bubble_over_ideal": schedule.bubble_over_ideal,
        "bubble_span": schedule.bubble_span,
        "lower_bound": in_units(outcome.bound.ticks, time),
        "gap": outcome.gap,
        "idle": [in_units(value, time) for value in schedule.idle],
        "busy": [in_units(value, time) for value in schedule.busy],
        "peak_memory": [in_units(value, memory) for value in schedule.peak_memory],
        "fits": schedule.fits,
    }


def problem_document(problem: Problem) -> dict[str, Any]:
    """The resolved config, every default filled in."""
    costs, memory, home = problem.costs, problem.memory, problem.placement

    def times(values: Sequence[int] | None) -> Any:
        return None if values is None else _one_or_list([in_units(value, costs.scale) for value in values])

    def sizes(values: Sequence[int] | None) -> Any:
        return None if values is None else _one_or_list([in_units(value, memory.scale) for value in values])

    halves = {"backward_input": times(costs.backward_input), "backward_weight": times(costs.backward_weight)}
    return {
        "name": problem.name,
        "devices": problem.devices,
        "stages": problem.stages,
        "microbatches": problem.microbatches,
        "placement": "auto" if home is None else "bidirectional" if home.mirrored else list(home.devices),
        "time_unit": problem.time_unit,
        "lanes": problem.lanes,
        "costs": {
            "forward": times(costs.forward),
            **(halves if costs.split else {"backward": times(costs.backward)}),
            "recompute": times(costs.recompute),
            "overlap": times(costs.overlap),
            "p2p": times(costs.p2p),
            "offload": times(costs.offload),
            "reload": times(costs.reload),
        },
        "memory": {
            "unit": memory.unit,
            "activation": sizes(memory.activation),
            "retain": _one_or_list([plain(value) for value in memory.retain]),
            "checkpoint": _one_or_list([plain(value) for value in memory.checkpoint]),
            "static": sizes(memory.static),
            "budget": sizes(memory.budget),
        },
    }


def _one_or_list(values: list[int | float]) -> Any:
    """One number when all are equal (0 when there is none), else the list."""
    if not values:
        return 0
    return values[0] if all(value == values[0] for value in values) else values


def _slots(schedule: Schedule, device: int) -> Iterator[dict[str, Any]]:
    scale, ends = schedule.problem.costs.scale, schedule.ends
    for number, slot in zip(schedule.plan.orders[device], schedule.plan.slots(device), strict=True):
        yield {
            "op": str(slot),
            "start": in_units(schedule.starts[number], scale),
            "end": in_units(ends[number], scale),
        }


def _transfers(schedule: Schedule) -> list[list[dict[str, Any]]]:
    """The offloads and loads of each device, in order of time."""
    index, scale = schedule.plan.index, schedule.problem.costs.scale
    rows: list[list[dict[str, Any]]] = [[] for _ in range(schedule.problem.devices)]
    moves = chain.from_iterable(chain.from_iterable(schedule.plan.lanes))
    for move in sorted(moves, key=lambda number: (schedule.starts[number], schedule.ends[number])):
        start, end = in_units(schedule.starts[move], scale), in_units(schedule.ends[move], scale)
        rows[schedule.graph.pools[move]].append({"op": str(index.op(move)), "start": start, "end": end})
    return rows


def dump(content: Mapping[str, Any]) -> str:
    """A document as text: one line a key, a slot or a row, so that files can be compared line by line."""
    lines = (f"  {json.dumps(key)}: {_lines(value, '    ')}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(value: Any, indent: str) -> str:
    """Objects in lists on a line each; everything else on one line."""
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        inner = ",\n".join(indent + _lines(entry, indent + "  ") for entry in value)
        return f"[\n{inner}\n{indent[2:]}]"
    return json.dumps(value, allow_nan=False)


def parse(text: str, name: str) -> Outcome:
    """The schedule in a document, with the times that stand in it. Raises ConfigError with `name`.

    The caller checks it: a foreign document may break the rules of its problem.
    """
    try:
        content = json.loads(
            text, parse_float=parse_number, parse_constant=_no_constant, object_pairs_hook=_no_duplicates
        )
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is no JSON document: {error}") from None
    try:
        _require_version(content)
        problem = _problem(_get(content, "problem", dict))
        return Outcome(_algorithm(content), _schedule(problem, content))
    except ConfigError as error:
        key = f"{error.key}: " if error.key else ""
        raise ConfigError(f"{name}: {key}{error}") from None


def wrong_claims(text: str, outcome: Outcome) -> Iterator[str]:
    """The metrics that a document claims and its own schedule does not have, one sentence each.

    Bounds are not compared: whoever wrote the document may know a better one.
    """
    claimed = json.loads(text).get("metrics")
    for name, ours in metrics_document(outcome).items():
        theirs = claimed.get(name, ours) if isinstance(claimed, dict) else ours
        if name not in ("lower_bound", "gap") and not _same(theirs, ours):
            yield f"metrics.{name} is {shown(theirs)} in the document; its schedule has {shown(ours)}"


def _same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of a float that another program computed."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool) or not isinstance(one, (int, float)):
        return type(one) is type(other) and bool(one == other)
    return isinstance(other, (int, float)) and isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return content


def _require_version(content: Any) -> None:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ConfigError(f'is no schedule: it lacks "format": "{FORMAT}"')
    version = content.get("version")
    if version != VERSION or isinstance(version, bool):
        raise ConfigError(f"has version {shown(version)} of {FORMAT}; this pipesched knows version {VERSION}")


def _algorithm(content: Mapping[str, Any]) -> str:
    name = content.get("algorithm", "unknown")
    if not isinstance(name, str) or not name.isprintable():
        raise ConfigError(f"'algorithm' must be one line of text, not {shown(name)}")
    return name


def _get(content: Any, key: str, kind: type) -> Any:
    if not isinstance(content, dict) or not isinstance(content.get(key), kind):
        raise ConfigError(f"{key!r} is missing, or of the wrong type")
    return content[key]


def _problem(content: dict[str, Any]) -> Problem:
    values: dict[str, Any] = {}
    for section, read in (("", _as_it_is), ("costs", _exact_time), ("memory", _exact_size)):
        part = _get(content, section, dict) if section else content
        for key, value in part.items():
            full = f"{section}.{key}" if section else key
            if full in BY_KEY:
                values[BY_KEY[full].name] = _numbers(value, read)
            elif section or key not in SECTIONS:
                raise ConfigError(f"unknown key; known here are {', '.join(keys_of(section))}", f"problem.{full}")
    if "devices" not in values:
        raise ConfigError("'devices' is missing in 'problem'")
    return make_problem(**values)


def _numbers(value: Any, read: Callable[[int | Decimal], Any]) -> Any:
    if isinstance(value, list):
        return [_numbers(entry, read) for entry in value]
    return read(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else value


def _as_it_is(value: int | Decimal) -> int | Decimal:
    return value


def _exact_time(value: int | Decimal) -> Fraction:
    if value and not -MOST_PLACES < Decimal(value).adjusted() < MOST_PLACES:
        raise ConfigError(f"{shown(value)} is out of range")
    return Fraction(value)


def _exact_size(value: int | Decimal) -> Fraction:
    time_or_size = _exact_time(value)  # checks the range
    return simplest(value) if isinstance(value, Decimal) else time_or_size


class _Entry(NamedTuple):
    """A slot or a transfer of a document, with its times in ticks."""

    slot: Slot
    start: int
    end: int


def _schedule(problem: Problem, content: dict[str, Any]) -> Schedule:
    if problem.placement is None:
        raise ConfigError('problem.placement must be a list of devices or "bidirectional"')
    rows = _entries(problem, content, "devices", parse_slot)
    moves = _entries(problem, content, "transfers", parse_transfer) if "transfers" in content else []
    plan = plan_from_slots(
        [[entry.slot for entry in row] for row in rows], problem.stages, problem.microbatches, _lanes(problem, moves)
    )
    starts, ends = [UNTIMED] * plan.index.size, [UNTIMED] * plan.index.size
    for entry in chain(*rows, *moves):
        for op in entry.slot if isinstance(entry.slot, Pair) else (entry.slot,):
            number = plan.index.number(op)
            starts[number], ends[number] = entry.start, entry.end
    return _as_written(assemble(problem, plan, starts, ends))


def _entries(problem: Problem, content: Any, key: str, read: Callable[[str], Slot]) -> list[list[_Entry]]:
    """What a key of the document lists for each device."""
    devices = _get(content, key, list)
    if len(devices) != problem.devices:
        raise ConfigError(f"{key!r} lists {len(devices)} devices; the problem has {problem.devices}")
    if not all(isinstance(slots, list) for slots in devices):
        raise ConfigError(f"{key!r} must hold a list of slots for each device")
    return [
        [_Entry(read(_get(slot, "op", str)), *(_ticks(slot, end, problem) for end in ("start", "end"))) for slot in row]
        for row in devices
    ]


def _lanes(problem: Problem, moves: Sequence[Sequence[_Entry]]) -> Iterator[tuple[list[Op], list[Op]]]:
    """The transfers of each pair of lanes, out and back, in the order of their times."""
    for lane in range(problem.lane_count if moves else 0):
        row = [entry for device, entries in enumerate(moves) if problem.lane(device) == lane for entry in entries]
        row.sort(key=lambda entry: entry[1:])
        ops = [entry.slot for entry in row if isinstance(entry.slot, Op)]
        yield [op for op in ops if op.kind == "O"], [op for op in ops if op.kind == "L"]


def _ticks(content: Mapping[str, Any], key: str, problem: Problem) -> int:
    """The tick that a time was written for: the nearest one, if it is written that way."""
    value, scale = content.get(key), problem.costs.scale
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise ConfigError(f"{content.get('op')}: {key!r} must be a number, not {shown(value)}")
    ticks = round(_exact_time(value) * scale)
    if ticks < 0 or in_units(ticks, scale) != (value if isinstance(value, int) else float(value)):
        raise ConfigError(f"{content.get('op')}: {key} {shown(value)} is no sum of the problem's costs")
    return ticks


def _as_written(schedule: Schedule) -> Schedule:
    """`schedule`, or the replay of its plan if that is written the same way: floats end at 17 digits, ticks do not."""
    scale = schedule.problem.costs.scale
    if max(schedule.ends, default=0) < 2**53:
        return schedule
    try:
        replay = schedule_plan(schedule.problem, schedule.plan)
    except InvalidSchedule:
        return schedule
    written = zip([*schedule.starts, *schedule.ends], [*replay.starts, *replay.ends], strict=True)
    return replay if all(in_units(old, scale) == in_units(new, scale) for old, new in written) else schedule
