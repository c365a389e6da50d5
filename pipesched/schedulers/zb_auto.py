"""Zero bubble for any costs under a memory limit: the best of many greedy schedules, then a local search.

The limit decides what comes out: at P activations about ZB-H1 (the paper's ZB-1p), at 2P nearly no bubble in the span
(ZB-2p), below P what tight memory leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from operator import attrgetter

from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import earliest_times
from pipesched.lookup import find
from pipesched.pipeline.floor import require_floor
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.schedulers.critical_blocks import BlockSearch
from pipesched.schedulers.family import Family
from pipesched.schedulers.orders import split_one_forward_one_backward
from pipesched.schedulers.zb_greedy import KINDS, Switches, greedy_orders

OBJECTIVES = {"span": attrgetter("span", "makespan"), "makespan": attrgetter("makespan", "span")}
MOST_PLANNED = 300_000  # operations in all greedy schedules together: about half a second
MOST_IMPROVED = 300_000  # operations in all timings of the local search
LEAST_ROUNDS, MOST_ROUNDS = 40, 400  # timings of the local search: with fewer it is not worth its time

Orders = Sequence[Sequence[int]]


@dataclass(frozen=True)
class _Case:
    """The question in a form that many orders can be held against."""

    problem: Problem
    index: OpIndex
    graph: TaskGraph
    rooms: list[int]

    def timed(self, orders: Orders) -> Schedule:
        """The schedule of these orders."""
        times = earliest_times(self.graph, orders)
        return Schedule(self.problem, Plan(self.index, orders), *times, self.graph)

    def fits(self, schedule: Schedule) -> bool:
        """Whether no device ever holds more than its room."""
        return all(peak <= room for peak, room in zip(schedule.peak_memory, self.rooms, strict=True))


def zb_auto(problem: Problem, *, objective: str = "span") -> Plan:
    """The best by `objective` (span or makespan) of the handcrafted schedules that fit and of greedy ones, improved.

    Obeys the budget; without one the limit is 2P activations of the largest stage. Raises NoSchedule when the budget
    holds no microbatch.
    """
    goal = find(OBJECTIVES, objective, "objective", "objective")
    require_floor(problem)
    index = OpIndex(KINDS, problem.stages, problem.microbatches)
    enough = 2 * problem.devices * max(problem.memory.activation)
    rooms = [enough if room is None else room for room in problem.room()]
    case = _Case(problem, index, lower(problem, index), rooms)
    best = min(_candidates(case), key=goal)
    return Plan(index, _improved(case, best, by_span=objective == "span"))


def _candidates(case: _Case) -> Iterator[Schedule]:
    """The handcrafted schedules that fit, and as many greedy ones as a moment allows."""
    yield from filter(case.fits, map(case.timed, _handcrafted(case)))
    count = max(MOST_PLANNED // case.index.size, 2)
    for switches in islice(_switches(case), count):
        yield case.timed(greedy_orders(case.problem, case.rooms, switches))


def _handcrafted(case: _Case) -> Iterator[Orders]:
    """ZB-H1, ZB-H2, and 1F1B with each backward in two halves."""
    last = case.problem.devices - 1
    shapes: tuple[Callable[[int], tuple[int, int]], ...] = (
        lambda device: (last - device, device),
        lambda device: (2 * (last - device), 2 * device),
        lambda device: (last - device, 0),
    )
    for shape in shapes:
        orders = []
        for device in range(case.problem.devices):
            forwards, inputs, weights = (case.index.row(kind, device) for kind in KINDS)
            orders.append(split_one_forward_one_backward(forwards, inputs, weights, *shape(device)))
        yield orders


def _switches(case: _Case) -> Iterator[Switches]:
    """Every setting of the greedy, those that win most often first."""
    devices, count = case.problem.devices, case.problem.microbatches
    size = case.problem.memory.activation[0]
    held = case.rooms[0] // size if size else count
    flights = (
        [count] * devices,
        [-(-held * (devices - device) // devices) for device in range(devices)],  # falls with the device, as 1F1B's
        [2 * (devices - device) - 1 for device in range(devices)],
    )
    for patience, flight, weight_patience, alternate in product(
        ((2, 0), (0, 0), (1, 1)), flights, (2, 0, 1), (True, False)
    ):
        yield Switches(flight, alternate, *patience, weight_patience)


def _improved(case: _Case, schedule: Schedule, by_span: bool) -> Orders:
    """The orders after the local search, where they are few enough operations for it to get anywhere."""
    rounds = min(MOST_IMPROVED // case.index.size, MOST_ROUNDS)
    if rounds < LEAST_ROUNDS:
        return schedule.plan.orders
    offsets = schedule.first_start if by_span else [0] * case.problem.devices
    return BlockSearch(case.graph, case.index, case.rooms, offsets).improve(schedule.plan.orders, rounds)


FAMILY = Family(
    name="zb-auto",
    plan=zb_auto,
    placement="linear",
    stages="P",
    needs="any M; splits the backward; obeys the budget",
    bubble="by simulation; at 2P nearly none in span",
    memory="at most the budget; 2P without one",
    source="Zero Bubble Pipeline Parallelism (Qi et al. 2024, arXiv 2401.10241)",
    elsewhere="the authors' Megatron fork, by another greedy",
    options=("objective",),
)
