"""Published measurements of training beside ours: times, ratios between schedules, and peaks of memory.

    python scripts/validate_estimate.py            # every run, two minutes
    python scripts/validate_estimate.py --fast     # times alone, in 16 bits, without Zero Bubble's tables
    python scripts/validate_estimate.py --write    # also bring docs/results/estimate.md up to date

The setups are read from tests/data/measured*.json by scripts/published_runs.py; runs that are left out are listed with
the reason. Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from measuring import with_block
from published_context import context_table
from published_memory import memory_table
from published_precision import precision_table
from published_runs import DENSE, KINDS, MOE, OPEN, PARTS, RATIOS, Run, left_out, published_runs
from published_sharded import sharded_table
from published_times import SUMMARY_HEAD, Compared, Summary, compare, ratios, summaries, summary

PAGE = Path(__file__).parent.parent / "docs" / "results" / "estimate.md"
ROW = re.compile(r"^    .*\n", re.MULTILINE)  # of a single run, or why runs are left out
TITLES = {
    DENSE: "Steps of dense models",
    OPEN: "Steps whose configuration is not complete",
    MOE: "Steps of mixtures of experts",
    PARTS: "Parts of steps",
    RATIOS: "Zero Bubble: steps of each schedule",
}
FITTED = ("a100-80gb-sxm", "h100-sxm")
GOALS = {DENSE: (0.07, 0.15), MOE: (0.2, 0.2)}  # the largest median and 90th percentile of errors
NEAR, MOST, WORST = 0.04, 0.8, 0.06  # of ratios between schedules


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fast", action="store_true", help="times alone, without the tables of Zero Bubble")
    parser.add_argument("--write", action="store_true", help="also write the tables into the page of the docs")
    given = parser.parse_args(arguments)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        missed = tables(fast=given.fast)
    print(printed.getvalue(), end="")
    if given.write:
        PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8"), printed.getvalue()), encoding="utf-8")
    return int(missed)


def tables(*, fast: bool = False) -> bool:
    """Print times, and memory unless `fast`; return whether a goal is missed."""
    missed = [_times(kind) for kind in KINDS if not (fast and kind == RATIOS)]
    missed.append(context_table())
    sharded_table()
    if not fast:
        missed.append(precision_table())
    reasons = Counter((run.family, run.reason) for run in left_out())
    print(f"\nLeft out of times: {reasons.total()}")
    for (family, reason), count in reasons.items():
        print(f"    {count:>3} of {family}: {reason}")
    if not fast:
        print("\nPeaks of memory, in GB")
        missed.append(memory_table())
    return any(missed)


def refreshed(page: str, printed: str) -> str:
    """Return the page with what the script prints, less rows of single runs and reasons, in its only block of text."""
    summed = ROW.sub("", printed).strip("\n")
    return with_block(page, summed)


def _times(kind: str) -> bool:
    """Print the table of a kind of runs; return whether it misses a goal."""
    runs = [run for run in published_runs() if run.kind == kind]
    rows = list(compare(runs))
    every = summary("all", [row.error for row in rows])
    _print(TITLES[kind], rows, [*summaries(rows), every], {run.name: run.assumed for run in runs})
    if kind == RATIOS:
        return _ratios(rows)
    return kind in GOALS and misses(kind, runs, rows)


def misses(kind: str, runs: Sequence[Run], rows: Sequence[Compared]) -> bool:
    """Return whether rows miss the goal of their kind: that of dense models is for the GPUs that dense runs fit."""
    judged = [
        row.error for run, row in zip(runs, rows, strict=True) if kind == MOE or run.setup.hardware.name in FITTED
    ]
    every, (middle, ninetieth) = summary("judged", judged), GOALS[kind]
    return every.median > middle or every.ninetieth > ninetieth


def _ratios(rows: Sequence[Compared]) -> bool:
    """Print the ratios of schedules to 1F1B; return whether they miss their goal."""
    found = list(ratios(rows))
    _print("Zero Bubble: steps over those of 1F1B", found, summaries(found), {})
    near = sum(abs(row.error) <= NEAR for row in found) / len(found)
    worst = max(abs(row.error) for row in found)
    print(f"  {near:.0%} within {NEAR:.0%}, all within {worst:.1%}")
    return near < MOST or worst > WORST


def _print(title: str, rows: Sequence[Compared], each: Sequence[Summary], assumed: dict[str, str]) -> None:
    print(f"\n{title}\n    {'':<75} {'published':>10} {'ours':>10} {'error':>7}")
    for row in rows:
        note = assumed.get(row.name, "")
        print(
            f"    {row.name:<75} {_text(row.published):>10} {_text(row.ours):>10} {row.error:>+7.1%}  {note}".rstrip()
        )
    print(SUMMARY_HEAD, *each, sep="\n")


def _text(value: float) -> str:
    """In ms, or as a ratio."""
    return f"{value:.3f}" if value < 2 else f"{value:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
