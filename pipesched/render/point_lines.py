"""The lines of a table of points: a line for each, or one for all that differ in chunks and algorithm alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from pipesched.tuning.judged import against_first
from pipesched.tuning.space import Layout
from pipesched.tuning.trial import Trial

MAY_NOT_FIT = "may not fit"


class PointLine(NamedTuple):
    """A point, the numbers of the rows that the line stands for (or a mark), and remarks that stand below it."""

    trial: Trial
    mark: str
    remarks: tuple[str, ...] = ()


def a_line_each(trials: Sequence[Trial], marks: Sequence[str] = (), tied: int = 0) -> list[PointLine]:
    """Return a line for each point, with its mark or else its number, from 1; the first `tied` cannot be told apart."""
    shown = marks or [str(number) for number in range(1, len(trials) + 1)]
    lines = [PointLine(trial, mark, tuple(_doubtful(trial))) for trial, mark in zip(trials, shown, strict=True)]
    return _with_tied(lines, [[row] for row in range(len(trials))], tied)


def a_line_a_layout(trials: Sequence[Trial], tied: int = 0) -> list[PointLine]:
    """Return a line for each layout whatever its chunks: its best point, and below it what the others are.

    The first `tied` points cannot be told apart.
    """
    rows: dict[Layout, list[int]] = {}
    for row, trial in enumerate(trials):
        rows.setdefault(trial.point.layout.in_one_chunk, []).append(row)
    lines = []
    for here in rows.values():
        first, *others = (trials[row] for row in here)
        remarks = (*_doubtful(first), *_others(first, others, trials[0].rate))
        lines.append(PointLine(first, numbers_text([row + 1 for row in here]), remarks))
    return _with_tied(lines, [*rows.values()], tied)


def _with_tied(lines: Sequence[PointLine], rows: Sequence[Sequence[int]], tied: int) -> list[PointLine]:
    """Return the lines; the last one that holds a leading row says that the leading rows cannot be told apart."""
    found = [*lines]
    last = max((number for number, here in enumerate(rows) if here[0] < tied), default=0)
    if tied > 1:
        said = f"these {tied} cannot be told apart (rows 1-{tied})"
        found[last] = found[last]._replace(remarks=(*found[last].remarks, said))
    return found


def numbers_text(numbers: Sequence[int]) -> str:
    """Return rising numbers as a text: 1-3, 5."""
    runs = ([number for _, number in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]))
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _doubtful(trial: Trial) -> Iterator[str]:
    if trial.may_not_fit:
        yield MAY_NOT_FIT


def _others(first: Trial, others: Sequence[Trial], best: float) -> Iterator[str]:
    """Yield in which chunks, and under which algorithms, the other points of a layout are, and how slow the last is."""
    if not others:
        return
    chunks: dict[str, list[str]] = {}
    for trial in others:
        chunks.setdefault(trial.point.algorithm, []).append(str(trial.point.layout.chunks))
    own = chunks.pop(first.point.algorithm, [])
    parts = [f"chunks {', '.join(own)}"] if own else []
    names: dict[str, list[str]] = {}
    for name, sizes in chunks.items():
        is_usual = sizes == [str(first.point.layout.chunks)]
        names.setdefault("" if is_usual else f" (chunks {', '.join(sizes)})", []).append(name)
    if names:
        parts.append(f"schedules {', '.join(', '.join(alike) + sizes for sizes, alike in names.items())}")
    alike = "not to be told apart, " if _are_alike(first, others) else ""
    yield f"other {'; '.join(parts)}: {alike}to {others[-1].rate / best - 1:+.1%}"


def _are_alike(first: Trial, others: Sequence[Trial]) -> bool:
    """Return whether none of the others is known to be slower or faster."""
    if any(trial.trust is None for trial in (first, *others)):
        return False
    return not any(ratio.is_decided for ratio in against_first([first, *others])[1:])
