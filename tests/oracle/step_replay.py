"""A second replay of whole steps: slots and network operations as early as needs, lanes and programs allow.

It reads slots and network programs as texts, keeps everything in dictionaries, and is meant to be read beside the rules.
Nothing of the package is imported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.replay import Stuck, lag, needs, slot_duration
from tests.oracle.setup import ZERO
from tests.oracle.step_memory import Peaks, peaks_of
from tests.oracle.step_setup import NETWORK, WORKS, Op, Program, Step, parse, parts

Waits = Collection[tuple[str, str]]
TIMES = {"gather": ["UNSHARD"], "reduce": ["REDUCE_GRAD"], "tied": ["REDUCE_TIED"], "optimizer": ["OPTIMIZER"]}


class Illegal(Exception):
    """A plan or a program breaks a rule; the text says which."""


class Node(NamedTuple):
    """A slot or a network operation: its operations, and how long it lasts."""

    ops: tuple[str, ...]
    duration: Fraction


class Graph(NamedTuple):
    """What runs, and who waits for whom: of each node its inputs, as (node, latency)."""

    nodes: list[Node]
    inputs: list[list[tuple[int, Fraction]]]
    slots: list[list[int]]  # of each device
    lanes: list[list[int]]  # of each device, the network operations that occupy its lane
    node_of: dict[str, int]


class Whole(NamedTuple):
    """The start and the end of each operation by its text, and the metrics."""

    start: dict[str, Fraction]
    end: dict[str, Fraction]
    makespan: Fraction
    span: Fraction
    busy: list[Fraction]
    peaks: Peaks
    pipeline: Fraction
    network: Fraction
    costs: dict[str, Fraction]  # exposed gather, reduce, tied, optimizer
    exposed: list[str]

    @property
    def peak(self) -> list[Fraction]:
        """The largest sum of all that comes and goes, by device."""
        return self.peaks.total


def replay_step(
    step: Step,
    rows: Sequence[Sequence[str]],
    programs: Sequence[Program] | None = None,
    memory_lanes: Sequence[Sequence[str]] = (),
    waits: Waits = (),
) -> Whole:
    """Run slots and network programs. Raises Illegal, and Stuck where the devices wait for each other."""
    programs = programs or [[] for _ in rows]
    require_legal(step, rows, programs)
    graph = graph_of(step, rows, programs, memory_lanes, waits)
    start, end = _times(graph, [node.duration for node in graph.nodes])
    makespan = max(end)
    shorter = {key: makespan - _without(graph, kinds) for key, kinds in TIMES.items()}
    named = {text: node for text, node in graph.node_of.items() if not text.startswith("(")}
    starts = {text: start[node] for text, node in named.items()}
    ends = {text: end[node] for text, node in named.items()}
    device_of = {text: device for device, row in enumerate(rows) for slot in row for text in parts(slot)}
    device_of |= {text: device for device, program in enumerate(programs) for text, _ in program}
    for row in memory_lanes:
        device_of |= {text: device_of[text.replace("O", "F").replace("L", "F")] for text in row}
    return Whole(
        starts,
        ends,
        makespan,
        _span(graph, start, end),
        [sum((graph.nodes[one].duration for one in row), ZERO) for row in graph.slots],
        peaks_of(step, device_of, starts, ends),
        pipeline=_without(graph, [kind for kinds in TIMES.values() for kind in kinds]),
        network=makespan - _without(graph, NETWORK),
        costs=shorter,
        exposed=_exposed(graph, start, end),
    )


def graph_of(
    step: Step,
    rows: Sequence[Sequence[str]],
    programs: Sequence[Program],
    memory_lanes: Sequence[Sequence[str]] = (),
    waits: Waits = (),
) -> Graph:
    """Who waits for whom, by the needs, the orders of devices and lanes, the programs and the waits."""
    graph = Graph([], [], [], [], {})

    def add(ops: Sequence[str], duration: Fraction, *names: str) -> int:
        number = len(graph.nodes)
        graph.nodes.append(Node(tuple(ops), duration))
        graph.inputs.append([])
        for text in (*ops, *names):
            assert text not in graph.node_of, text
            graph.node_of[text] = number
        return number

    def chain(numbers: Sequence[int]) -> None:
        for one, other in zip(numbers, numbers[1:], strict=False):
            graph.inputs[other].append((one, ZERO))

    device_of: dict[str, int] = {}
    for device, row in enumerate(rows):
        device_of |= {text: device for slot in row for text in parts(slot)}
        numbers = [add(parts(slot), _lasts(step, slot, device), *[slot][: slot.startswith("(")]) for slot in row]
        chain(numbers)
        graph.slots.append(numbers)
    for row in memory_lanes:
        for text in row:
            device_of[text] = device_of[text.replace("O", "F").replace("L", "F")]
        chain([add([text], _lasts(step, text, device_of[text])) for text in row])
    tied = [text for program in programs for text, _ in program if parse(text).kind == "REDUCE_TIED"]
    if tied:
        add(tied, step.duration(parse(tied[0]), 0))
    for device, program in enumerate(programs):
        lane = []
        for text, after in program:
            op = parse(text)
            number = graph.node_of[text] if text in tied else add([text], _lasts(step, text, device))
            if op.kind in NETWORK:
                lane.append(number)
            if after is not None:
                graph.inputs[number].append((graph.node_of[after], ZERO))
        chain(lane)
        graph.lanes.append(lane)
    for text, number in graph.node_of.items():
        if not text.startswith("("):
            for before, late in _needs(step, rows, programs, text, device_of, graph.node_of):
                graph.inputs[number].append((graph.node_of[before], late))
    for before, behind in waits:
        graph.inputs[graph.node_of[behind]].append((graph.node_of[before], ZERO))
    return graph


def _lasts(step: Step, slot: str, device: int) -> Fraction:
    ops = [parse(text) for text in parts(slot)]
    if len(ops) > 1:
        return slot_duration(step.setup, [op.as_pass for op in ops], device)
    return ZERO if ops[0].kind == "RESHARD" else step.duration(ops[0], device)


def _needs(
    step: Step,
    rows: Sequence[Sequence[str]],
    programs: Sequence[Program],
    text: str,
    device_of: dict[str, int],
    planned: Collection[str],
) -> Iterator[tuple[str, Fraction]]:
    """What an operation waits for beside its device, its lane and its program, and the latency from there."""
    op = parse(text)
    if op.is_pass:
        yield from _needs_of_pass(step, rows, programs, op, device_of)
    elif op.kind == "RESHARD":
        yield f"{op.stage}UNSHARD{op.number}", ZERO
    elif op.kind == "REDUCE_GRAD":
        yield from ((one, ZERO) for one in _backwards(device_of, [op.stage], op.number))
    elif op.kind == "REDUCE_TIED":
        yield from ((one, ZERO) for one in _backwards(device_of, step.ends))
        yield from ((one, ZERO) for one in planned if _is(one, "REDUCE_GRAD", step.ends))
    elif op.kind == "OPTIMIZER":
        stages = [*range(step.setup.stages)] if step.clip else [op.stage]
        yield from ((one, ZERO) for one in _backwards(device_of, stages))
        yield from ((one, ZERO) for one in planned if _is(one, "REDUCE_GRAD", stages))
        if step.clip or op.stage in step.ends:
            yield from ((one, ZERO) for one in planned if _is(one, "REDUCE_TIED", step.ends))
    elif op.kind == "G":
        item = step.side[op.stage]
        yield f"{op.stage}E{op.number}", ZERO
        for one in device_of:
            back = parse(one)
            if back.kind in "BI" and (back.stage, back.number) == (item.into, op.number):
                yield one, item.p2p if device_of[one] != device_of[text] else ZERO


def _is(text: str, kind: str, stages: Collection[int]) -> bool:
    return kind in text and parse(text).stage in stages


def _backwards(device_of: Collection[str], stages: Collection[int], microbatch: int | None = None) -> list[str]:
    """Every B and W of some stages, or of one microbatch of them."""
    ops = [(text, parse(text)) for text in device_of]
    return [
        text
        for text, op in ops
        if op.kind in ("B", "W") and op.stage in stages and microbatch in (None, op.number)
    ]


def _needs_of_pass(
    step: Step, rows: Sequence[Sequence[str]], programs: Sequence[Program], op: Op, device_of: dict[str, int]
) -> Iterator[tuple[str, Fraction]]:
    setup, here = step.setup, op.as_pass
    passes = {parse(text).as_pass: text for text in device_of if parse(text).is_pass}
    device = device_of[passes[here]]
    for before in needs(setup, here, passes):
        yield passes[before], lag(setup, before, here, device_of[passes[before]], device)
    if op.kind in WORKS:
        turn = turn_of(step, rows[device], programs[device], passes[here]) if step.level == "weights" else 0
        if step.level == "weights" or (op.kind == "F" and step.gathers):
            yield f"{op.stage}UNSHARD{turn}", ZERO
    if op.kind == "F":
        for number, item in enumerate(step.side):
            if item.into == op.stage:
                forward = f"{number}E{op.number}"
                yield forward, item.p2p if device_of[forward] != device else ZERO


def turn_of(step: Step, row: Sequence[str], program: Program, text: str) -> int:
    """The turn of the UNSHARD of its stage in which an operation runs. Raises Illegal where the stage is sharded."""
    place = {one: at for at, slot in enumerate(row) for one in (slot, *parts(slot))}
    stage, turn = parse(text).stage, None
    for one, after in program:
        if after is None or place[after] < place[text]:
            op = parse(one)
            if op.stage == stage and op.kind in ("UNSHARD", "RESHARD"):
                turn = op.number if op.kind == "UNSHARD" else None
    if turn is None:
        raise Illegal(f"{text} runs while its stage is sharded")
    return turn


def require_legal(step: Step, rows: Sequence[Sequence[str]], programs: Sequence[Program]) -> None:
    """Raise Illegal unless programs go forward, hold what must exist, once, on its device, and turns alternate."""
    placement = step.setup.placement
    due: set[str] = set()
    for stage, device in enumerate(placement):
        if step.gathers and step.level != "weights":
            due.add(f"{stage}UNSHARD0")
        if step.reduces:
            numbers = range(step.setup.microbatches) if step.each else [""]
            due |= {f"{stage}REDUCE_GRAD{number}" for number in numbers}
    due |= {f"{stage}REDUCE_TIED" for stage in step.ends if step.ties}
    given = [text for program in programs for text, _ in program]
    sharding = {text for text in given if step.level == "weights" and "SHARD" in text}
    if len({*given}) < len(given) or {*given} - sharding != due:
        raise Illegal(f"wrong network operations: {sorted(given)} and not {sorted(due)}")
    for device, (row, program) in enumerate(zip(rows, programs, strict=True)):
        place = {one: at for at, slot in enumerate(row) for one in (slot, *parts(slot))}
        last, turns = -1, dict[int, int]()
        for text, after in program:
            op = parse(text)
            if placement[op.stage] != device:
                raise Illegal(f"{text} on device {device}")
            if op.kind != "REDUCE_TIED":
                at = -1 if after is None else place[after]
                if at < last:
                    raise Illegal(f"{text} goes back")
                last = at
            if op.kind == "REDUCE_GRAD":
                missed = [one for one in _backwards(place, [op.stage], op.number) if place[one] > last]
                if missed:
                    raise Illegal(f"{text} before {missed}")
            if op.kind in ("UNSHARD", "RESHARD") and step.level == "weights":
                count = turns.get(op.stage, 0)
                if op.number != count // 2 or (op.kind == "RESHARD") != count % 2:
                    raise Illegal(f"{text} out of turn")
                turns[op.stage] = count + 1
        if any(count % 2 for count in turns.values()):
            raise Illegal("a stage stays whole")


def _times(graph: Graph, lasts: Sequence[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """The earliest start and end of every node: round after round, whatever has all its inputs."""
    start, end = dict[int, Fraction](), dict[int, Fraction]()
    waiting = [*range(len(graph.nodes))]
    while waiting:
        ready = [node for node in waiting if all(one in end for one, _ in graph.inputs[node])]
        if not ready:
            raise Stuck([graph.nodes[node].ops[0] for node in waiting])
        for node in ready:
            start[node] = max((end[one] + late for one, late in graph.inputs[node]), default=ZERO)
            end[node] = start[node] + lasts[node]
        waiting = [node for node in waiting if node not in end]
    numbers = range(len(graph.nodes))
    return [start[node] for node in numbers], [end[node] for node in numbers]


def _without(graph: Graph, kinds: Collection[str]) -> Fraction:
    """The makespan of the same plan where operations of some kinds last nothing."""
    lasts = [ZERO if parse(node.ops[0]).kind in kinds else node.duration for node in graph.nodes]
    return max(_times(graph, lasts)[1])


def _latest(graph: Graph, start: Sequence[Fraction], end: Sequence[Fraction]) -> list[Fraction]:
    """The latest end of each node with which the makespan stays."""
    behind: list[list[tuple[int, Fraction]]] = [[] for _ in graph.nodes]
    for node, inputs in enumerate(graph.inputs):
        for one, late in inputs:
            behind[one].append((node, late))
    latest = dict[int, Fraction]()
    while len(latest) < len(graph.nodes):
        for node in range(len(graph.nodes)):
            if all(one in latest for one, _ in behind[node]):
                ends = (latest[one] - graph.nodes[one].duration - late for one, late in behind[node])
                latest[node] = min(ends, default=max(end))
    return [latest[node] for node in range(len(graph.nodes))]


def _exposed(graph: Graph, start: Sequence[Fraction], end: Sequence[Fraction]) -> list[str]:
    """The network operations longer than 0 without slack, device by device, in lane order."""
    latest = _latest(graph, start, end)
    texts = []
    for device, lane in enumerate(graph.lanes):
        critical = [node for node in lane if graph.nodes[node].duration and latest[node] == end[node]]
        for node in critical:
            ops = graph.nodes[node].ops
            texts.append(ops[0] if len(ops) == 1 else ops[sum(node in one for one in graph.lanes[:device])])
    return texts


def _span(graph: Graph, start: Sequence[Fraction], end: Sequence[Fraction]) -> Fraction:
    """The largest distance from first start to last end: of devices, lanes and stages; head UNSHARDs are late."""
    start, end = _with_late_heads(graph, start, end)
    groups: dict[object, list[int]] = {}
    for device, (slots, lane) in enumerate(zip(graph.slots, graph.lanes, strict=True)):
        groups["slots", device] = slots
        groups["lane", device] = lane
    for text, node in graph.node_of.items():
        if not text.startswith("(") and (op := parse(text)).kind not in ("O", "L", "E", "G", "RESHARD"):
            groups.setdefault(("stage", op.stage), []).append(node)
    return max(max(end[one] for one in group) - min(start[one] for one in group) for group in groups.values() if group)


def _with_late_heads(
    graph: Graph, start: Sequence[Fraction], end: Sequence[Fraction]
) -> tuple[list[Fraction], list[Fraction]]:
    """The times with each UNSHARD at the head of a lane as late as what waits for it allows."""
    start, end = [*start], [*end]
    slots = {one for row in graph.slots for one in row}
    for lane in graph.lanes:
        heads: list[int] = []
        for node in lane:
            has_slot = any(one in slots for one, _ in graph.inputs[node])
            if parse(graph.nodes[node].ops[0]).kind != "UNSHARD" or has_slot:
                break
            heads.append(node)
        for node in heads[::-1]:
            behind = [
                start[other] - late
                for other, inputs in enumerate(graph.inputs)
                for one, late in inputs
                if one == node and parse(graph.nodes[other].ops[0]).kind != "RESHARD"
            ]
            if behind:
                end[node] = min(behind)
                start[node] = end[node] - graph.nodes[node].duration
    return start, end
