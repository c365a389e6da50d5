"""The choice of a building block for the given costs.

Where costs differ from those that a block was drawn for, its offsets no longer fit together (the "repeating bubbles" of
"Pipeline Parallelism with Controllable Memory", Qi et al. 2024). So a family offers designs: its block for its own unit
costs, for the given ones, for some between. Each is squeezed, and dispatched under several policies; every order is
timed with the given costs, the best is taken, and a local search improves it. Where microbatches differ, the costs are
those of their mean, so that the block is the same whatever their order is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, wraps
from itertools import chain, islice, product
from typing import Any, NamedTuple

from pipesched.core.tasks import TaskGraph
from pipesched.pipeline.feeding import typical
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, canonical
from pipesched.pipeline.units import SHARED, Slices
from pipesched.schedulers.block import Block, busiest, in_chunks, squeeze, with_weights
from pipesched.schedulers.dispatch import Dispatcher, Policy
from pipesched.schedulers.trials import Effort, Orders, Trials, trials

ALL = 1_000_000
POLICIES = [  # those that win most often first
    Policy(1, ahead=ALL),
    Policy(ahead=1),
    Policy(3),
    Policy(ahead=ALL),
    Policy(2, ahead=2),
    Policy(2, ahead=ALL),
    Policy(weight_first=False, ahead=ALL),
    Policy(ahead=2),
    Policy(1),
]
MOST_PLANNED = 150_000  # operations in all the plans that are tried together: about half a second
EFFORT = Effort(operations=2_500_000, rounds=800, slack=125)
FEWEST_TRIES = 4


class Design(NamedTuple):
    """A block, and the problem with the costs that it was drawn for."""

    problem: Problem
    block: Block


def of_the_mean(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """Let a family plan for the mean microbatch, and keep its last plan.

    Its positions are then the same for every order of the microbatches, and under every budget, at which such a family
    does not look. Estimates ask twice for the same problem, to choose its cut and to run it; a frontier asks at each
    budget.
    """
    kept = lru_cache(maxsize=1)(plan)

    @wraps(plan)
    def planned(problem: Problem, **options: Any) -> Plan:
        asked = typical(problem)
        return kept(replace(asked, memory=replace(asked.memory, budget=None)), **options)

    return planned


def best_of(
    problem: Problem, designs: Sequence[Design], peak: int, objective: str, known: Iterable[Orders] = ()
) -> Plan:
    """Return the best plan of these designs and of the orders in `known`, with at most `peak` chunks on a device.

    With slices, which may be unlike, that is the most that the orders in `known` hold. `objective` is a name of
    OBJECTIVES; the designs have the same kinds of operations. Raises ConfigError for an unknown objective.
    """
    kinds = "".join(designs[0].block.offsets)
    counted, chunk = in_chunks(problem)
    case = trials(counted, kinds, [peak * chunk] * problem.devices, objective)
    graphs, drawn = [(problem, case.graph)], list[tuple[TaskGraph, Block]]()
    for design in designs:
        graph = next((graph for one, graph in graphs if one == design.problem), None)
        if graph is None:
            graph = lower(in_chunks(design.problem)[0], case.index)
            graphs.append((design.problem, graph))
        if (graph, design.block) not in drawn:
            drawn.append((graph, design.block))
    tries = max(MOST_PLANNED // case.index.size, FEWEST_TRIES)
    first = [*known]
    if case.index.slices > 1:
        case = replace(case, capacities=[max(max(case.timed(one).peak_grains) for one in first)] * problem.devices)
    return case.improved(case.best(chain(first, islice(_orders(case, drawn), tries - len(first)))), EFFORT)


def _orders(case: Trials, designs: Sequence[tuple[TaskGraph, Block]]) -> Iterator[Orders]:
    """Yield the orders of each design, squeezed and then dispatched by each policy, where they fit."""
    for graph, block in designs:
        orders = squeeze(graph, case.index, block, case.capacities)
        if orders:
            yield orders
    dispatchers = [Dispatcher(graph, case.index, block) for graph, block in designs]
    for policy, dispatcher in product(POLICIES, dispatchers):
        orders = dispatcher.orders(case.capacities, policy)
        if orders:
            yield orders


def costing(problem: Problem, *, between: bool = False) -> Problem:
    """Return `problem` with costs f = b = w without p2p, or with costs halfway `between` those and its own.

    Its slices are alike, and the unit of time is then a tick, as their costs are parts of no decimal.
    """
    mean_unit, count = problem.ticks.mean, problem.slices.count
    scale = problem.ticks.per_unit if count == 1 else 1
    work: dict[str, Any] = {key: mean_unit[key] for key in SHARED}
    mean = max(sum(map(sum, work.values())) // (3 * problem.stages), 1)

    def costs_of(times: Sequence[int]) -> tuple[Exact, ...]:
        ticks = [(mean + time) // 2 if between else mean for time in times]
        return tuple(canonical(Fraction(count * time, scale)) for time in ticks)

    tables: dict[str, Any] = {key: costs_of(times) for key, times in work.items()}
    costs = replace(problem.costs, **tables, p2p=(0,) * len(mean_unit["p2p"]), resolution=scale)
    part = (Fraction(1, count),) * count
    slices = problem.slices if count == 1 else Slices(count, part, (part,), (part,), (part,))
    return replace(problem, costs=costs, slices=slices, speed=None, links=None)


SLOTS = 6  # operations of one microbatch on a device: F, I and W of two chunks


class Waits(NamedTuple):
    """How long a microbatch waits at each hop, in operations: on the four legs (forward down and back up the V,
    backward down and up), and at the three turns."""

    forward_down: int
    forward_up: int
    backward_down: int
    backward_up: int
    forward_bottom: int = 0
    top: int = 0
    backward_bottom: int = 0


def v_block(problem: Problem, waits: Waits, *, stretched: bool = False) -> Block:
    """Return the block of `waits` for the costs of `problem`; its period is the work of the busiest device.

    If `stretched`, every hop takes a sixth of the period, whatever it costs; else each takes its own time.
    """
    mean, devices, hops = problem.ticks.mean, problem.settled_placement.devices, problem.devices - 1
    period = busiest(problem)
    visits = [*range(problem.stages), *reversed(range(problem.stages))]
    lengths = [*mean["forward"], *reversed(mean["backward_input"])]
    down, up, back_down, back_up, *turns = waits
    legs = ([wait] * hops for wait in (down, up, back_down, back_up))
    pauses = [pause for leg, turn in zip(legs, [*turns, 0], strict=True) for pause in (*leg, turn)]
    times = [0]  # in sixths of a tick, so that a slot is whole
    for here, there, length, pause in zip(visits, visits[1:], lengths, pauses, strict=False):
        lag = 0 if devices[here] == devices[there] else mean["p2p"][here] if here < there else mean["p2p_back"][there]
        times.append(times[-1] + (period if stretched else SLOTS * (length + lag)) + pause * period)
    return with_weights(problem, times[: problem.stages], times[: problem.stages - 1 : -1], SLOTS * period, SLOTS)


def v_blocks(problem: Problem, waits: Waits) -> list[Design]:
    """Return the block of `waits` designed for unit costs, for those of `problem`, and for costs between."""
    unit, between = costing(problem), costing(problem, between=True)
    designs = [(unit, False), (problem, True), (problem, False), (between, False)]
    return [Design(costs, v_block(costs, waits, stretched=stretched)) for costs, stretched in designs]


def published_peak(problem: Problem, waits: Waits) -> int:
    """Return the chunks that a device holds in the block for unit costs."""
    unit = costing(problem)
    return v_block(unit, waits).peak(unit)
