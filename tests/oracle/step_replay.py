"""A second replay of whole steps: who waits for whom, legal programs, memory, times, the rule of families."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tests.oracle.replay import Stuck, lag, memory_moves, needs, slot_duration
from tests.oracle.setup import ZERO
from tests.oracle.step_setup import NETWORK, WORKS, Op, Program, Step, parse, parts

Inputs = Iterator[tuple[str, Fraction]]  # what is waited for, and the latency from there


class Texts(NamedTuple):
    """A plan: slots by device, network programs by device, transfers by lane to host memory, waits (before, behind)."""

    rows: Sequence[Sequence[str]]
    programs: Sequence[Program] = ()
    transfers: Sequence[Sequence[str]] = ()
    waits: Collection[tuple[str, str]] = ()

    def devices(self) -> dict[str, int]:
        """The device of each operation by its text."""
        device_of = {text: device for device, row in enumerate(self.rows) for slot in row for text in parts(slot)}
        device_of |= {text: device for device, program in enumerate(self.programs) for text, _ in program}
        moved = [text for row in self.transfers for text in row]
        return device_of | {text: device_of[text.replace("O", "F").replace("L", "F")] for text in moved}


class Node(NamedTuple):
    """A slot or a network operation: its operations, and how long it lasts."""

    ops: tuple[str, ...]
    duration: Fraction

    @property
    def kind(self) -> str:
        """The kind of the (first) operation."""
        return parse(self.ops[0]).kind


class Graph(NamedTuple):
    """What runs, and who waits for whom: of each node its inputs, as (node, latency)."""

    nodes: list[Node]
    inputs: list[list[tuple[int, Fraction]]]
    node_of: dict[str, int]  # by the text of an operation
    slots: list[list[int]]  # of each device
    lanes: list[list[int]]  # of each device, the network operations that occupy its lane


def graph_of(step: Step, plan: Texts) -> Graph:
    """The graph of a plan."""
    graph = Graph([], [], {}, [], [])
    device_of = plan.devices()
    for device, row in enumerate(plan.rows):
        graph.slots.append([_add(graph, parts(slot), _lasts(step, parts(slot), device)) for slot in row])
    chains = [*graph.slots]
    chains += [[_add(graph, [text], _lasts(step, [text], device_of[text])) for text in row] for row in plan.transfers]
    tied = [text for program in plan.programs for text, _ in program if parse(text).kind == "REDUCE_TIED"]
    if tied:
        _add(graph, tied, _lasts(step, tied, 0))
    for device, program in enumerate(plan.programs):
        for text, _ in program:
            if text not in tied:
                _add(graph, [text], _lasts(step, [text], device))
        graph.lanes.append([graph.node_of[text] for text, _ in program if parse(text).kind in NETWORK])
    for one, other in (pair for chain in [*chains, *graph.lanes] for pair in pairwise(chain)):
        graph.inputs[other].append((one, ZERO))
    for text, number in graph.node_of.items():
        graph.inputs[number] += (
            (graph.node_of[before], late) for before, late in needs_of(step, plan, device_of, text)
        )
    for before, behind in [*_issues(plan), *plan.waits]:
        graph.inputs[graph.node_of[behind]].append((graph.node_of[before], ZERO))
    return graph


def _add(graph: Graph, ops: Sequence[str], duration: Fraction) -> int:
    for text in ops:
        assert text not in graph.node_of, text
        graph.node_of[text] = len(graph.nodes)
    graph.nodes.append(Node(tuple(ops), duration))
    graph.inputs.append([])
    return len(graph.nodes) - 1


def _lasts(step: Step, ops: Sequence[str], device: int) -> Fraction:
    first = parse(ops[0])
    if first.is_pass:
        return slot_duration(step.setup, [parse(text).as_pass for text in ops], device)
    return ZERO if first.kind == "RESHARD" else step.duration(first, device)


def _issues(plan: Texts) -> Iterator[tuple[str, str]]:
    """Each network operation that is issued behind a slot, with (an operation of) that slot before it."""
    for program in plan.programs:
        yield from ((parts(after)[0], text) for text, after in program if after is not None)


def needs_of(step: Step, plan: Texts, device_of: dict[str, int], text: str) -> Inputs:
    """What an operation waits for beside its device, its lane and its program."""
    op = parse(text)
    if op.is_pass:
        yield from _of_pass(step, plan, device_of, text)
    elif op.kind == "RESHARD":
        yield f"{op.stage}UNSHARD{op.number}", ZERO
    elif op.kind == "UNSHARD":
        yield from _of_gather(step, plan, device_of, text) if step.gathers_late else ()
    elif op.kind == "G":
        item = step.side[op.stage]
        yield f"{op.stage}E{op.number}", ZERO
        for one, device in device_of.items():
            back = parse(one)
            if back.kind in ("B", "I") and (back.stage, back.number) == (item.into, op.number):
                yield one, item.p2p if device != device_of[text] else ZERO
    else:
        yield from ((one, ZERO) for one in device_of if _comes_before(step, parse(one), op))


def _of_gather(step: Step, plan: Texts, device_of: dict[str, int], text: str) -> Inputs:
    """What the slot that a gather is for waits for beside its own gathers: that is when the gather begins."""
    op, device = parse(text), device_of[text]
    row, program = plan.rows[device], plan.programs[device]
    for slot in row:
        turns = [turn_of(row, program, one) for one in parts(slot) if parse(one).stage == op.stage]
        if parse(parts(slot)[0]).kind in WORKS and op.number in turns:
            for one in parts(slot):
                of_pass = _of_pass(step, plan, device_of, one)
                yield from ((before, late) for before, late in of_pass if parse(before).kind != "UNSHARD")
            return


def _comes_before(step: Step, one: Op, op: Op) -> bool:
    """Whether REDUCE_GRAD, REDUCE_TIED or OPTIMIZER waits for an operation."""
    if op.kind == "REDUCE_GRAD":
        return one.kind in ("B", "W") and one.stage == op.stage and op.number in (None, one.number)
    if op.kind == "REDUCE_TIED":
        return one.kind in ("B", "W", "REDUCE_GRAD") and one.stage in step.ends
    if op.kind == "OPTIMIZER":
        if one.kind == "REDUCE_TIED":
            return step.clip or op.stage in step.ends
        return one.kind in ("B", "W", "REDUCE_GRAD") and (step.clip or one.stage == op.stage)
    return False


def _of_pass(step: Step, plan: Texts, device_of: dict[str, int], text: str) -> Inputs:
    op, device = parse(text), device_of[text]
    passes = {parse(one).as_pass: one for one in device_of if parse(one).is_pass}
    for before in needs(step.setup, op.as_pass, passes):
        yield passes[before], lag(step.setup, before, op.as_pass, device_of[passes[before]], device)
    if step.level == "weights" and op.kind in WORKS:
        turn = turn_of(plan.rows[device], plan.programs[device], text)
        assert turn is not None, f"{text} runs while its stage is sharded"
        yield f"{op.stage}UNSHARD{turn}", ZERO
    elif step.gathers and op.kind == "F":
        yield f"{op.stage}UNSHARD0", ZERO
    if op.kind == "F":
        for number, item in enumerate(step.side):
            if item.into == op.stage:
                forward = f"{number}E{op.number}"
                yield forward, item.p2p if device_of[forward] != device else ZERO


def places(row: Sequence[str]) -> dict[str, int]:
    """Where each slot, and each operation of a pair, stands in a row."""
    return {text: at for at, slot in enumerate(row) for text in (slot, *parts(slot))}


def turn_of(row: Sequence[str], program: Program, text: str) -> int | None:
    """The turn of the UNSHARD in which an operation runs; None where its stage is sharded."""
    place, turn = places(row), None
    for one, after in program:
        op = parse(one)
        is_before = after is None or place[after] < place[text]
        if is_before and op.stage == parse(text).stage and op.kind in ("UNSHARD", "RESHARD"):
            turn = op.number if op.kind == "UNSHARD" else None
    return turn


# Which network programs are legal, a second time. Nothing of the package is imported.


class Illegal(Exception):
    """A program breaks a rule; the text says which."""


def require_legal(step: Step, plan: Texts) -> None:
    """Raise Illegal, with all that is wrong, for programs that break a rule."""
    given = [text for program in plan.programs for text, _ in program]
    turns = {text for text in given if step.level == "weights" and parse(text).kind in ("UNSHARD", "RESHARD")}
    due = set(_due(step))
    wrong = [
        f"{text} stands twice or need not be" for text in given if given.count(text) > 1 or text not in due | turns
    ]
    wrong += [f"{text} is missing" for text in due - {*given}]
    for device, (row, program) in enumerate(zip(plan.rows, plan.programs, strict=True)):
        wrong += [f"{text} on device {device}" for text, _ in program if _home(step, parse(text)) != device]
        wrong += _out_of_place(row, program)
        if step.level == "weights":
            wrong += _out_of_turn(program)
            works = [text for slot in row for text in parts(slot) if parse(text).kind in WORKS]
            wrong += [f"{text} while its stage is sharded" for text in works if turn_of(row, program, text) is None]
    if wrong:
        raise Illegal("; ".join(wrong))


def _home(step: Step, op: Op) -> int:
    return step.setup.placement[op.stage]


def _due(step: Step) -> Iterator[str]:
    """What must stand in the programs, turns apart."""
    for stage in range(step.setup.stages):
        if step.gathers and step.level != "weights":
            yield f"{stage}UNSHARD0"
        if step.reduces:
            numbers = range(step.setup.microbatches) if step.each else [""]
            yield from (f"{stage}REDUCE_GRAD{number}" for number in numbers)
        if step.ties and stage in step.ends:
            yield f"{stage}REDUCE_TIED"


def _out_of_place(row: Sequence[str], program: Program) -> Iterator[str]:
    """What goes back in a program, and reductions before a backward that they need."""
    place, last = places(row), -1
    for text, after in program:
        op = parse(text)
        if op.kind == "REDUCE_TIED":
            continue
        at = -1 if after is None else place[after]
        if at < last:
            yield f"{text} goes back"
        last = at
        if op.kind == "REDUCE_GRAD":
            for one, where in place.items():
                back = parse(one) if not one.startswith("(") else op
                needed = back.kind in ("B", "W") and back.stage == op.stage and op.number in (None, back.number)
                if needed and where > at:
                    yield f"{text} before {one}"


def _out_of_turn(program: Program) -> Iterator[str]:
    """UNSHARDs and RESHARDs of a stage that do not alternate, or are not counted from 0."""
    counts: dict[int, int] = {}
    for text, _ in program:
        op = parse(text)
        if op.kind in ("UNSHARD", "RESHARD"):
            turn, is_end = divmod(counts.get(op.stage, 0), 2)
            counts[op.stage] = counts.get(op.stage, 0) + 1
            if op.number != turn or (op.kind == "RESHARD") != is_end:
                yield f"{text} out of turn"
    yield from (f"stage {stage} stays whole" for stage, count in counts.items() if count % 2)


# What a step holds over time, a second time: activations, whole weights and gradients, and side work.

CLASSES = ("activations", "weights", "gradients", "side")
Times = Mapping[str, Fraction]


class Change(NamedTuple):
    """A change of what a device holds of a class at a time."""

    device: int
    what: str
    time: Fraction
    size: Fraction


class Peaks(NamedTuple):
    """The largest sum of all, and the largest of each class, by device."""

    total: list[Fraction]
    activations: list[Fraction]
    weights: list[Fraction]
    gradients: list[Fraction]
    side: list[Fraction]


def peaks_of(step: Step, device_of: Mapping[str, int], start: Times, end: Times) -> Peaks:
    """The peaks of a replayed step; `device_of` and the times are by the texts of operations."""
    changes = [*changes_of(step, device_of, start, end)]
    devices = range(step.setup.devices)

    def peaks(classes: Collection[str]) -> list[Fraction]:
        return [
            _peak([(one.time, one.size) for one in changes if one.device == device and one.what in classes])
            for device in devices
        ]

    return Peaks(peaks(CLASSES), *(peaks([what]) for what in CLASSES))


def changes_of(step: Step, device_of: Mapping[str, int], start: Times, end: Times) -> Iterator[Change]:
    """Everything that is taken and given back."""
    passes = {parse(text).as_pass: text for text in device_of if parse(text).is_pass}
    for text in passes.values():
        for move in memory_moves(step.setup, parse(text).as_pass, passes):
            yield Change(device_of[text], "activations", (end if move.at_end else start)[text], move.change)
    for device, what, since, until, size in _stays(step, device_of, start, end):
        yield Change(device, what, since, size)
        yield Change(device, what, until, -size)


def _stays(
    step: Step, device_of: Mapping[str, int], start: Times, end: Times
) -> Iterator[tuple[int, str, Fraction, Fraction, Fraction]]:
    """What is held from one time to another: device, class, from, to, size."""
    ops = {text: parse(text) for text in device_of}
    for text, op in ops.items():
        device = device_of[text]
        if op.kind == "UNSHARD" and step.level == "weights":
            yield device, "weights", start[text], end[text.replace("UNSHARD", "RESHARD")], step.weights[op.stage]
        if op.kind == "REDUCE_GRAD" and step.from_level("gradients"):
            backwards = [
                start[one]
                for one, other in ops.items()
                if other.kind in ("B", "W") and other.stage == op.stage and op.number in (None, other.number)
            ]
            yield device, "gradients", min(backwards), end[text], step.gradients[op.stage]
    for text, op in ops.items():
        if op.kind == "E":
            assert op.number is not None
            yield from _of_side_work(step, device_of, (start, end), text)


def _of_side_work(
    step: Step, device_of: Mapping[str, int], times: tuple[Times, Times], text: str
) -> Iterator[tuple[int, str, Fraction, Fraction, Fraction]]:
    start, end = times
    op = parse(text)
    item = step.side[op.stage]
    number = f"{op.number}.0" if step.setup.slices > 1 else f"{op.number}"
    home = step.setup.placement[item.into]
    backward = f"{op.stage}G{op.number}"
    has_backward = item.backward is not None
    yield device_of[text], "side", start[text], end[backward if has_backward else text], item.activation
    yield home, "side", end[text], start[f"{item.into}F{number}"], item.output
    if has_backward:
        whole, half = (f"{item.into}{kind}{number}" for kind in "BI")
        yield home, "side", end[whole if whole in end else half], start[backward], item.output


def _peak(changes: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    """The largest level: at one time what is given back counts before what is taken."""
    level = peak = ZERO
    for _, size in sorted(changes):
        level += size
        peak = max(peak, level)
    return peak


# A second replay of whole steps: slots and network operations as early as needs, lanes and programs allow.

COSTS = {"gather": "UNSHARD", "reduce": "REDUCE_GRAD", "tied": "REDUCE_TIED", "optimizer": "OPTIMIZER"}
APART = ("O", "L", "E", "G", "RESHARD")  # from the span of a stage

NodeTimes = tuple[list[Fraction], list[Fraction]]  # starts and ends by node


class Whole(NamedTuple):
    """The start and the end of each operation by its text, and the metrics."""

    start: dict[str, Fraction]
    end: dict[str, Fraction]
    makespan: Fraction
    span: Fraction
    busy: list[Fraction]
    lanes: list[dict[str, Fraction]]  # of each device, how long its network operations of each cost last
    peaks: Peaks
    pipeline: Fraction  # the makespan without gather, reduce, tied and optimizer
    network: Fraction  # how much shorter it is without the first three
    costs: dict[str, Fraction]  # and without each alone
    exposed: list[str]

    @property
    def peak(self) -> list[Fraction]:
        """The largest sum of all that comes and goes, by device."""
        return self.peaks.total


def replay_step(step: Step, plan: Texts) -> Whole:
    """Run slots and network programs. Raises Illegal, and Stuck where the devices wait for each other."""
    plan = plan if plan.programs else plan._replace(programs=[[] for _ in plan.rows])
    require_legal(step, plan)
    graph = graph_of(step, plan)
    start, end = times_of(graph)
    makespan = max(end)
    starts = {text: start[node] for text, node in graph.node_of.items()}
    ends = {text: end[node] for text, node in graph.node_of.items()}
    return Whole(
        starts,
        ends,
        makespan,
        _span(graph, (start, end)),
        busy=[sum((graph.nodes[node].duration for node in row), ZERO) for row in graph.slots],
        lanes=[
            {
                key: sum((graph.nodes[node].duration for node in lane if graph.nodes[node].kind == kind), ZERO)
                for key, kind in COSTS.items()
            }
            for lane in graph.lanes
        ],
        peaks=peaks_of(step, plan.devices(), starts, ends),
        pipeline=max(times_of(graph, COSTS.values())[1]),
        network=makespan - max(times_of(graph, NETWORK)[1]),
        costs={key: makespan - max(times_of(graph, [kind])[1]) for key, kind in COSTS.items()},
        exposed=[*_exposed(graph, end)],
    )


def times_of(graph: Graph, without: Collection[str] = ()) -> NodeTimes:
    """The earliest start and end of every node: round after round, whatever has all its inputs.

    Operations of the kinds `without` last nothing. Raises Stuck.
    """
    start, end = dict[int, Fraction](), dict[int, Fraction]()
    waiting = [*range(len(graph.nodes))]
    while waiting:
        ready = [node for node in waiting if all(one in end for one, _ in graph.inputs[node])]
        if not ready:
            raise Stuck([graph.nodes[node].ops[0] for node in waiting])
        for node in ready:
            start[node] = max((end[one] + late for one, late in graph.inputs[node]), default=ZERO)
            end[node] = start[node] + (ZERO if graph.nodes[node].kind in without else graph.nodes[node].duration)
        waiting = [node for node in waiting if node not in end]
    numbers = range(len(graph.nodes))
    return [start[node] for node in numbers], [end[node] for node in numbers]


def _exposed(graph: Graph, end: Sequence[Fraction]) -> Iterator[str]:
    """The network operations longer than 0 without slack, device by device, in lane order."""
    latest = _latest_ends(graph, max(end))
    for device, lane in enumerate(graph.lanes):
        for node in lane:
            if graph.nodes[node].duration and latest[node] == end[node]:
                ops = graph.nodes[node].ops  # two where both lanes share it
                yield ops[sum(node in one for one in graph.lanes[:device])]


def _latest_ends(graph: Graph, makespan: Fraction) -> dict[int, Fraction]:
    """The latest end of each node with which the makespan stays."""
    behind: list[list[tuple[int, Fraction]]] = [[] for _ in graph.nodes]
    for node, inputs in enumerate(graph.inputs):
        for one, late in inputs:
            behind[one].append((node, late))
    latest: dict[int, Fraction] = {}
    while len(latest) < len(graph.nodes):
        for node, others in enumerate(behind):
            if node not in latest and all(other in latest for other, _ in others):
                ends = (latest[other] - graph.nodes[other].duration - late for other, late in others)
                latest[node] = min(ends, default=makespan)
    return latest


def _span(graph: Graph, times: NodeTimes) -> Fraction:
    """The largest distance from first start to last end: of devices, lanes and stages; head UNSHARDs are late."""
    start, end = _with_late_heads(graph, times)
    by_stage: dict[int, list[int]] = {}
    for text, node in graph.node_of.items():
        if parse(text).kind not in APART:
            by_stage.setdefault(parse(text).stage, []).append(node)
    groups = [group for group in (*graph.slots, *graph.lanes, *by_stage.values()) if group]
    return max(max(end[one] for one in group) - min(start[one] for one in group) for group in groups)


def _with_late_heads(graph: Graph, times: NodeTimes) -> NodeTimes:
    """The times with each UNSHARD at the head of a lane as late as the slots and the operation behind it allow."""
    start, end = [*times[0]], [*times[1]]
    slots = {one for row in graph.slots for one in row}
    for lane in graph.lanes:
        heads: list[int] = []
        for node in lane:
            is_issued = any(one in slots for one, _ in graph.inputs[node])
            if graph.nodes[node].kind != "UNSHARD" or is_issued:
                break
            heads.append(node)
        for node in heads[::-1]:
            behind = [
                start[other] - late
                for other, inputs in enumerate(graph.inputs)
                for one, late in inputs
                if one == node and graph.nodes[other].kind != "RESHARD"
            ]
            if behind:
                end[node] = min(behind)
                start[node] = end[node] - graph.nodes[node].duration
    return start, end


# The rule of families, a second time: what network program and which other slots the order of a family gets.

Rows = Sequence[Sequence[str]]


def with_side_first(step: Step, rows: Rows, order: Sequence[int] | None = None) -> list[list[str]]:
    """The rows with side work by the rule `first`: all E before, all G behind, by microbatch as fed, then item."""
    before: list[list[str]] = [[] for _ in rows]
    behind: list[list[str]] = [[] for _ in rows]
    for place, microbatch in enumerate(order or range(step.setup.microbatches)):
        for number, item in enumerate(step.side):
            device = item.devices[place % len(item.devices)]
            before[device].append(f"{number}E{microbatch}")
            if item.backward is not None:
                behind[device].append(f"{number}G{microbatch}")
    return [[*first, *row, *last] for first, row, last in zip(before, rows, behind, strict=True)]


def with_optimizers(step: Step, rows: Rows) -> list[list[str]]:
    """The rows with OPTIMIZER behind all else, in the order of the stages' last B or W; tied stages come last."""
    if step.optimizer is None:
        return [[*row] for row in rows]
    whole = []
    for row in rows:
        last = _last_backwards(row)
        stages = sorted(last, key=lambda stage: (step.ties and stage in step.ends, last[stage]))
        whole.append([*row, *(f"{stage}OPTIMIZER" for stage in stages)])
    return whole


def programs_of(step: Step, rows: Rows) -> list[Program]:
    """The network program of each device by the rule of families; REDUCE_TIED last."""
    programs = []
    for device, row in enumerate(rows):
        issued = issued_turns(row, step.ahead[device]) if step.level == "weights" else {-1: _heads(step, row)}
        issued = issued_late(row) if step.gathers_late else issued
        program: Program = []
        for at in range(-1, len(row)):
            after = row[at] if at >= 0 else None
            reduces = _reduces(step, row, at) if at >= 0 else []
            program += [(text, after) for text in [*reduces, *issued.get(at, [])]]
        if step.ties:
            ends = [stage for stage in step.ends if step.setup.placement[stage] == device]
            program += [(f"{stage}REDUCE_TIED", None) for stage in ends]
        programs.append(program)
    return programs


def by_rule(step: Step, rows: Rows, order: Sequence[int] | None = None) -> Texts:
    """The plan of a family's rows: with side work by `first`, and network programs."""
    whole = with_optimizers(step, with_side_first(step, rows, order))
    return Texts(whole, programs_of(step, whole))


def best_ahead(step: Step, rows: Rows, budget: Sequence[Fraction] | None = None) -> tuple[int, Whole]:
    """The number that `ahead: auto` becomes: the shortest that fits, else the least largest memory; the smaller one."""
    budget = budget or step.setup.budget
    tried = []
    for ahead in range(1, max(step.setup.placement.count(device) for device in range(step.setup.devices)) + 1):
        at = replace(step, ahead=[ahead] * step.setup.devices)
        replayed = replay_step(at, by_rule(at, rows))
        memory = [peak + static for peak, static in zip(replayed.peak, step.statics(), strict=True)]
        fits = budget is None or all(one <= limit for one, limit in zip(memory, budget, strict=True))
        tried.append(((not fits, replayed.makespan if fits else max(memory), ahead), replayed))
    (_, _, ahead), replayed = min(tried, key=lambda one: one[0])
    return ahead, replayed


def _ops(slot: str) -> list[Op]:
    return [parse(text) for text in parts(slot)]


def _last_backwards(row: Sequence[str]) -> dict[int, int]:
    """Where in a row the last B or W of each stage stands."""
    return {op.stage: at for at, slot in enumerate(row) for op in _ops(slot) if op.kind in "BW"}


def _heads(step: Step, row: Sequence[str]) -> list[str]:
    """Below level weights: one UNSHARD a stage, by the stage's first slot."""
    stages = dict.fromkeys(op.stage for slot in row for op in _ops(slot) if op.is_pass)
    return [f"{stage}UNSHARD0" for stage in stages] if step.gathers else []


def _reduces(step: Step, row: Sequence[str], at: int) -> list[str]:
    """The REDUCE_GRADs that come directly behind a slot."""
    backwards = [op for op in _ops(row[at]) if op.kind in "BW"]
    if not step.reduces or not backwards:
        return []
    if not step.each:
        return [f"{op.stage}REDUCE_GRAD" for op in backwards if _last_backwards(row)[op.stage] == at]
    return [
        f"{op.stage}REDUCE_GRAD{op.number}"
        for op in backwards
        if not any(
            (other.stage, other.number) == (op.stage, op.number) and other.kind in "BW"
            for slot in row[at + 1 :]
            for other in _ops(slot)
        )
    ]


def issued_turns(row: Sequence[str], ahead: int) -> dict[int, list[str]]:
    """The RESHARDs and UNSHARDs behind each slot (-1: before the first), with `ahead` stages whole at once."""
    works = [[op.stage for op in _ops(slot) if op.kind in WORKS] for slot in row]
    turns: dict[int, int] = {}
    whole: set[int] = set()
    issued: dict[int, list[str]] = {}
    for at, stages in enumerate(works):
        if stages:
            wanted: list[int] = []
            for coming in works[at:]:
                if len(wanted) >= ahead:
                    break
                wanted += [stage for stage in dict.fromkeys(coming) if stage not in wanted]
            behind = issued.setdefault(at - 1, [])
            behind += [f"{stage}RESHARD{turns[stage]}" for stage in sorted(whole - {*wanted})]
            for stage in wanted:
                if stage not in whole:
                    turns[stage] = turns.get(stage, -1) + 1
                    behind.append(f"{stage}UNSHARD{turns[stage]}")
            whole = {*wanted}
    if whole:
        last = max(at for at, stages in enumerate(works) if stages)
        issued.setdefault(last, []).extend(f"{stage}RESHARD{turns[stage]}" for stage in sorted(whole))
    return issued


def issued_late(row: Sequence[str]) -> dict[int, list[str]]:
    """The same where a forward frees its stage, a backward leaves it whole until then, and nothing is gathered ahead.

    A stage is freed behind its last slot too.
    """
    works = [[op for op in _ops(slot) if op.kind in WORKS] for slot in row]
    state: dict[int, tuple[int, bool]] = {}  # of each stage: its turn, and whether it is whole
    issued: dict[int, list[str]] = {}
    for at, ops in enumerate(works):
        for stage in dict.fromkeys(op.stage for op in ops):
            turn, is_whole = state.get(stage, (-1, False))
            if not is_whole:
                state[stage] = turn + 1, True
                issued.setdefault(at - 1, []).append(f"{stage}UNSHARD{turn + 1}")
        for stage in sorted({op.stage for op in ops}):
            kinds = [op.kind for op in ops if op.stage == stage]
            if kinds == ["F"] or all(op.stage != stage for later in works[at + 1 :] for op in later):
                state[stage] = state[stage][0], False
                issued.setdefault(at, []).append(f"{stage}RESHARD{state[stage][0]}")
    return issued
