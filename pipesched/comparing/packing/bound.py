"""A bound below every packing of the documents, every order of microbatches and every schedule on a placement.

`packing_bound` is where one begins: `_of_device` has the plain bound and the geometric one (`geometric_gap`) of each
device. `best_of_all`, where packings are few, goes through all of them.

Some rank has at least the mean work of a device. Costs add up over documents, so that the head of a microbatch, the
time before a device can begin it, is at least that of any of its documents; likewise its tail. That is the plain bound:
the mean work, the least head and the least tail.

The geometric bound is sharper, because so many microbatches cannot all have a small head. Let a device's stages begin
with stage s, let a microbatch of work w have the head a w and the tail b w, and let it take at least f w on each stage
up to s forwards, and g w backwards. Take a rank, and all but its j smallest microbatches; they are L, and the j smaller
ones together have work S. The device first works on one of L, say m, at a time t. What it did before was for the
smaller ones, some of which it ran before m, together of work X <= S. Each of these comes before m on stage s. So on
some stage it comes before m for the first time, where m waits for it while it takes f w or more: on the first stage,
or on one where it began only when m had left the stage before. No two of these waits overlap. So t >= a w(m) + f X, of
which the device worked X at most: it idles a w(m) - (1 - f) S before t, at least. The same holds backwards from the
end. With idle times i before and k behind all this, the microbatches of a rank, from small to large, satisfy
a w <= i + (1 - f) S and b w <= k + (1 - g) S, S being the sum of those before. So at most so much work fits into M of
them: by each choice of one of the two for each microbatch, a multiple of i plus a multiple of k. The least i + k whose
M microbatches hold the mean work is what the bound adds to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import inf, lcm
from typing import NamedTuple

from pipesched.comparing.packing.timing import Assignment, RankTimes
from pipesched.core.arrays import Ints, np
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.units import WHOLE
from pipesched.results.document_costs import MILLION, DocumentCosts, Rate, load_of

HALF = Fraction(1, 2 * MILLION)  # of what works and sizes are rounded to
ROUNDED = Fraction(1, 10**8)  # of a time that has nine digits, and was perhaps rounded twice
SAFE = 1 - 1e-9  # what is computed in floats is taken down by more than they round
MOST_PATTERNS = 64  # of choices of one of two, of which any number makes a bound
LARGEST, MOST_HELD = 1e140, 1e60  # of a factor: products of two are finite; and of work for an idle time of 1
MOST = 100_000  # ways to put every document into some microbatch of some rank
Sets = tuple[int, ...]  # of documents, bit d for document d: the microbatches of a rank as they are fed, say


class StageRates(NamedTuple):
    """What the stages take: forward, gradient (B, or I of a split one) and weights (W, or nothing); and `hops`.

    These are the latencies of boundaries, there and back, for a message of size 1.
    """

    forward: Sequence[Rate]
    gradient: Sequence[Rate]
    weights: Sequence[Rate]
    hops: Sequence[Fraction]
    hops_back: Sequence[Fraction]


class DocumentAmounts(NamedTuple):
    """The two amounts of each document, from long to short, and the sizes of messages."""

    linear: Sequence[int]
    core: Sequence[int]
    longest_size: Fraction
    shortest_size: Fraction
    lost: Fraction = Fraction(0)  # what rounding takes at most of the amounts of a microbatch
    lost_size: Fraction = Fraction(0)  # and of its size
    share: Fraction = Fraction(0)  # and the part of any time
    floats: Ints | tuple[Ints, ...] = ()  # the amounts, a row each

    def one(self, number: int, rate: Rate) -> Fraction:
        """Return what a document takes at least, after rounding."""
        return max(rate.of(self.linear[number], self.core[number]) - self.lost * rate.linear, Fraction(0))

    def least_ratio(self, part: Rate, whole: Rate) -> float:
        """Return the least part of what a document takes: that of the shortest or the longest is."""
        ends = [(self.linear[n], self.core[n]) for n in (0, -1)]
        return min((float(part.of(*end) / whole.of(*end)) for end in ends if whole.of(*end)), default=0.0)


def amounts_of(lengths: Sequence[int], costs: DocumentCosts, *, rounded: bool) -> DocumentAmounts:
    """Return the amounts of documents from long to short; `rounded`: a speed divides times, which are rounded then."""
    linear, core = zip(*map(costs.amounts, lengths), strict=True)
    unit = costs.reference_amount
    exact_works = not unit or all(MILLION * amount % unit == 0 for amount in linear)
    exact_sizes = all(MILLION * length % costs.reference == 0 for length in lengths)
    longest, shortest = (Fraction(lengths[end], costs.reference) for end in (0, -1))
    lost, lost_size = Fraction(0) if exact_works else HALF * unit, Fraction(0) if exact_sizes else HALF
    share = ROUNDED if rounded or not unit else Fraction(0)
    floats = np.array([linear, core], dtype=np.float64)
    return DocumentAmounts(linear, core, longest, shortest, lost, lost_size, share, floats)


def rates_of(problem: Problem, costs: DocumentCosts, letters: str) -> StageRates:
    """Return what the stages of a problem of microbatches alike take, by these kinds, beside their overhead."""
    problem = replace(problem, slices=WHOLE)
    gradient = "I" if "I" in letters else "B"

    def rates(letter: str) -> list[Rate]:
        if letter not in letters:
            return [Rate(Fraction(0))] * problem.stages
        return [costs.rate(problem, KINDS[letter].cost, stage) for stage in range(problem.stages)]

    ticks = problem.ticks
    hops, back = ([Fraction(min(row), ticks.per_unit) for row in ticks.rows[key]] for key in ("p2p", "p2p_back"))
    return StageRates(rates("F"), rates(gradient), rates("W"), hops, back)


class Share(NamedTuple):
    """How documents are shared out: among so many ranks, each with so many microbatches."""

    ranks: int
    microbatches: int


def packing_bound(
    documents: DocumentAmounts, rates: StageRates, placement: Placement, share: Share, *, geometric: bool
) -> Fraction:
    """Return what the slowest rank takes at least. Without `geometric` it is the plain bound alone."""
    way = sum_of([*rates.forward, *rates.gradient])
    work = sum_of([*rates.forward, *rates.gradient, *rates.weights])
    size = max(documents.longest_size - documents.lost_size, Fraction(0))
    found = [documents.one(0, way) + size * sum([*rates.hops, *rates.hops_back])]
    if len(placement.ways) > 1:  # which way a microbatch goes is open: some device has the mean of all
        found.append(_mean(documents, work, share) / (placement.last + 1))
    else:
        for device in range(placement.last + 1):
            own = [stage for stage, there in enumerate(placement.devices) if there == device]
            found += _of_device(documents, rates, own, share, geometric=geometric)
    return max(found) * (1 - documents.share)


def sum_of(rates: Sequence[Rate]) -> Rate:
    """Return what all of them take."""
    linear, core = (sum(column, Fraction(0)) for column in zip(*rates, strict=True)) if rates else (Fraction(0),) * 2
    return Rate(linear, core)


def _mean(documents: DocumentAmounts, rate: Rate, share: Share) -> Fraction:
    """Return what the documents of a rank take on average, less what rounding may take from its microbatches."""
    whole = rate.of(sum(documents.linear), sum(documents.core))
    return whole / share.ranks - share.microbatches * documents.lost * rate.linear


def _of_device(
    documents: DocumentAmounts, rates: StageRates, own: Sequence[int], share: Share, *, geometric: bool
) -> Iterator[Fraction]:
    """Yield the bounds of a device that runs these stages: of all its work, where W leaves no tail, and of F and I."""
    first, gradients = own[0], sum_of([rates.gradient[stage] for stage in own])
    forward, weights = sum_of([rates.forward[stage] for stage in own]), sum_of([rates.weights[stage] for stage in own])
    # of both ends of the way of a microbatch: what the stages before take together, these and the first, and hops
    head = sum_of(rates.forward[:first]), {*rates.forward[: first + 1]}, sum(rates.hops[:first], Fraction(0))
    tail = sum_of(rates.gradient[:first]), {*rates.gradient[: first + 1]}, sum(rates.hops_back[:first], Fraction(0))
    works = [(forward.plus(gradients), tail)]
    if any(weights):
        works.append((forward.plus(gradients).plus(weights), (sum_of([]), set[Rate](), Fraction(0))))
    size = max(documents.shortest_size - documents.lost_size, Fraction(0))
    for work, end in works:
        mean, hops = _mean(documents, work, share), size * (head[2] + end[2])
        yield mean + documents.one(-1, head[0]) + documents.one(-1, end[0]) + hops
        if geometric and mean > 0:
            ratios = [documents.least_ratio(before, work) * SAFE for before, *_ in (head, end)]
            of_stages = ((documents.least_ratio(rate, work) for rate in up_to) for _, up_to, _ in (head, end))
            waits = [min(each, default=0.0) for each in of_stages]
            gap = geometric_gap(float(mean), share.microbatches, *ratios, *(least * SAFE for least in waits))
            yield mean + hops + Fraction(gap * SAFE)
            # of the n longest documents alone, for every n: some rank has their mean work, and one has at least n / D
            # of them, rounded up, each no lighter than the lightest
            linear, core = documents.floats
            each = float(work.linear) * linear + float(work.core) * core - float(documents.lost * work.linear)
            each = np.maximum(each, 0)
            most = -(-np.arange(1, len(each) + 1) // share.ranks)
            found = np.maximum(each.cumsum() / share.ranks, most * each) + sum(ratios) * each
            yield Fraction(float(found.max()) * SAFE)


def geometric_gap(work: float, count: int, head: float, tail: float, forward: float, backward: float) -> float:
    """Return the least idle time of a device whose `count` microbatches have so much work together (see above).

    `head` and `tail` are those of a microbatch of work 1, `forward` and `backward` the least that it takes on a stage
    before.
    """
    sides = [(head, max(1 - forward, 0.0)), (tail, max(1 - backward, 0.0))]
    lines = [*_patterns(count, *sides)], [(second, first) for first, second in _patterns(count, *sides[::-1])]
    most = inf
    for line in map(np.array, filter(None, lines)):
        (a, c), (b, d) = line.T[:, _pairs(len(line))]
        falls, rises = b - d, c - a
        even = falls * rises > 0  # neither sum is the lesser of all shares: it is the most where they are equal
        equal = np.divide(a * falls + b * rises, falls + rises, out=np.zeros_like(a), where=even)
        lesser = np.maximum(np.maximum(np.minimum(a, c), np.minimum(b, d)), equal)  # at most, of shares of 1
        most = min(most, float(lesser.min()))
    return work / most if 0 < most < MOST_HELD else 0.0


@lru_cache(maxsize=16)
def _pairs(count: int) -> Ints:
    """Return each pair of patterns, also of one with itself."""
    return np.array(np.triu_indices(count))


def _patterns(count: int, first: tuple[float, float], second: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """Yield the most work of `count` microbatches, as multiples of the idle times of two sides.

    The smallest microbatches are held down by the first side, and all others by the second.
    """
    of_first, of_second = [0.0], [0.0]  # the most work of 0 to `count` microbatches that a side holds down, by itself
    for totals, (slope, growth) in ((of_first, first), (of_second, second)):
        for _ in range(count if slope else 0):  # a side without a head or a tail holds none down
            totals.append(min(totals[-1] + (1 + growth * totals[-1]) / slope, LARGEST))
    for number in range(min(count, MOST_PATTERNS) + 1):
        switch = count * number // min(count, MOST_PATTERNS)
        if switch < len(of_first) and count - switch < len(of_second):
            added = of_second[count - switch]
            yield min(of_first[switch] * (1 + second[1] * added), LARGEST), added


def are_few(documents: int, ranks: int, microbatches: int) -> bool:
    """Return whether all packings are tried."""
    bins = ranks * microbatches
    return bins == 1 or (bins <= documents < MOST.bit_length() and bins**documents <= MOST)


def best_of_all(lengths: Sequence[int], ranks: int, microbatches: int, cap: int, times: RankTimes) -> list[Assignment]:
    """Return the packing of the shortest slowest rank, of equals that of the least sum, of those within the budget.

    If none is, it is that of all; none where no packing is within the cap and can be scheduled.
    """
    every = (1 << len(lengths)) - 1
    orders = [*_orders(lengths, ranks, microbatches, cap)] if ranks * microbatches > 1 else [(every,)]
    loads = {part: load_of([lengths[document] for document in _members(part)]) for part in {*chain(*orders)}}
    timed = times.of([tuple(loads[part] for part in order) for order in orders])
    scale = lcm(*(one.makespan.denominator for one in timed if one is not None))
    for needs_fit in (True, False):
        best: dict[int, tuple[int, Sets]] = {}  # by a set of documents: the least that a rank takes, and its order
        for order, one in zip(orders, timed, strict=True):
            if one is not None and (one.fits or not needs_fit):
                takes, used = int(one.makespan * scale), sum(order)
                if used not in best or takes < best[used][0]:
                    best[used] = takes, order
        found = _least_partition(best, every, ranks, microbatches)
        if found is not None:
            return [[[_members(part) for part in best[used][1]] for used in found]]
    return []


def _orders(lengths: Sequence[int], ranks: int, microbatches: int, cap: int) -> Iterator[Sets]:
    """Yield the orders of microbatches that a rank may have: none empty, and none above the cap."""
    elsewhere = int(ranks > 1)  # then the digit 0 of a document says that another rank has it
    base = microbatches + elsewhere
    codes = np.arange(base ** len(lengths))
    parts = np.zeros((microbatches, len(codes)), dtype=np.int64)
    used = np.zeros_like(parts)
    for document, length in enumerate(lengths):
        digits = codes // base**document % base
        for number in range(microbatches):
            has_it = digits == number + elsewhere
            parts[number] += has_it * (1 << document)
            used[number] += has_it * min(length, cap + 1)
    legal = ((parts > 0) & (used <= cap)).all(axis=0)
    return map(tuple, parts[:, legal].T.tolist())


def _members(part: int) -> list[int]:
    return [document for document in range(part.bit_length()) if part >> document & 1]


def _least_partition(best: Mapping[int, tuple[int, Sets]], every: int, ranks: int, microbatches: int) -> Sets | None:
    """Return the sets of the least slowest rank, of equals of the least sum; None where there are none.

    The search gives the longest document that is left to the next rank first.
    """
    least: tuple[float, float] = (inf, inf)
    found: Sets | None = None

    def share_out(rest: int, taken: Sets, slowest: int, total: int) -> None:
        """Give the documents of `rest`, bits, to the ranks that are left, and keep what is least."""
        nonlocal least, found
        if (slowest, total) >= least:
            return
        left = ranks - len(taken)
        if not left:
            if not rest:
                least, found = (slowest, total), taken
            return
        first = rest & -rest  # the longest document that is left is the lowest bit
        others = part = rest ^ first  # with `first` goes each part of the others, from all of them to none
        while True:
            used = first | part if left > 1 else rest
            if first and used in best and (rest ^ used).bit_count() >= (left - 1) * microbatches:
                takes = best[used][0]
                share_out(rest ^ used, (*taken, used), max(slowest, takes), total + takes)
            if not part or left == 1:
                return
            part = (part - 1) & others

    share_out(every, (), 0, 0)
    return found
