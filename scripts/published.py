"""Published figures beside ours: the table that scripts/reproduce_*.py print, and the exit code that they end with."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

FOUR_DIGITS = 0.5e-4 + 1e-9  # the tolerance of a figure that is printed to four digits


class Figure(NamedTuple):
    """A published number and ours, which may differ by `tolerance`; `or_better`: or be lower by any amount."""

    what: str
    published: float
    ours: float
    tolerance: float = 0.0
    or_better: bool = False

    @property
    def difference(self) -> float:
        """Ours minus the published one."""
        return self.ours - self.published

    @property
    def agrees(self) -> bool:
        """Whether ours reproduces the published one."""
        return (self.difference if self.or_better else abs(self.difference)) <= self.tolerance


def reproduce(
    description: str | None, figures: Callable[[bool], Iterable[Figure]], arguments: Sequence[str] | None
) -> int:
    """Print `figures(fast)` as a table; return the exit code, which is 1 when a figure does not agree."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--fast", action="store_true", help="the smaller sizes only")
    return report(figures(parser.parse_args(arguments).fast))


def report(figures: Iterable[Figure]) -> int:
    """Print each figure as soon as it is known, and how many do not agree; 1 if there is one."""
    print(f"{'':<42} {'published':>10} {'ours':>10} {'difference':>11}")
    count = wrong = 0
    for figure in figures:
        count, wrong = count + 1, wrong + (not figure.agrees)
        published, ours, difference = map(_text, (figure.published, figure.ours, figure.difference))
        print(f"{figure.what:<42} {published:>10} {ours:>10} {difference:>11}{'' if figure.agrees else '  !'}")
    print(f"{wrong} of {count} figures do not agree" if wrong else f"all {count} figures agree")
    return int(wrong > 0)


def _text(value: float) -> str:
    """With five digits behind the point at most."""
    return f"{round(value, 5) + 0.0:.5f}".rstrip("0").rstrip(".")
