"""Bounds that count what is kept, offloaded and recomputed: what `solve` finds and proves where that decides.

    python scripts/bench_stays.py [--seconds 6] [--markdown] [--before DIR]

The cells are those of reproduce_optpipe.py that were open before these bounds; l1 and l2 have room for one activation a
device. `--before` names a checkout of another version, whose package then solves each case right before this one's,
on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from pipesched.solver.solve import solve
from reproduce_optpipe import Cell

HEADINGS = ("case", "found", "bound", "gap", "time")
QUARTER, HALF = Fraction(1, 4), Fraction(1, 2)
OPEN = (  # P, M, uneven, transfer, budget
    *((4, 8, False, ratio, QUARTER) for ratio in (HALF, 1, 2)),
    *((4, 8, True, ratio, QUARTER) for ratio in (1, 2)),
    *((4, 16, False, ratio, QUARTER) for ratio in (HALF, 1, 2)),
    *((4, 16, True, ratio, QUARTER) for ratio in (1, 2)),
    *((4, 32, False, ratio, QUARTER) for ratio in (HALF, 1, 2)),
    *((4, 32, True, ratio, QUARTER) for ratio in (1, 2)),
    (4, 16, False, 2, HALF),
    (4, 32, False, 2, HALF),
    (4, 32, False, 2, Fraction(3, 4)),
    (8, 16, False, 2, QUARTER),
    (8, 32, False, 2, QUARTER),
)


class Measured(NamedTuple):
    """What a solve found, its bound (in the user's unit) and the seconds that it took."""

    found: float
    bound: float
    seconds: float

    def texts(self) -> tuple[str, ...]:
        """Return the columns."""
        gap = self.found / self.bound - 1
        return f"{self.found:g}", f"{self.bound:g}", f"{gap:.1%}" if gap else "optimal", f"{self.seconds:.1f} s"


def cases() -> dict[str, Problem]:
    """Return every case by its name."""
    found = {}
    for name, offload in (("l1", 1.5), ("l2", 3)):
        found[name] = make_problem(
            devices=4, microbatches=8, forward=1, backward=2, budget=1, offload=offload, checkpoint=0.1
        )
    for devices, microbatches, uneven, ratio, share in OPEN:
        cell = Cell(devices, microbatches, uneven, Fraction(ratio), share)
        stages = "uneven" if uneven else "equal"
        found[f"P{devices} M{microbatches} {stages}, transfer {float(ratio):g}, budget {float(share):g}"] = (
            cell.problem()
        )
    return found


def measure(name: str, seconds: float) -> Measured:
    """Solve a case with offload and recompute."""
    outcome = solve(cases()[name], offload=True, recompute=True, time_limit=seconds)
    assert outcome.report is not None
    return Measured(outcome.report.value, outcome.report.bound.value, outcome.report.seconds)


def elsewhere(package: Path, name: str, seconds: float) -> Measured:
    """Do so with the package of another checkout."""
    command = [sys.executable, str(Path(__file__).resolve()), "--seconds", str(seconds), "--only", name]
    answer = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(package)}, capture_output=True, text=True, check=True
    )
    return Measured(*json.loads(answer.stdout))


def rows(given: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """Yield the table."""
    earlier = tuple(f"{heading} before" for heading in HEADINGS[1:]) if given.before else ()
    yield (HEADINGS[0], *earlier, *HEADINGS[1:])
    here = Path(__file__).resolve().parents[1]
    for name in cases():
        before = elsewhere(given.before, name, given.seconds).texts() if given.before else ()
        yield (name, *before, *elsewhere(here, name, given.seconds).texts())


def main() -> int:
    """Print the table, or one case as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=6, help="time limit of each solve; default 6")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--before", type=Path, help="a checkout of another version to compare with")
    parser.add_argument("--only", help="one case, as a JSON list of found, bound and seconds")
    given = parser.parse_args()
    if given.only:
        print(json.dumps([float(number) for number in measure(given.only, given.seconds)]))
        return 0
    for number, row in enumerate(rows(given)):
        print(f"| {' | '.join(row)} |" if given.markdown else "  ".join(text.rjust(9) for text in row), flush=True)
        if given.markdown and not number:
            print(f"|{' --- |' * len(row)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
