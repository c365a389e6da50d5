"""Intervals of estimates beside published runs that nothing was learned from: what they hold, and how wide they are.

    python scripts/validate_trust.py            # some minutes
    python scripts/validate_trust.py --write    # also bring docs/results/trust.md up to date

Each source is left out in turn: spreads, widths and residuals are those of all others. The runs are those of the
package's evidence, which scripts/fit_trust.py writes, and those that it set aside. Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fit_trust import LOW_TARGET, QUANTILES, TARGET, rounded
from measuring import with_block
from pipesched.estimation.trust.evidence import PublishedRun, evidence_base
from pipesched.estimation.trust.facts import A100, KINDS
from published_memory import Peak, peaks
from published_precision import precision_runs
from published_runs import published_runs
from trust_evidence import evidence_rows, low_evidence_rows, peak_ratios, quantile, source_of
from trust_left_out import LeftOutSource, Pair, Predicted, left_out, weights

PAGE = Path(__file__).parent.parent / "docs" / "results" / "trust.md"


class Goal(NamedTuple):
    """A figure that is to lie between two others."""

    what: str
    value: float
    low: float
    high: float

    @property
    def is_met(self) -> bool:
        """Whether it does, as it is printed."""
        return self.low <= round(self.value, 3) <= self.high

    def __str__(self) -> str:
        ends = f"at least {self.low:.0%}" if self.high == 1 else f"at most {self.high:.1%}"
        asked = f"{self.low:.0%} to {self.high:.0%}" if self.low and self.high < 1 else ends
        return f"  {self.what:<58} {self.value:>6.1%}  {asked:<15} {'' if self.is_met else 'missed'}".rstrip()


class Figures(NamedTuple):
    """Of predicted runs: shares that are covered, and, of layouts, each counting once, medians and mean scores."""

    runs: int
    layouts: float
    of_runs: float
    of_layouts: float
    half: float
    narrower: float
    score: float
    one_width: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="also write the tables into the page of the docs")
    given = parser.parse_args(arguments)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        missed = tables()
    print(printed.getvalue(), end="")
    if given.write:
        PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8"), printed.getvalue()), encoding="utf-8")
    return int(missed)


def refreshed(page: str, printed: str) -> str:
    """Return the page with what the script prints, less single runs and goals, in its only block of text."""
    summed = re.sub(r"^ {4}\S.*\n", "", printed.partition("\nGoals")[0], flags=re.MULTILINE).strip("\n")
    return with_block(page, summed)


def tables() -> bool:
    """Print all tables; return whether a goal is missed."""
    judged, aside = evidence_base().runs, set_aside()
    sources = list(left_out([*judged, *aside], judged))
    goals = [*_intervals(sources), *_pairs(sources), *_own(sources), *_like(sources), *_memory(), *_low()]
    print(f"\nSet aside, more than 3.5 spreads off by the runs of other sources: {len(aside)}")
    for row in aside:
        print(f"    {row.run}: published {row.published:,.1f} ms, ours {row.estimated:,.1f} ms")
    print("\nGoals" + " " * 60 + "here  goal")
    for goal in goals:
        print(goal)
    return not all(goal.is_met for goal in goals)


def set_aside() -> list[PublishedRun]:
    """Return the runs that the evidence of the package names and leaves out."""
    names = json.loads(TARGET.read_text(encoding="utf-8"))["aside"]
    return [rounded(row) for row in evidence_rows(run for run in published_runs() if run.name in names)]


def figures(found: Iterable[Predicted]) -> Figures:
    """Return the figures of predicted runs."""
    rows = list(found)
    each = weights([row.row for row in rows])
    total = sum(each)

    def mean(values: Iterable[float]) -> float:
        return sum(value * weight for value, weight in zip(values, each, strict=True)) / total

    def median(values: Iterable[float]) -> float:
        return quantile(zip(values, each, strict=True), 0.5)

    return Figures(
        runs=len(rows),
        layouts=total,
        of_runs=sum(row.is_covered for row in rows) / len(rows),
        of_layouts=mean(row.is_covered for row in rows),
        half=median(row.half for row in rows),
        narrower=median(row.half / row.beside for row in rows),
        score=mean(row.score for row in rows),
        one_width=mean(row.one_width_score for row in rows),
    )


def _intervals(sources: Sequence[LeftOutSource], *, low: bool = False) -> Iterator[Goal]:
    """Print each source, each kind and all; yield their goals, `low`: without those of widths and scores."""
    print("Intervals of 80 %, each source left out")
    print(f"  {'':<18} runs covered  layouts covered  half width  score  one width for all")
    predicted = [row for source in sources for row in source.predicted()]
    of = {kind: [row for row in predicted if row.row.compared.facts.kind == kind] for kind in KINDS}
    kinds = {kind: figures(rows) for kind, rows in of.items() if rows}
    every = figures(predicted)
    names = {source.rows[0].compared.source: figures(source.predicted()) for source in sources}
    for name, one in {**names, **kinds, "all": every}.items():
        counts = f"{one.runs:>4} {one.of_runs:>7.0%}  {one.layouts:>7.0f} {one.of_layouts:>7.0%}"
        print(f"  {name:<18} {counts}  {one.half:>10.1%}  {one.score:>5.3f}  {one.one_width:>5.3f}")
    yield Goal("runs covered", every.of_runs, 0.7, 0.95)
    yield Goal("layouts covered", every.of_layouts, 0.7, 0.95)
    for kind, one in kinds.items():
        yield Goal(f"runs covered, {kind}", one.of_runs, 0.65, 1)
    if low:
        return
    yield Goal("half width, median over layouts", every.half, 0, 0.136)
    yield Goal("half width, median over layouts, a100", kinds[A100].half, 0, 0.09)
    yield Goal("score over that of one width for all", every.score / every.one_width, 0, 1.02)


def _pairs(sources: Sequence[LeftOutSource]) -> Iterator[Goal]:
    """Print how many pairs are decided; yield their goals."""
    print("\nTwo layouts or schedules of one model, GPU and batch")
    print(f"  {'':<18} pairs  decided  right  ratio covered")
    found = {source.rows[0].compared.source: list(source.pairs()) for source in sources}
    every = [pair for pairs in found.values() for pair in pairs]
    for name, pairs in {**found, "all": every}.items():
        if pairs:
            decided, right, covered = _decisions(pairs)
            print(f"  {name:<18} {len(pairs):>5}  {decided:>7}  {right:>5}  {covered / len(pairs):>13.0%}")
    decided, right, covered = _decisions(every)
    yield Goal("pairs decided with 90 %", decided / len(every), 0.62, 1)
    yield Goal("of these right", right / decided, 0.9, 1)
    yield Goal("ratios covered", covered / len(every), 0.75, 1)


def _decisions(pairs: Sequence[Pair]) -> tuple[int, int, int]:
    """Return how many pairs are decided, how many of these rightly, and how many ratios are covered."""
    decided = [pair for pair in pairs if pair.ratio.is_decided]
    return len(decided), sum(pair.is_right for pair in decided), sum(pair.is_covered for pair in pairs)


def _own(sources: Sequence[LeftOutSource]) -> Iterator[Goal]:
    print("\nThe rest of a source beside each two of its runs, as if these were runs of one's own")
    of_source = [row for source in sources for row in source.with_two_own()]
    one = _told("any two", of_source)
    _told("two of the same model", [row for source in sources for row in source.with_two_own(one_model=True)])
    yield Goal("width with two own runs, over that without", one.narrower, 0, 0.712)
    yield Goal("layouts covered with two own runs", one.of_layouts, 0.7, 1)


def _like(sources: Sequence[LeftOutSource]) -> Iterator[Goal]:
    print("\nEach model of a source as a new version of it, beside the same as a new source")
    one = _told("like", [row for source in sources for row in source.like()])
    yield Goal("width with like, over that of a new source", one.narrower, 0, 0.7)
    yield Goal("layouts covered with like", one.of_layouts, 0.65, 1)


def _told(name: str, rows: Sequence[Predicted]) -> Figures:
    found = figures(rows)
    print(
        f"  {name:<22} {found.runs:>6,} predictions, {found.of_layouts:.0%} of layouts covered,"
        f" {found.narrower:.2f} as wide, half width {found.half:.1%}"
    )
    return found


def _low() -> Iterator[Goal]:
    """Print how the intervals in 8 and 4 bits hold; yield their goals."""
    names = json.loads(LOW_TARGET.read_text(encoding="utf-8"))["aside"]
    aside = [rounded(row) for row in low_evidence_rows(run for run in precision_runs() if run.name in names)]
    every = evidence_base(low=True).runs
    sources = left_out([*every, *aside], [row for row in every if row.compared.facts.is_low])
    print("\nIn 8 and 4 bits:", end=" ")
    yield from (goal._replace(what=f"{goal.what}, 8 and 4 bits") for goal in _intervals([*sources], low=True))
    print(f"  set aside, more than 3.5 spreads off: {len(aside)}")
    for row in aside:
        print(f"    {row.run}: published {row.published:,.1f} ms, ours {row.estimated:,.1f} ms")


def _memory() -> Iterator[Goal]:
    """Print how many published peaks the quantiles of all other sources hold; yield their goals."""
    found = [(source_of(peak.family)[0], peak) for peak in peaks() if isinstance(peak, Peak)]
    ratios = list(zip((source for source, _ in found), peak_ratios([peak for _, peak in found]), strict=True))
    covered = widths = count = 0.0
    print("\nPeaks of memory, each source left out")
    for source in dict.fromkeys(source for source, _ in ratios):
        others = [row for name, row in ratios if name != source]
        low, _, high = (quantile(others, share) for share in QUANTILES.values())
        own = [row for name, row in ratios if name == source]
        held = sum(weight for ratio, weight in own if low <= ratio <= high)
        layouts = sum(weight for _, weight in own)
        print(
            f"  {source:<18} {layouts:>4.0f} layouts, {held / layouts:.0%} covered, half width {(high - low) / 2:.1%}"
        )
        covered, widths, count = covered + held, widths + layouts * (high - low) / 2, count + layouts
    yield Goal("peaks of memory covered, of layouts", covered / count, 0.7, 1)
    yield Goal("half width of memory", widths / count, 0, 0.06)


if __name__ == "__main__":
    raise SystemExit(main())
