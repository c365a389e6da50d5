"""Zero bubble for any costs under a memory limit: the best of many greedy schedules, then a local search.

The result depends on the limit: at P activations it is about ZB-H1 (the paper's ZB-1p), at 2P the span has nearly no
bubble (ZB-2p), and below P the bubble grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice, product

from pipesched.core.integers import ceil_div
from pipesched.pipeline.capacity import require_least_capacity
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.schedulers.family import Family
from pipesched.schedulers.trials import Effort, Trials, trials
from pipesched.schedulers.zb_greedy import KINDS, Switches, greedy_orders
from pipesched.schedulers.zero_bubble import handcrafted

MOST_PLANNED = 300_000  # operations in all greedy schedules together: about half a second
EFFORT = Effort(operations=300_000, rounds=400, slack=Fraction(1, 20))


def zb_auto(problem: Problem, *, objective: str = "span") -> Plan:
    """Improve the best, by `objective` (span or makespan), of the handcrafted schedules that fit and of greedy ones.

    The limit is the budget; without one, 2P activations of the largest stage, beside what an I takes. Raises NoSchedule
    when the budget holds no microbatch.
    """
    require_least_capacity(replace(problem, costs=replace(problem.costs, split=True)))
    enough = 2 * problem.devices * max(problem.grains.activation) + max(problem.grains.caught)
    capacities = [enough if capacity is None else capacity for capacity in problem.capacity_grains]
    case = trials(problem, KINDS, capacities, objective)
    return case.improved(case.best(_candidates(case)), EFFORT)


def _candidates(case: Trials) -> Iterator[Schedule]:
    """Yield the handcrafted schedules that fit, and as many greedy ones as MOST_PLANNED operations allow."""
    depths = ((1, 1), (2, 2), (1, 0))  # ZB-H1, ZB-H2, and 1F1B with each backward in two halves
    yield from filter(case.fits, (case.timed(handcrafted(case.index, *depth)) for depth in depths))
    count = max(MOST_PLANNED // case.index.size, 2)
    for switches in islice(_switches(case), count):
        yield case.timed(greedy_orders(case.problem, case.capacities, switches))


def _switches(case: Trials) -> Iterator[Switches]:
    """Yield every setting of the greedy, those that win most often first."""
    devices, count = case.problem.devices, case.problem.microbatches
    size = case.problem.grains.activation[0]
    held = case.capacities[0] // size if size else count
    flights = (
        [count] * devices,
        [ceil_div(held * (devices - device), devices) for device in range(devices)],  # falls with the device, as 1F1B's
        [2 * (devices - device) - 1 for device in range(devices)],
    )
    for patience, flight, weight_patience, alternate in product(
        ((2, 0), (0, 0), (1, 1)), flights, (2, 0, 1), (True, False)
    ):
        yield Switches(flight, alternate, *patience, weight_patience)


FAMILY = Family(
    name="zb-auto",
    plan=zb_auto,
    placement="linear",
    needs="any M; splits the backward; obeys the budget",
    bubble="by simulation; at 2P nearly none in span",
    memory="at most the budget; 2P without one",
    paper="Zero Bubble Pipeline Parallelism (Qi et al. 2024, arXiv 2401.10241)",
    elsewhere="the authors' Megatron fork, by another greedy",
    options=("objective",),
    obeys_budget=True,
    splits_backward=True,
    is_slow=True,
    looks_at_each=True,
)
