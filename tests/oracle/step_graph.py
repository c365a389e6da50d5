"""Who waits for whom in a whole step, a second time: needs, orders of devices and lanes, programs and waits.

A plan is read as texts and kept in dictionaries. Nothing of the package is imported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tests.oracle.replay import lag, needs, slot_duration
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
