"""Which points of a space, each a layout with an algorithm, need no simulation, and why.

search.py has `sift` see all of them first, by quick bounds of a layout; then `looked_at` bounds one point more closely,
just before it would be simulated. `measured_part` and `facts_of_point` say how a point lies to measured runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from math import inf
from typing import NamedTuple

from pipesched.errors import ConfigError
from pipesched.estimation.model import items_of
from pipesched.estimation.setup import NONE, SELECTIVE, Setup
from pipesched.estimation.trust.facts import RunFacts, facts_with, schedule_of
from pipesched.estimation.trust.inside import measured_range
from pipesched.schedulers.registry import family
from pipesched.tuning.setup_bounds import FamilyBounds, SetupBounds, misses, setup_bounds
from pipesched.tuning.space import Parallelism, Space, SpacePoint

USUAL = "1f1b"
PER_SECOND = 10**6  # microseconds
# unlike all that was measured; sizes do not divide; does not fit; too slow by its bound; a twin of another point
REASONS = ("evidence", "divisibility", "memory", "bound", "dominance")
EVIDENCE, DIVISIBILITY, MEMORY, BOUND, DOMINANCE = REASONS
PointsOfLayouts = Iterable[tuple[Parallelism, tuple[str, ...]]]  # layouts, and algorithms of each


def measured_part(space: Space) -> Callable[[Parallelism], tuple[str, ...]]:
    """Return a function: a layout -> the algorithms under which it lies inside what was measured."""
    layouts = dict[Parallelism, RunFacts | None]()  # known facts of a layout in one chunk, whatever is recomputed
    algorithms = dict[tuple[object, ...], tuple[str, ...]]()  # known answers by devices, chunks and precision

    def is_inside(facts: RunFacts) -> bool:
        return next(measured_range(bool(facts.experts), facts.is_low).outside(facts), None) is None

    def inside(layout: Parallelism) -> tuple[str, ...]:
        plain = layout._replace(chunks=1, recompute="none", shard_ranks=None)
        if plain not in layouts:
            facts = facts_of_point(space, plain, USUAL)
            layouts[plain] = facts if is_inside(facts) else None
        if (known := layouts[plain]) is None:
            return ()
        stages = layout.pipeline, layout.chunks, layout.precision
        if stages not in algorithms:
            under = ((name, _under(known, name, layout.chunks)) for name in space.algorithms)
            algorithms[stages] = tuple(name for name, facts in under if is_inside(facts))
        return algorithms[stages]

    return inside


def facts_of_point(space: Space, layout: Parallelism, algorithm: str) -> RunFacts:
    """Return the facts of a point, also of one whose sizes do not divide."""
    split = layout.tensor > 1 if space.sequence is None else space.sequence
    recompute = "full" if isinstance(layout.recompute, int) else layout.recompute
    facts = facts_with(
        space.model, space.hardware, space.training, gpus=space.gpus, **layout.parallel, split=split,
        sequence=space.tokens, micro=layout.micro, recompute=recompute, algorithm="", shard=layout.shard or "",
        precision=layout.precision or space.training.precision,
    )  # fmt: skip
    return _under(facts, algorithm, layout.chunks)


def _under(facts: RunFacts, algorithm: str, chunks: int) -> RunFacts:
    return facts._replace(algorithm=schedule_of(algorithm), chunks=family(algorithm).chunks_run(chunks))


class PrunedPoints(NamedTuple):
    """Points that are not simulated, and why."""

    layout: Parallelism
    algorithms: tuple[str, ...]
    reason: str  # one of REASONS
    text: str
    over: float = 0.0  # GB that memory misses at least
    most: float = 0.0  # the rate that they do not exceed


class OpenPoint(NamedTuple):
    """A point that may be the best."""

    point: SpacePoint
    setup: Setup
    most: float  # a bound on its rate
    close: bool = False  # the bound is of this point alone (`looked_at`), not of any under its layout
    surely: bool = False  # and with the budget under which it surely fits


def sift(space: Space, points: PointsOfLayouts | None = None) -> Iterator[PrunedPoints | OpenPoint]:
    """Yield every point of a space, or of `points`, as one of those that are pruned, or one that may be the best."""
    seen = dict[object, Parallelism]()  # the first layout of each kind: later ones of that kind are its twins
    inside = measured_part(space) if points is None and not space.beyond else None
    is_none_tried = NONE in space.candidates["training.recompute"]
    for layout, names in ((layout, space.algorithms) for layout in space.layouts()) if points is None else points:
        left = names if inside is None else inside(layout)
        if len(left) < len(names):
            outside = tuple(name for name in names if name not in left)
            yield PrunedPoints(layout, outside, EVIDENCE, "no measured run resembles it")
        if not left:
            continue
        try:
            setup = space.setup(layout)
        except ConfigError as error:
            yield PrunedPoints(layout, left, DIVISIBILITY, str(error))
            continue
        ranks = None if layout.shard is None else setup.shard_group().ranks
        twin = layout if ranks is None else seen.setdefault(layout._replace(shard_ranks=ranks), layout)
        if layout.recompute == SELECTIVE and is_none_tried and setup.training.flash_attention:
            yield PrunedPoints(layout, left, DOMINANCE, "flash attention computes scores again anyway: as none")
        elif twin is not layout:
            yield PrunedPoints(layout, left, DOMINANCE, f"the same ranks as in {twin}")
        else:
            yield from _of_layout(space, layout, setup, left, seen)


def _of_layout(
    space: Space, layout: Parallelism, setup: Setup, names: tuple[str, ...], seen: dict[object, Parallelism]
) -> Iterator[PrunedPoints | OpenPoint]:
    """Yield the points of a layout whose sizes divide; `seen` has the first layout of each time and memory."""
    most = items_of(space.model) // layout.pipeline
    twins, too_many, left = _by_stages(names, space.candidates["parallel.chunks"], layout.chunks, most)
    if twins:
        yield PrunedPoints(layout, twins, DOMINANCE, "the same schedule as with other chunks, or of another algorithm")
    if too_many:
        yield PrunedPoints(layout, too_many, DIVISIBILITY, "more stages than the model has layers")
    if not left:
        return
    if space.replaces:  # numbers that replace ours: nothing is known of them here
        yield from (OpenPoint(SpacePoint(layout, name), setup, inf, close=True) for name in left)
        return
    known = setup_bounds(space.bounded(setup))
    over = misses(known.setup, known.floor)
    if over > 0:
        text = f"weights, optimizer and one microbatch are at least {over:.1f} GB too much"
        paired = setup_bounds(known.setup, has_pairs=True)
        rate = _most(known, min(*known.ideal, *paired.ideal) + known.once)
        yield PrunedPoints(layout, left, MEMORY, text, over, rate)
        return
    ways = tuple(size > 1 for size in layout.parallel.values()) if space.only else ()  # a trainer may refuse one
    # Algorithms that run forwards and backwards in overlapped pairs have bounds of their own.
    own = {has_pairs: setup_bounds(known.setup, has_pairs=has_pairs) for has_pairs in (False, True)}
    for has_pairs, one in own.items():
        twin = seen.setdefault((layout.chunks, has_pairs, one.signature, ways), layout)
        alike = tuple(name for name in left if family(name).has_pairs == has_pairs)
        if alike and twin is not layout:
            yield PrunedPoints(layout, alike, DOMINANCE, f"the same times and memory as {twin}")
            left = tuple(name for name in left if name not in alike)
    rates = {
        (has_pairs, whole, copies): _most(one, one.least(whole=whole, copies=copies) + one.once)
        for has_pairs, one in own.items()
        for whole, copies in product((False, True), (1, 2))
    }
    for chosen in map(family, left):
        rate = rates[chosen.has_pairs, chosen.splits_backward is False, chosen.copies]
        yield OpenPoint(SpacePoint(layout, chosen.name), setup, rate)


def looked_at(space: Space, open_point: OpenPoint) -> OpenPoint | PrunedPoints:
    """Return a point with a closer bound on its rate, or as one that no memory holds."""
    point, chosen = open_point.point, family(open_point.point.algorithm)
    known = setup_bounds(space.bounded(open_point.setup), has_pairs=chosen.has_pairs)
    stages = chosen.chunks_run(point.layout.chunks) * open_point.setup.parallel.pipeline
    time = FamilyBounds(known, chosen, stages).time
    if time == inf:
        text = "weights, optimizer and the microbatches that are under way at once are too much"
        return PrunedPoints(point.layout, (point.algorithm,), MEMORY, text, most=open_point.most)
    return open_point._replace(most=min(open_point.most, _most(known, time)), close=True)


def _most(known: SetupBounds, time: float) -> float:
    """Return the tokens/s/GPU that no step exceeds that takes so many microseconds at least; not less by rounding."""
    return known.setup.tokens_of_step / (time / PER_SECOND) / known.setup.parallel.gpus * (1 + 1e-9)


@cache
def _by_stages(
    algorithms: Sequence[str], candidates: Sequence[int], chunks: int, most: int
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the algorithms whose schedule other chunks give too, those of more than `most` chunks, and all others."""
    twins, too_many, left = [], [], []
    for chosen in map(family, algorithms):
        wanted = chosen.chunks_run(chunks)
        alike = [size for size in candidates if chosen.chunks_run(size) == wanted]
        is_same = wanted == 1 and chosen.same_with_one_stage in algorithms
        if wanted > most:
            too_many.append(chosen.name)
        elif is_same or chunks != (wanted if wanted in alike else min(alike)):  # of chunks that are alike one counts
            twins.append(chosen.name)
        else:
            left.append(chosen.name)
    return tuple(twins), tuple(too_many), tuple(left)
