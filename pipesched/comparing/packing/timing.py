"""The makespan of each rank, exactly (`RankTimes`): of all at once where costs keep the order, else one by one.

At once they are columns of works under `Positions`, the slots of a plan whose microbatches may have any length. Behind
that stand what documents cost in a model (`model_costs`), and bins that hold documents (`first_fit`, `within`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from heapq import heapify, heappop, heapreplace
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, NamedTuple

from pipesched.core.arrays import Ints, column, kernels_of_bins, np, total
from pipesched.errors import Deadlock, NoSchedule, NotApplicable, blame
from pipesched.estimation.derived import SetupCutter
from pipesched.estimation.items import core_time
from pipesched.estimation.terms import PER_MS
from pipesched.estimation.times import ItemTimes
from pipesched.pipeline.layers.layers import BALANCED, GIVEN
from pipesched.pipeline.layers.recut import all_cuts, is_cut_open, layout_of, recut, seeks_best
from pipesched.pipeline.plan.lowering import lower, precedence_rows
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.costs import in_one
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.results.document_costs import DocumentCosts, DocumentLoad, ModelCosts
from pipesched.results.outcome import CutChoice
from pipesched.results.run import run
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.ordering import FedPlan
from pipesched.schedulers.plan_of import plan_of
from pipesched.schedulers.registry import family

MOST_TICKS = 1 << 26


class Positions(FedPlan):
    """A plan as rows of slots; `problem` is that of M microbatches alike, whose works and messages are 1.

    So that products of ticks and works stay within 64 bits, these ticks are rounded: the stages together have at most
    MOST_TICKS.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        super().__init__(problem, plan)
        self._graph, self.grains_per_unit = lower(problem, plan.index), problem.grains.per_unit
        edges = self._graph.edges
        hops = sum(row.lag for row in precedence_rows(problem, plan.index))
        scale = max((total(self._graph.duration) // problem.microbatches + hops) // MOST_TICKS, 1)
        self._ticks = (self._graph.duration // scale).astype(np.int64)
        lags = np.concatenate([edges.lag // scale, [0] * (len(plan.waits) + 1)]).astype(np.int64)
        self._lags = lags[self._slots.sweep.edges]  # the last one is of the order of a device

    @property
    def microbatches(self) -> int:
        return self.plan.index.microbatches

    @property
    def letters(self) -> str:
        return self.plan.index.letters

    @cached_property
    def has_lags(self) -> bool:
        return bool(self._lags.any())

    def lasting(self, work: Ints, messages: Ints | None = None) -> Ints:
        """Return the makespan of each case: a column of works, and of sizes of messages, by the microbatch fed."""
        return self.slopes(work, messages)[0]

    def slopes(self, work: Ints, messages: Ints | None = None) -> tuple[Ints, Ints]:
        """Return the makespan of each case, and the ticks by which a unit of work of each microbatch makes it longer.

        These are the ticks of its operations on one longest path.
        """
        found = kernels_of_bins()[1](0 * work[0])
        rows = self.rows(work.T.ravel(), (0 * work if messages is None else messages).T.ravel())
        rows.trace_all(found)
        return column(found), np.asarray(rows.slopes).reshape(work.T.shape).T

    def rows(self, works: Ints, sizes: Ints) -> Any:
        """Return what kernels know of the rows of slots, beside what bins have."""
        kernels, give = kernels_of_bins()
        return kernels.Rows(self.microbatches, *map(give, (works, sizes, 0 * works, 0 * works)), self._columns)

    @cached_property
    def _columns(self) -> list[Any]:
        slots, units, ticks = self._slots, self.plan.index.units, self._ticks
        more, partner = np.zeros_like(slots.tasks), np.zeros_like(slots.tasks)
        more[slots.paired], partner[slots.paired] = ticks[slots.partners], slots.partners % units
        waits = (slots.sweep.first, slots.sweep.before, self._lags, slots.messages % units)
        columns = (0 * more, *waits, ticks[slots.tasks], slots.tasks % units, more, partner)
        return [*map(kernels_of_bins()[1], columns)]

    def levels_of_memory(self, device: int) -> Ints:
        """Return what a device holds as each slot starts, in grains for a unit of activation of each microbatch.

        They are Python's own ints, for grains may be many.
        """
        index, graph, pairs = self.plan.index, self._graph, self.plan.pairs
        held = [0] * index.microbatches
        found = []
        for task in self.plan.orders[device]:
            operations = [task, pairs[task]] if task in pairs else [task]
            for operation in operations:
                held[index.owner_of(operation)] += graph.takes[operation]
            found.append([*held])
            for operation in operations:
                held[index.owner_of(operation)] -= graph.gives[operation]
        return np.array(found, dtype=object)


Rank = tuple[DocumentLoad, ...]  # its microbatches, in the order they are fed
STEPS = 20_000  # documents that are put down in a search with steps back; the first way down is best fit decreasing
MOST_SEARCHED = 2_000  # documents: of more, first fit leaves next to no room
Filled = list[list[int]]  # the documents of each bin
Assignment = list[list[list[int]]]  # the documents of each microbatch of each rank, in the order they are fed


class Timed(NamedTuple):
    """The makespan of a rank in the user's time unit, and whether its schedule is within the budget."""

    makespan: Fraction
    fits: bool = True


@lru_cache(maxsize=16)
def positions_of(problem: Problem, algorithm: str) -> Positions:
    """Return the positions of an algorithm's plan for a problem of microbatches alike.

    Raises NotApplicable, and NoSchedule where it finds no plan within the budget.
    """
    chosen = family(algorithm)
    fitted = prepare(problem, chosen)
    return Positions(fitted, plan_of(chosen, fitted))


class RankTimes:
    """The makespans of ranks under an algorithm, each of which is asked for once."""

    def __init__(self, base: Problem, algorithm: str, costs: DocumentCosts) -> None:
        self.base, self.algorithm, self.costs = base, algorithm, costs
        self._family: Family = family(algorithm)
        self._known: dict[Rank, Timed | None] = {(): Timed(Fraction(0))}
        self.positions, self.fitted = cache(self._positions), cache(self._fitted)

    def is_settled(self, microbatches: int) -> bool:
        """Whether positions of so many microbatches do not depend on costs, as joined backwards do."""
        if self.base.costs.chooses and self._family.splits_backward is not False:
            return False
        return self._family.settles(self.base.devices, self.base.stages, microbatches)

    def _positions(self, microbatches: int) -> Positions:
        """Return the positions of the algorithm's plan of so many microbatches alike. Raises NotApplicable.

        There is no budget, which a document of the reference may exceed.
        """
        memory = replace(self.base.memory, budget=None)
        return positions_of(replace(self.base, microbatches=microbatches, memory=memory), self.algorithm)

    def _fitted(self, microbatches: int) -> Problem:
        """Return the problem of so many microbatches alike as the algorithm runs it."""
        return prepare(replace(self.base, microbatches=microbatches), self._family)

    def of(self, ranks: Sequence[Rank]) -> list[Timed | None]:
        """Return what each takes; None where the algorithm does not apply, or finds no schedule within the budget."""
        new = [*dict.fromkeys(rank for rank in ranks if rank not in self._known)]
        costs, budget = self.base.costs, self.base.memory.budget
        some = (*costs.forward, *costs.backward_input, *costs.backward_weight)
        # with a budget, every slot has to take time: then the order of slots tells memory
        is_told = budget is None or min(in_one(some)) > 0
        at_once = [rank for rank in new if is_told and self.is_settled(len(rank))]
        if at_once:
            self._time_at_once(at_once)
        self._known |= {rank: self._planned(rank) for rank in new if rank not in self._known}
        return [self._known[rank] for rank in ranks]

    def _time_at_once(self, ranks: Sequence[Rank]) -> None:
        """Time ranks of which those of equally many microbatches are cases of the same positions."""
        numbers = {load: number for number, load in enumerate(dict.fromkeys(chain.from_iterable(ranks)))}
        problem: Problem | None = None
        for count in {len(rank): None for rank in ranks}:
            own = [rank for rank in ranks if len(rank) == count]
            try:
                positions = self.positions(count)
            except NotApplicable:
                self._known |= dict.fromkeys(own)
                continue
            problem = problem or self.costs.problem(self.fitted(count), [*numbers])
            fed, orders = positions.of(problem), np.array([[numbers[load] for load in rank] for rank in own])
            fits, limits = np.ones(len(own), dtype=bool), problem.capacity_grains
            for device, peaks in enumerate(fed.peaks(orders) if self.base.memory.budget is not None else ()):
                fits &= limits[device] is None or peaks <= limits[device]
            for rank, makespan, is_within in zip(own, fed.makespans(orders).tolist(), fits.tolist(), strict=True):
                self._known[rank] = Timed(Fraction(int(makespan), problem.ticks.per_unit), is_within)

    def _planned(self, rank: Rank) -> Timed | None:
        try:
            fitted = prepare(self.costs.problem(self.base, rank), self._family)
            schedule = schedule_plan(fitted, plan_of(self._family, fitted))
        except (NotApplicable, NoSchedule, Deadlock):
            return None
        return Timed(Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit), schedule.fits)


def model_costs(problem: Problem, chosen: Family, cap: int) -> tuple[Problem, CutChoice | None, ModelCosts]:
    """Return the problem of a model for one document of `cap` tokens, its cut, and what documents cost.

    A time that was given in place of the model's own grows with the tokens alone. Raises ConfigError about `cap` for
    more tokens than the model takes.
    """
    cutter = problem.cutter
    assert isinstance(cutter, SetupCutter)
    with blame("cap"):
        setup = replace(cutter.setup, batch=replace(cutter.setup.batch, sequence=cap, micro=1))
    whole = replace(problem, cutter=replace(cutter, setup=setup), placement=None)
    fitted, cut = on_best_cut(whole if problem.placement is None else recut(whole, problem.placement), chosen)
    assert isinstance(fitted.cutter, SetupCutter)
    stages, given = fitted.cutter.stages, {*cutter.replaced}
    linear, core = dict[str, tuple[Fraction, ...]](), dict[str, tuple[Fraction, ...]]()
    for key in (*ItemTimes._fields, *["whole"] * fitted.costs.chooses):
        own = key != "whole" and not given & ({key, "backward"} if key.startswith("backward") else {key})
        times = [*map(to_fraction, getattr(fitted.costs, key))]
        core[key] = tuple(Fraction(core_time(stage, key), PER_MS) if own else Fraction(0) for stage in stages)
        linear[key] = tuple(time - part for time, part in zip(times, core[key], strict=True))
    plain = replace(fitted, cutter=None, layers=None, costs=replace(fitted.costs, overlap=None))
    return plain, cut, ModelCosts(cap, linear, core)


def on_best_cut(problem: Problem, chosen: Family) -> tuple[Problem, CutChoice | None]:
    """Return a problem of microbatches alike as an algorithm runs it, on its best cut where that is open, and its cut.

    The latter is None of a problem without layers.
    """
    fitted = prepare(problem, chosen)
    if seeks_best(fitted):
        with suppress(NoSchedule):  # one document as long as the costs are for may exceed a budget
            outcome = run(problem, chosen.name)
            return outcome.problem, outcome.cut
    if fitted.layers is None and fitted.cutter is None:
        return fitted, None
    rule = GIVEN if fitted.layers is None else fitted.layers.rule
    return fitted, CutChoice(layout_of(fitted), BALANCED if is_cut_open(fitted) else rule, 1, all_cuts(fitted))


@lru_cache(maxsize=1)  # asked for to see whether there is a packing, and then as one
def first_fit(tokens: tuple[int, ...], bins: int, cap: int) -> tuple[Filled, list[int]]:
    """Return the bins that each document, in this order, gets into: the first with room; and the documents left over.

    A tree of the most room in each range of bins finds it in a logarithm of their number.
    """
    width = 1 << max(bins - 1, 0).bit_length()
    most = [0] * width + [cap] * bins + [0] * (width - bins)
    for node in range(width - 1, 0, -1):
        most[node] = max(most[2 * node], most[2 * node + 1])
    filled: Filled = [[] for _ in range(bins)]
    left = []
    for document, size in enumerate(tokens):
        if most[1] < size:
            left.append(document)
            continue
        node = 1
        while node < width:
            node = 2 * node + (most[2 * node] < size)
        filled[node - width].append(document)
        most[node] -= size
        while node > 1:
            node //= 2
            most[node] = max(most[2 * node], most[2 * node + 1])
    return filled, left


def within(tokens: Sequence[int], bins: int, cap: int) -> Filled | None:
    """Return documents, from long to short, in so many bins within the cap, none of them empty; None if none is found.

    What is found first is taken: by first fit, else by a search with steps back.
    """
    if len(tokens) < bins or sum(tokens) > bins * cap or tokens[0] > cap:
        return None
    filled, left = first_fit(tuple(tokens), bins, cap)
    if not left:
        return none_empty([[*members] for members in filled])
    found = _searched(tokens, bins, cap) if len(tokens) <= MOST_SEARCHED else None
    return None if found is None else none_empty(found)


def none_empty(filled: Filled) -> Filled:
    """Let each bin that is empty have the last document of a bin that holds most of them; return the bins."""
    rich = [(-len(members), number) for number, members in enumerate(filled) if len(members) > 1]
    heapify(rich)
    for members in filled:
        if not members:
            count, number = rich[0]
            members.append(filled[number].pop())
            heapreplace(rich, (count + 1, number))
    return filled


def _searched(tokens: Sequence[int], bins: int, cap: int) -> Filled | None:
    """Search with steps back: a document goes to each bin with room, fullest first; a way ends with too little room."""
    room, placed = [cap] * bins, [-1] * len(tokens)
    rest = [*accumulate(reversed(tokens))][::-1]
    tried: list[list[int]] = []
    for _ in range(STEPS):
        document = len(tried)
        if document == len(tokens):
            return [[d for d, number in enumerate(placed) if number == b] for b in range(bins)]
        size, least = tokens[document], tokens[-1]
        usable = sum(free for free in room if free >= least)
        ways: list[int] = []
        if usable >= rest[document]:
            first = {free: number for number, free in reversed([*enumerate(room)]) if free >= size}
            ways = [first[free] for free in sorted(first, reverse=True)]
        tried.append(ways)
        while not tried[-1]:
            tried.pop()
            if not tried:
                return None
            room[placed[len(tried) - 1]] += tokens[len(tried) - 1]
        document = len(tried) - 1
        placed[document] = tried[-1].pop()
        room[placed[document]] -= tokens[document]
    return None


def differencing(weights: Sequence[int], parts: int) -> list[list[int]]:
    """Return the positions of the weights in each of so many parts, the heaviest part first.

    The two partitions of the largest differences between their heaviest and lightest part become one, the heaviest
    part of the one with the lightest of the other, until one is left. Of equal differences the older is first. No part
    is empty where there are as many weights as parts.
    """
    rest, joins = [(0, -1)] * (parts - 1), list[tuple[int, int]]()  # a part is named by one of its members, else -1
    heap = [(-weight if parts > 1 else 0, number, [(weight, number), *rest]) for number, weight in enumerate(weights)]
    heapify(heap)
    for number in range(len(weights), 2 * len(weights) - 1):
        joined = heappop(heap)[2]
        for part, (more, other) in enumerate(heap[0][2], 1):
            if other < 0:
                break
            weight, own = joined[-part]
            joined[-part] = weight + more, other
            joins.append((own, other))
        joined.sort(key=itemgetter(0), reverse=True)
        heapreplace(heap, (joined[-1][0] - joined[0][0], number, joined))
    found: list[list[int]] = [[] for _ in range(parts)]
    members = {name: own for (_, name), own in zip(heap[0][2], found, strict=True)}
    for name, other in reversed(joins):
        members[name] = members[other]
    for number in range(len(weights)):
        members[number].append(number)
    return found


def other_packings(
    lengths: Sequence[int],
    ranks: int,
    microbatches: int,
    cap: int,
    reference: int,
    work: Callable[[list[int]], Fraction],
) -> list[tuple[str, Assignment, int]]:
    """Return what each rule makes of documents from long to short, and how many find no room.

    `work` says what a microbatch costs, by which verl orders them. Empty microbatches are left out.
    """
    bins, left = first_fit(tuple(lengths), ranks * microbatches, cap)
    shared = [[members for members in bins[rank::ranks] if members] for rank in range(ranks)]
    weights = [length * reference + length * length for length in lengths]
    differenced, ordered = Assignment(), Assignment()
    for part in differencing(weights, ranks):
        own = differencing([weights[document] for document in part], microbatches)
        differenced.append([[part[number] for number in members] for members in own if members])
        order = in_verl_order([work(members) for members in differenced[-1]])
        ordered.append([differenced[-1][number] for number in order])
    return [("first-fit", shared, len(left)), ("karmarkar-karp", differenced, 0), ("verl", ordered, 0)]


def in_verl_order(works: Sequence[Fraction]) -> list[int]:
    """Return microbatches by verl's rule: from large to small, by turns before and behind all others."""
    falling = sorted(range(len(works)), key=lambda number: (works[number], number), reverse=True)
    return [*falling[::2][::-1], *falling[1::2]]
