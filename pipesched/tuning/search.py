"""The search of a space: the points that may be the best, in the order of what they may reach, until none can be better.

Points are simulated in waves of a fixed number, so that what is simulated does not depend on how many workers there
are. After a wave the `top`-th best rate so far drops all points that cannot exceed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from typing import NamedTuple

from pipesched.core.clock import Clock
from pipesched.executors.batches import map_batches
from pipesched.tuning.prune import BOUND, DIVISIBILITY, REASONS, Dropped, Hope, sift
from pipesched.tuning.space import Space
from pipesched.tuning.trial import Task, Trial, simulate

WAVE = 64


class Progress(NamedTuple):
    """How far a search is: points simulated and left, the best so far, and what was dropped, by reason."""

    simulated: int
    left: int
    best: Trial | None
    pruned: Mapping[str, int]


class Found(NamedTuple):
    """What a search found: all trials, best first, counts, and whether it came to its end."""

    trials: tuple[Trial, ...]
    simulated: int
    pruned: Mapping[str, int]
    left: int
    nearest: tuple[Dropped, ...]

    @property
    def is_complete(self) -> bool:
        """Whether no point is left."""
        return not self.left


Told = Callable[[Progress], None]
Journal = Callable[[Trial | Dropped], None]


def search(
    space: Space,
    executor: Executor | None,
    top: int,
    clock: Clock,
    known: Mapping[str, Trial],
    journal: Journal,
    told: Told,
) -> Found:
    """Return what is best in a space. `known` are trials of an earlier run, by the keys of their points."""
    pruned = Counter(dict.fromkeys(REASONS, 0))
    hopes, nearest = _sifted(space, pruned, journal)
    trials: list[Trial] = []
    at = 0
    try:
        while at < len(hopes) and not clock.is_over:
            wave = [hope for hope in hopes[at : at + WAVE] if hope.most >= _bar(trials, top)]
            if not wave:  # they stand in the order of what they may reach
                break
            for trial in _simulated(space, wave, executor, known, clock):
                at += 1
                if trial.step is None:
                    pruned[DIVISIBILITY] += 1
                else:
                    trials.append(trial)
                if trial.point.key not in known:
                    journal(trial)
                told(Progress(len(trials), len(hopes) - at, min(_fitting(trials), key=_rank, default=None), pruned))
    except KeyboardInterrupt:
        return _found(trials, pruned, len(hopes) - at, nearest)
    bar = _bar(trials, top)
    worse = [hope for hope in hopes[at:] if hope.most < bar]
    pruned[BOUND] += len(worse)
    for hope in worse:
        text = f"at most {hope.most:.1f} tokens/s/GPU"
        journal(Dropped(hope.point.layout, (hope.point.algorithm,), BOUND, text))
    return _found(trials, pruned, len(hopes) - at - len(worse), nearest)


def _found(trials: Sequence[Trial], pruned: Counter[str], left: int, nearest: Sequence[Dropped]) -> Found:
    return Found(tuple(sorted(trials, key=_rank)), len(trials), dict(pruned), left, tuple(nearest))


def _sifted(space: Space, pruned: Counter[str], journal: Journal) -> tuple[list[Hope], list[Dropped]]:
    """Return the points that may be the best, highest hopes first, and what misses its memory by least."""
    hopes, over = [], []
    for one in sift(space):
        if isinstance(one, Hope):
            hopes.append(one)
            continue
        pruned[one.reason] += len(one.algorithms)
        journal(one)
        if one.over:
            over.append(one)
    hopes.sort(key=lambda hope: -hope.most)
    return hopes, sorted(over, key=lambda dropped: dropped.over)[:5]


def _simulated(
    space: Space, wave: Sequence[Hope], executor: Executor | None, known: Mapping[str, Trial], clock: Clock
) -> Iterator[Trial]:
    """Yield the trials of a wave in its order, those that are known without simulating them again."""
    tasks = [Task(hope.point, hope.setup, space.given) for hope in wave if hope.point.key not in known]
    with closing(map_batches(executor, simulate, tasks, _name)) as fresh:
        for hope in wave:
            if clock.is_over:
                return
            found = known.get(hope.point.key)
            yield next(fresh) if found is None else found


def _name(task: Task) -> str:
    return f"{task.point.layout}, {task.point.algorithm}"


def _fitting(trials: Sequence[Trial]) -> Iterator[Trial]:
    return (trial for trial in trials if trial.fits)


def _bar(trials: Sequence[Trial], top: int) -> float:
    """Return the rate of the `top`-th best so far; 0 while there are fewer."""
    rates = sorted((trial.rate for trial in _fitting(trials)), reverse=True)
    return rates[top - 1] if len(rates) >= top else 0.0


def _rank(trial: Trial) -> tuple[bool, float, float]:
    return (not trial.fits, *trial.rank)
