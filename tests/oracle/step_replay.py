"""A second replay of whole steps: slots and network operations as early as needs, lanes and programs allow.

It is slow and plain, and meant to be read beside the rules. Nothing of the package is imported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.replay import Stuck
from tests.oracle.setup import ZERO
from tests.oracle.step_graph import Graph, Texts, graph_of
from tests.oracle.step_legal import require_legal
from tests.oracle.step_memory import Peaks, peaks_of
from tests.oracle.step_setup import NETWORK, Step, parse

COSTS = {"gather": "UNSHARD", "reduce": "REDUCE_GRAD", "tied": "REDUCE_TIED", "optimizer": "OPTIMIZER"}
APART = ("O", "L", "E", "G", "RESHARD")  # from the span of a stage

Times = tuple[list[Fraction], list[Fraction]]  # starts and ends by node


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


def times_of(graph: Graph, without: Collection[str] = ()) -> Times:
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


def _span(graph: Graph, times: Times) -> Fraction:
    """The largest distance from first start to last end: of devices, lanes and stages; head UNSHARDs are late."""
    start, end = _with_late_heads(graph, times)
    by_stage: dict[int, list[int]] = {}
    for text, node in graph.node_of.items():
        if parse(text).kind not in APART:
            by_stage.setdefault(parse(text).stage, []).append(node)
    groups = [group for group in (*graph.slots, *graph.lanes, *by_stage.values()) if group]
    return max(max(end[one] for one in group) - min(start[one] for one in group) for group in groups)


def _with_late_heads(graph: Graph, times: Times) -> Times:
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
