"""Documents packed into the microbatches of data-parallel ranks, so that the slowest rank takes least.

`pack` reads its arguments and settles the costs of documents. `_Packer.packing` then packs for one number of
microbatches: all ways where there are few (bound.py), else by `searched` (search.py), beside `other_packings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from numbers import Integral
from typing import Any

from pipesched.checks import require_name, require_sequence, require_whole, shown
from pipesched.comparing.packing.bound import Share, amounts_of, are_few, best_of_all, packing_bound, rates_of
from pipesched.comparing.packing.search import Judged, judge, searched
from pipesched.comparing.packing.timing import (
    Assignment,
    RankTimes,
    model_costs,
    on_best_cut,
    other_packings,
    within,
)  # fmt: skip
from pipesched.core.arrays import ceil_div
from pipesched.errors import ConfigError, NoSchedule, NotApplicable, Remedy
from pipesched.estimation.derived import SetupCutter
from pipesched.pipeline.layers.recut import can_be_cut
from pipesched.pipeline.plan.message_programs import require_free
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.problem import Problem, require_problem
from pipesched.pipeline.problem.quantities import TIME, Unit, exact, exact_numbers, plain, to_fraction
from pipesched.pipeline.problem.units import OF_BOTH, Slices
from pipesched.results.document_costs import DocumentCosts, FactorCosts, load_of
from pipesched.results.packing import Packing, PackingBaseline
from pipesched.schedulers.registry import family

AUTO, BEST = "auto", "best"  # the least number of microbatches for which a packing is found, and that of the shortest
MOST_COUNTS = 64  # numbers of microbatches that are tried
FEW, MANY = 2_000, 20_000  # documents in all numbers, up to which each is searched for auto, and for best
DROP, SPLIT = TOO_LONG = ("drop", "split")  # what may become of documents above the cap
MOST_TOKENS = 10**12  # of a document, and of a microbatch


def read_lengths(given: Any) -> list[int]:
    """Return the lengths of documents as ints. Raises ConfigError about `lengths`, with the entry at fault."""
    values = given
    if getattr(given, "ndim", None) is not None:  # an array
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise ConfigError(f"must be whole numbers in one dimension, not an array of {given.dtype}", "lengths")
        values = given.tolist()
    values = require_sequence(list(values) if isinstance(values, range) else values, "lengths")
    if not values:
        raise ConfigError("must hold a document at least", "lengths")
    if {*map(type, values)} != {int} or min(values) < 1 or max(values) > MOST_TOKENS:
        for entry, value in enumerate(values):
            require_whole(value, "lengths", least=1, most=MOST_TOKENS, entry=entry)
    return [*map(int, values)]


def pieces_of(lengths: Sequence[int], cap: int, too_long: Any) -> tuple[list[int], list[tuple[int, int]] | None]:
    """Return lengths, and where documents above the cap are split the document and the first token of each piece.

    Raises ConfigError for documents above the cap, of which nothing is said: how many there are, and the longest.
    """
    chosen = None if too_long is None else require_name(TOO_LONG, too_long, "too_long", "too_long")
    above = sum(length > cap for length in lengths)
    if above and (chosen is None or (chosen == DROP and above == len(lengths))):
        longest = max(lengths)
        what = f"document {lengths.index(longest)} has {longest} tokens, the cap is {cap}"
        count = f"; {above} of {len(lengths)} are above it, and this is the longest" if above > 1 else ""
        raise ConfigError(f"{what}{count}: `too_long` {DROP} leaves such out, {SPLIT} cuts them into pieces", "lengths")
    if not above or chosen == DROP:
        return [*lengths], None
    pieces = [(index, begin) for index, length in enumerate(lengths) for begin in range(0, length, cap)]
    return [min(lengths[index] - begin, cap) for index, begin in pieces], pieces


def read_counts(value: Any, default: int) -> str | list[int]:
    """Return numbers of microbatches, or a word for them. Raises ConfigError about `microbatches`."""
    if isinstance(value, str):
        return require_name((AUTO, BEST), value, "number of", "microbatches")
    if isinstance(value, (list, tuple, range)) and value:
        return sorted({require_whole(one, "microbatches", least=1) for one in value})
    if value is not None and not isinstance(value, Integral):
        what = f"must be a whole number of at least 1, several, {AUTO} or {BEST}, not {shown(value)}"
        raise ConfigError(what, "microbatches")
    return [default if value is None else require_whole(value, "microbatches", least=1)]


def require_alike(problem: Any) -> Problem:
    """Return a problem whose microbatches are alike. Raises ConfigError about what makes them differ."""
    checked = require_problem(problem)
    require_free(checked, "packing")
    if checked.sizes is not None:
        raise ConfigError("must be of microbatches alike; those of this one have sizes of their own", "problem")
    if (checked.costs.microbatches, checked.memory.microbatches) != (None, None):
        raise ConfigError("must be of microbatches alike; this one has costs of each microbatch", "problem")
    if checked.slices.are_several:
        raise ConfigError("must be of whole microbatches; this one has `slices`", "problem")
    if checked.costs.overlap is not None and checked.cutter is None:
        what = "is one time for all microbatches, and packed ones differ; leave it out, and a pair takes both its parts"
        raise ConfigError(what, "overlap")
    return checked


def pack(
    lengths: Sequence[int] | Any,
    *,
    ranks: int,
    cap: int,
    problem: Problem,
    microbatches: int | str | Sequence[int] | None = None,
    multiple_of: int = 1,
    algorithm: str | Callable[..., Any] = "1f1b",
    attention: Any = 0,
    reference: int | None = None,
    overhead: Any = None,
    too_long: str | None = None,
) -> Packing:
    """Pack documents into the microbatches of ranks that train side by side, so that the slowest rank takes least.

    Args:
        lengths: The tokens of each document: a sequence of whole numbers, or an array of them.
        ranks: The data-parallel ranks, each with a pipeline of its own.
        cap: The most tokens of a microbatch.
        problem: The pipeline of a rank, of microbatches alike, whose costs are those of one document of `reference`
            tokens. The costs of a model are taken at `cap` tokens, apart for what grows with their square.
        microbatches: Of each rank; default those of the problem, "auto" the least for which a packing is found, "best"
            that of the shortest, a list that of the shortest of these. Of equals it is the smaller; at most 64 are
            tried, evenly.
        multiple_of: What the number of microbatches is a multiple of, where it is to be found.
        algorithm: A name or alias of `algorithms()`, or a function.
        attention: The part, from 0 to 1, of the work of one document of `reference` tokens that grows with their
            square.
        reference: The tokens of the document that the costs are for; default `cap`.
        overhead: A time that each pass of a microbatch lasts beside its documents, or a pair: that of forwards, and
            that of backwards; default the `slices.overhead` of the problem.
        too_long: What becomes of documents above the cap: "drop" leaves them out, "split" cuts them into pieces.

    Returns:
        The best packing that was found: never longer than a baseline that fits, and where there are few, the best of
        all packings and orders (`exact`).

    Raises:
        ConfigError: For a bad argument, which is its `key`: of documents above the cap without `too_long`, and of
            fewer documents than microbatches, `lengths`.
        NotApplicable: The algorithm does not suit the problem.
        NoSchedule: No packing was found within the cap, or none that the algorithm can schedule within the budget.
    """
    ranks, cap = require_whole(ranks, "ranks", least=1), require_whole(cap, "cap", least=1)
    given, pieces = pieces_of(read_lengths(lengths), cap, too_long)
    try:
        part = exact(attention)
    except ValueError:
        part = Fraction(-1)
    if not 0 <= part <= 1:
        raise ConfigError(f"must be a number from 0 to 1, not {shown(attention)}", "attention")
    tokens = cap if reference is None else require_whole(reference, "reference", least=1)
    base = require_alike(problem)
    if overhead is not None:
        pair = exact_numbers("overhead", overhead, 2, OF_BOTH, Unit(TIME, base.time_unit))
        base = replace(base, slices=Slices(overhead=pair))
    chosen = family(algorithm)
    if chosen.required:
        named = ", ".join(f"`{option}`" for option in chosen.required)
        raise NotApplicable(f"{chosen.name} needs {named}, which a packing does not take", "algorithm")
    costs: DocumentCosts = FactorCosts(part, tokens)
    asked = read_counts(microbatches, problem.microbatches)
    if isinstance(base.cutter, SetupCutter) and not part and reference is None:
        base, cut, costs = model_costs(base, chosen, cap)
    else:
        count = asked[0] if isinstance(asked, list) and len(asked) == 1 else max(ceil_div(sum(given), ranks * cap), 1)
        base, cut = replace(base, microbatches=count), None
        if base.layers is not None or base.cutter is not None:  # microbatches that differ might be cut otherwise
            fitted, cut = on_best_cut(base, chosen)
            costs_alike = replace(fitted.costs, overlap=None)
            base = replace(fitted, cutter=None, layers=None, costs=costs_alike) if can_be_cut(base) else base
    times = RankTimes(base, chosen.name, costs)
    if multiple_of != 1 and len(asked) == 1:
        raise ConfigError(f"goes with {AUTO}, {BEST} and several numbers of microbatches, not with one", "multiple_of")
    multiple = require_whole(multiple_of, "multiple_of", least=1)
    packing = _Packer(given, ranks, cap, times).counted(asked, multiple)
    return replace(packing, pieces=None if pieces is None else tuple(pieces), cut=cut)


class _Packer:
    """Packings of documents into microbatches, of which `share` has a number, and those of other rules."""

    def __init__(self, given: Sequence[int], ranks: int, cap: int, times: RankTimes) -> None:
        kept = (index for index, length in enumerate(given) if length <= cap)
        self.given, self.indices = given, sorted(kept, key=lambda one: -given[one])  # of equal ones the lower first
        self.lengths = [given[index] for index in self.indices]  # from long to short
        self.share, self.cap, self.times, self.costs = Share(ranks, 0), cap, times, times.costs

    def counted(self, asked: str | Sequence[int], multiple: int) -> Packing:
        """Return the packing of so many microbatches, the shortest of several multiples, or for `auto` of the least.

        Raises ConfigError for more bins than documents, and NoSchedule where no packing is found.
        """
        number, ranks = len(self.lengths), self.share.ranks
        if not isinstance(asked, str) and len(asked) == 1:
            return self.packing(self._checked(asked[0]))
        every = range(multiple, number // ranks + 1, multiple)
        several: Sequence[int] = every if isinstance(asked, str) else [one for one in asked if one in every]
        least = self._least(several)
        if least is None:
            where = f"{'' if multiple == 1 else f' that is a multiple of {multiple}'} on {ranks} ranks"
            raise NoSchedule(f"no number of microbatches{where} holds the {number} documents, none empty")
        several = several[several.index(least) :]
        if asked != AUTO:
            return self._best(several)
        packing, more = self.packing(least), several[1:]
        best = self._best(more if len(more) * number <= FEW else more[:: ceil_div(len(more), 8)][:3], packing)
        is_shorter = best.makespan < packing.makespan and best.fits >= packing.fits
        return replace(packing, more=(best.microbatches, best.makespan)) if is_shorter else packing

    def _checked(self, count: int) -> int:
        """Return a number of microbatches for which there is a packing. Raises what `counted` does."""
        number, ranks = len(self.lengths), self.share.ranks
        if ranks * count > number:
            what = f"{number} documents are too few for {ranks} ranks x {count} microbatches, none of them empty"
            raise ConfigError(what, "lengths")
        self.times.positions(count)  # raises where it does not apply
        if within(self.lengths, ranks * count, self.cap) is not None:
            return count
        least = self._least(range(count + 1, number // ranks + 1))
        room = f"{sum(self.lengths)} tokens do not go into {ranks} ranks x {count} microbatches of {self.cap}"
        if least is None:
            raise NoSchedule(f"{room}, and documents are too few for more microbatches")
        would_fit = [Remedy(f"`microbatches` {least}", "microbatches")]
        raise NoSchedule(f"{room}: needs at least M = {least}", would_fit=would_fit)

    def _least(self, counts: Sequence[int]) -> int | None:
        """Return the first number of microbatches for which a packing is found and the algorithm applies."""
        for count in counts:
            bins = self.share.ranks * count
            if sum(self.lengths) <= bins * self.cap and within(self.lengths, bins, self.cap) is not None:
                with suppress(NotApplicable):
                    self.times.positions(count)
                    return count
        return None

    def _best(self, counts: Sequence[int], other: Packing | None = None) -> Packing:
        """Return the shortest packing of several numbers of microbatches, of equals that of the smaller, or the other.

        At most MOST_COUNTS of them are tried, evenly; with more than MANY documents in these every eighth, and then
        those ever nearer to the shortest. Raises NoSchedule where no packing is found, and there is no other.
        """
        counts, known = counts[:: max(ceil_div(len(counts), MOST_COUNTS), 1)], dict[int, Packing]()
        step = 1 if len(counts) * len(self.lengths) <= MANY else ceil_div(len(counts), 8)
        places: Iterable[int] = range(0, len(counts), step)
        while True:
            for place in {*places} - {*known} & {*range(len(counts))}:
                if self._least([counts[place]]) is not None:
                    with suppress(NoSchedule):
                        known[place] = self.packing(counts[place])
            if not known:
                return other or self.packing(counts[0])  # which raises
            best = min(known, key=lambda place: (not known[place].fits, exact(known[place].makespan), place))
            if step == 1:
                tried = tuple((counts[place], known[place].makespan) for place in sorted(known))
                return replace(known[best], tried=tried)
            step //= 2
            places = best - step, best + step

    def packing(self, microbatches: int) -> Packing:
        """Return the best that is found. Raises NoSchedule where the algorithm can schedule none."""
        self.share = self.share._replace(microbatches=microbatches)
        lengths, cost = self.lengths, self.costs
        others = other_packings(
            lengths, *self.share, self.cap, cost.reference, lambda them: cost.work(load_of([lengths[d] for d in them]))
        )
        exact = are_few(len(self.lengths), *self.share)
        if exact:
            found = best_of_all(self.lengths, *self.share, self.cap, self.times)
        else:
            starts = [assignment for _, assignment, left in others if self._is_packing(assignment, left)]
            found = searched(self.lengths, *self.share, self.cap, self.times, starts)
        judged = judge([*(assignment for _, assignment, _ in others), *found], self.lengths, self.times)
        baselines, whole = list[PackingBaseline](), list[Judged]()
        for (rule, assignment, left), one in zip(others, judged, strict=False):
            makespan = None if left or one.makespan is None else plain(one.makespan)
            empty = self.share.ranks * microbatches - sum(map(len, assignment))
            is_packing, most = self._is_packing(assignment, left), self._most(assignment)
            baselines.append(PackingBaseline(rule, is_packing and one.fits, makespan, most, left, empty))
            whole += [one] * is_packing
        candidates = [*judged[len(others) :], *([] if exact else whole)]
        best = min(candidates, key=lambda one: one.key, default=None)
        if best is None or best.ranks is None:
            raise NoSchedule(f"no packing was found that {self.times.algorithm} schedules within the budget")
        assignment = [[sorted(self.indices[d] for d in members) for members in rank] for rank in best.assignment]
        return Packing(
            lengths=tuple(self.given),
            cap=self.cap,
            algorithm=self.times.algorithm,
            assignment=assignment,
            makespans=tuple(plain(rank.makespan) for rank in best.ranks),
            bound=plain(self._bound(exact=exact)),
            letters=self.times.positions(microbatches).letters,
            exact=exact,
            fits=best.fits,
            baselines=tuple(baselines),
            base=self.times.base,
            costs=self.costs,
        )

    def _most(self, assignment: Assignment) -> int:
        return max(sum(map(self.lengths.__getitem__, members)) for rank in assignment for members in rank)

    def _is_packing(self, assignment: Assignment, left: int) -> bool:
        """Return whether each rank has all its microbatches, within the cap, and no document is left over."""
        is_whole = {*map(len, assignment)} == {self.share.microbatches}
        return is_whole and not left and self._most(assignment) <= self.cap

    def _bound(self, *, exact: bool) -> Fraction:
        """Return a bound below every packing; where the packing is the best of all, the plain one tells enough."""
        fitted = self.times.fitted(self.share.microbatches)
        letters = self.times.positions(self.share.microbatches).letters
        amounts = amounts_of(self.lengths, self.costs, rounded=fitted.speed is not None)
        rates, placement = rates_of(fitted, self.costs, letters), fitted.settled_placement
        found = packing_bound(amounts, rates, placement, self.share, geometric=not exact)
        each = sum(to_fraction(fitted.slices.overhead_of(KINDS[letter].cost)) for letter in letters)
        stages = 0 if len(placement.ways) > 1 else min(len(placement.stages_on(d)) for d in range(fitted.devices))
        return found + self.share.microbatches * stages * each
