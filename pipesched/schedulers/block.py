"""Building blocks: the operations of one microbatch with their offsets, repeated with a period; the best of them.

A family of V schedules (zero_bubble.py) calls `best_of` with its designs, mostly those of `v_blocks`.

A block is a steady state written down once. What it holds in memory follows from it alone: an activation is resident
from the start of F to the end of W (or B), a new one begins every period, so a device holds at any time as many of
them as residences overlap modulo the period ("Pipeline Parallelism with Controllable Memory", Qi et al. 2024,
arXiv 2405.15362, section 3).

Where costs differ from those that a block was drawn for, its offsets no longer fit together. So a family offers
designs: its block for its own unit costs, for the given ones, for some between. Each is squeezed, and dispatched under
several policies; every order is timed with the given costs, the best is taken, and a local search improves it. Where
microbatches differ, the costs are those of their mean, so that the block is the same whatever their order is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial, wraps
from itertools import chain, islice, pairwise, product
from typing import Any, NamedTuple

from pipesched.core.arrays import Ints, column, in_range, kernels_for, np, total
from pipesched.core.clock import check_deadline
from pipesched.core.listsched import insert_in_order
from pipesched.core.tasks import TaskGraph, WaitTable
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem, typical
from pipesched.pipeline.problem.quantities import canonical
from pipesched.pipeline.problem.units import SHARED, Slices
from pipesched.schedulers.trials import Effort, Orders, Trials, trials


class Block(NamedTuple):
    """`offsets[kind][s]` is when the operation of that kind on stage s starts, after its microbatch begins; the next
    microbatch begins a `period` later. Both are in 1/`parts` ticks. Kinds are F and B, or F, I and W."""

    offsets: Mapping[str, Sequence[int]]
    period: int
    parts: int = 1

    def peak(self, problem: Problem) -> int:
        """Return the most activations that a device of `problem` holds in the steady state, counted in chunks."""
        last = "B" if "B" in self.offsets else "W"
        lengths = [length * self.parts for length in problem.ticks.of(last)]
        peak = 0
        for device in range(problem.devices):
            stages = problem.settled_placement.stages_on(device)
            spans = [(self.offsets["F"][stage], self.offsets[last][stage], lengths[stage]) for stage in stages]
            for moment, *_ in spans:  # how many repetitions of each last then
                begun = sum((moment - first) // self.period for first, _, _ in spans)
                ended = sum((moment - last - length) // self.period for _, last, length in spans)
                instants = sum(not length and (moment - last) % self.period == 0 for _, last, length in spans)
                peak = max(peak, begun - ended + instants)
        return peak

    def times(self, index: OpIndex) -> Ints:
        """Return the start of each operation in the repeated block, in parts of a tick."""
        first = column([offset for kind in index.letters for offset in self.offsets[kind]])
        period, units = self.period, np.arange(index.units)
        latest = int(first.max()) + (index.units + index.slices) * period
        late = units.reshape(-1, index.slices)[:, ::-1].ravel() + index.slices - 1  # after F of its last slice
        begins = in_range(np.stack([units] * index.stages + [late] * (len(first) - index.stages)), latest) * period
        times: Ints = (in_range(first, latest)[:, None] + begins).ravel()
        return times

    def order(self, index: OpIndex) -> Ints:
        """Return all operations by their time in the repeated block; at equal times, what is waited for comes first."""
        rows = np.arange(index.size).reshape(len(index.letters), -1, index.units)
        listed = np.concatenate([rows[0].ravel(), rows[1:, ::-1].ravel()])
        order: Ints = listed[np.argsort(self.times(index)[listed], kind="stable")]
        return order


def works(problem: Problem) -> list[int]:
    """Return the work of each device for a microbatch, in ticks; no period can be shorter."""
    mean, placement = problem.ticks.mean, problem.settled_placement
    work = [forward + backward for forward, backward in zip(mean["forward"], mean["backward"], strict=True)]
    return [sum(work[stage] for stage in placement.stages_on(device)) for device in range(problem.devices)]


def in_chunks(problem: Problem) -> tuple[Problem, int]:
    """Return `problem` with every activation counted as one chunk, without keys and values, and the grains of a chunk.

    A chunk is in flight up to its W at most, whatever is held beside it.
    """
    retain = tuple(min(part, 1) for part in problem.memory.retain)
    memory = replace(problem.memory, activation=(1,) * problem.stages, retain=retain, kv=0)
    counted = replace(problem, memory=memory)
    return counted, counted.grains.largest["activation"][0]


def with_weights(
    problem: Problem, forwards: Sequence[int], inputs: Sequence[int], period: int, parts: int = 1
) -> Block:
    """Return the block of these offsets of F and I, with each W in the first free time of its device after its I.

    All times are in 1/`parts` ticks, those of F and I by stage.
    """
    lengths = {kind: [length * parts for length in problem.ticks.of(kind)] for kind in "FIW"}
    starts, weights = {"F": forwards, "I": inputs}, [0] * problem.stages
    for device in range(problem.devices):
        stages = problem.settled_placement.stages_on(device)
        busy = [(starts[kind][stage], lengths[kind][stage]) for kind in "FI" for stage in stages]
        for stage in sorted(stages, key=starts["I"].__getitem__):
            earliest, length = starts["I"][stage] + lengths["I"][stage], lengths["W"][stage]
            frees = {earliest + (start + size - earliest) % period for start, size in busy}
            free = (one for one in sorted({earliest, *frees})
                    if all((one - other) % period >= size and (other - one) % period >= length
                           for other, size in busy))  # fmt: skip
            weights[stage] = next(free, earliest + period)  # modulo the period; where it never fits, a period later
            busy.append((weights[stage], length))
    return Block({**starts, "W": weights}, period, parts)


def squeeze(graph: TaskGraph, index: OpIndex, block: Block, capacities: Sequence[int]) -> list[list[int]] | None:
    """Return the order of each device, with at most `capacities[d]` grains of activations on device d.

    Every operation goes, in the order of the block, into the earliest time that is free. What waits in the block only
    for its period moves up. A forward moves up only as far as memory stays under the limit ("Pipeline Parallelism with
    Controllable Memory", Qi et al. 2024, section 3.3).

    None when the block itself holds more than that, so that a forward never fits.
    """
    inserted = insert_in_order(graph, block.order(index), capacities)
    return None if inserted is None else inserted[1]


LOOK = 64  # how many forwards of a device are looked at for one that may overtake
AT_ONCE = 100_000  # events between two looks at the clock


class Policy(NamedTuple):
    """The choices that a block leaves open; what is best depends on the costs."""

    patience: int = 0  # a W may keep the next operation waiting for so many quarters of the W's length
    weight_first: bool = True  # where memory keeps a ready F waiting: W before I
    ahead: int = 0  # an F overtakes others if its device would idle, with memory kept free for so many of them


class Dispatcher:
    """A block of operations, which are the tasks of a graph, to be dispatched by several policies.

    Devices run what is ready, earliest in the block first, and W where else they idle. Where `squeeze` fixes a time for
    each operation and fits the later ones around it, here all devices go through time together, so that a W can fill a
    gap that the block does not have. There is no deadlock while forwards keep the order of the block; one may overtake
    others (`Policy.ahead`) while memory is kept free for them: where that is too little, a deadlock is possible.
    """

    def __init__(self, graph: TaskGraph, index: OpIndex, block: Block) -> None:
        self._graph, self._forward_count = graph, index.stages * index.units
        after = WaitTable(graph.edges.before, graph.edges.after, graph.edges.lag, len(graph))
        by_rank = np.argsort(block.times(index), kind="stable")
        rank, is_weight = np.empty(index.size, dtype=np.int64), np.zeros(index.size, dtype=np.int64)
        rank[by_rank] = np.arange(index.size)
        weights = index.of_kind("W")
        is_weight[weights.start : weights.stop] = 1
        forwards = by_rank[by_rank < self._forward_count]
        machines = (graph.resource, graph.resource[forwards], graph.resource[after.task])
        counts = [np.bincount(one, minlength=len(graph.unit_counts)) for one in machines]
        self._begins, self._first_forwards, coming = (np.concatenate([[0], one.cumsum()]) for one in counts)
        forwards = forwards[np.argsort(graph.resource[forwards], kind="stable")]
        self._block = (after.first, after.task, after.lag, rank, by_rank, is_weight, forwards,
                       self._first_forwards[1:], self._begins[:-1], coming[:-1])  # fmt: skip

    def orders(self, capacities: Sequence[int], policy: Policy) -> Sequence[Sequence[int]] | None:
        """Return the order of each device, with at most `capacities[d]` grains of activations on device d.

        None for a deadlock, to which an `ahead` smaller than what is overtaken can lead.
        """
        graph, size, devices, edges = self._graph, len(self._graph), len(capacities), len(self._graph.edges)
        grace = in_range(graph.duration, total(graph.duration) * policy.patience) * policy.patience // 4
        rooms = column([*capacities])
        kernels, _, give = kernels_for(graph.duration, graph.edges.lag, graph.take, graph.give, rooms, grace)
        none = partial(np.zeros, dtype=int)
        tasks = (graph.duration, graph.take, graph.give, graph.resource, grace)
        given = [*map(give, (*tasks, *self._block, np.diff(graph.waits.first)))]
        state = (none(size), self._first_forwards[:-1].copy(), rooms)
        # until when devices are busy; heaps of inputs, of W and of what is to come, and orders, with counts; events
        sizes = (devices, size, devices, size, devices, edges, devices, size, devices, edges + devices, edges + devices)
        choices = (np.arange(devices), none(devices) + 1, column([0, 0, devices]))
        changing = [*map(give, (*state, *map(none, sizes), *choices))]
        switches = (policy.ahead, LOOK, int(policy.weight_first), self._forward_count)
        left = devices
        while left:
            check_deadline()
            left = kernels.dispatch(AT_ONCE, *switches, *given, *changing)
        order, counts = changing[10], changing[11]
        if sum(counts) < size:
            return None
        return [order[begin:stop] for begin, stop in pairwise(self._begins.tolist())]


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
    others = {design.problem for design in designs} - {problem}
    graphs = {problem: case.graph, **{one: lower(in_chunks(one)[0], case.index) for one in others}}
    drawn = [(graphs[one], block) for place, (one, block) in enumerate(designs) if (one, block) not in designs[:place]]
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
        if dispatched := dispatcher.orders(case.capacities, policy):
            yield dispatched


def costing(problem: Problem, *, between: bool = False) -> Problem:
    """Return `problem` with costs f = b = w without p2p, or with costs halfway `between` those and its own.

    Its slices are alike, and the unit of time is then a tick, as their costs are parts of no decimal.
    """
    mean_unit, count = problem.ticks.mean, problem.slices.count
    scale = problem.ticks.per_unit if count == 1 else 1
    work: dict[str, Any] = {key: mean_unit[key] for key in SHARED}
    mean = max(sum(map(sum, work.values())) // (3 * problem.stages), 1)
    work = {key: [(mean + time) // 2 if between else mean for time in times] for key, times in work.items()}
    tables: dict[str, Any] = {
        key: tuple(canonical(Fraction(count * time, scale)) for time in times) for key, times in work.items()
    }
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
    period = max(1, *works(problem))
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


def published_peak(problem: Problem, waits: Callable[[Problem], Waits]) -> int:
    """Return the chunks that a device holds in the block of these waits for unit costs."""
    unit = costing(problem)
    return v_block(unit, waits(unit)).peak(unit)
