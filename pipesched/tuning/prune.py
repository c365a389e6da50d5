"""What needs no simulation: points that do not divide, that are another point's twin, or that no memory holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from pipesched.errors import ConfigError
from pipesched.estimation.setup import NONE, SELECTIVE, Setup
from pipesched.estimation.shapes import items_of
from pipesched.schedulers.family import ANY, Family
from pipesched.schedulers.registry import family
from pipesched.tuning.bounds import least_time, misses, most_tokens_a_second, outlook
from pipesched.tuning.point import Layout, Point
from pipesched.tuning.space import Space

DIVISIBILITY, MEMORY, BOUND, DOMINANCE = REASONS = ("divisibility", "memory", "bound", "dominance")


class Dropped(NamedTuple):
    """Points of a layout that are not simulated: how many, why, and in a sentence; `over` are GB that memory misses."""

    layout: Layout
    algorithms: tuple[str, ...]
    reason: str
    text: str
    over: float = 0.0


class Hope(NamedTuple):
    """A point that may be the best: its setup, and a rate that it does not exceed."""

    point: Point
    setup: Setup
    most: float


def sift(space: Space) -> Iterator[Dropped | Hope]:
    """Yield every point of a space, as one that is dropped (with others of its layout) or one that may be the best."""
    chunks = set(space.candidates["parallel.chunks"])
    recomputes = set(space.candidates["training.recompute"])
    for layout in space.layouts():
        try:
            setup = space.setup(layout)
        except ConfigError as error:
            yield Dropped(layout, space.algorithms, DIVISIBILITY, str(error))
            continue
        if layout.recompute == SELECTIVE and NONE in recomputes and setup.training.flash_attention:
            yield Dropped(layout, space.algorithms, DOMINANCE, "flash attention computes scores again anyway: as none")
            continue
        yield from _of_layout(space, layout, setup, chunks)


def _of_layout(space: Space, layout: Layout, setup: Setup, chunks: set[int]) -> Iterator[Dropped | Hope]:
    """Yield the points of a layout that divides."""
    twins, too_many, left = _by_stages(space, layout, chunks)
    if twins:
        yield Dropped(layout, twins, DOMINANCE, "runs as many stages a device as with other chunks")
    if too_many:
        yield Dropped(layout, too_many, DIVISIBILITY, "runs more stages than the model has layers")
    if not left:
        return
    known = outlook(setup)
    over = misses(setup, known.floor) if "budget" not in space.given else 0
    if over > 0:
        text = f"weights, optimizer and one microbatch are {float(over):.1f} GB too much"
        yield Dropped(layout, left, MEMORY, text, float(over))
        return
    for name in left:
        least = least_time(known, family(name), setup)
        yield Hope(Point(layout, name), setup, most_tokens_a_second(setup, least) if not space.given else float("inf"))


def _by_stages(
    space: Space, layout: Layout, chunks: set[int]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the algorithms that do the same with other chunks, those with more stages than items, and all others."""
    twins, too_many, left = [], [], []
    most = items_of(space.model)
    for name in space.algorithms:
        wanted = chunks_run(family(name), layout.chunks)
        if wanted != layout.chunks and (wanted in chunks or layout.chunks != min(_alike(name, wanted, chunks))):
            twins.append(name)
        elif wanted * layout.pipeline > most:
            too_many.append(name)
        else:
            left.append(name)
    return tuple(twins), tuple(too_many), tuple(left)


def _alike(name: str, wanted: int, chunks: set[int]) -> list[int]:
    """Return the candidates for chunks with which an algorithm runs so many stages a device."""
    return [size for size in chunks if chunks_run(family(name), size) == wanted]


@cache
def chunks_run(family: Family, chunks: int) -> int:
    """Return how many stages a device an algorithm runs of a setup with so many."""
    if family.placement == ANY:
        return chunks
    unit = 2 if "2" in family.stages else 1
    return max(chunks // unit, 1) * unit if "k" in family.stages else unit
