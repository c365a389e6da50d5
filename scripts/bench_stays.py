"""Bounds that count what is kept, offloaded and recomputed: what `solve` finds and proves where that decides.

    python scripts/bench_stays.py [--seconds 6]

The cells are those of reproduce_optpipe.py that were open before these bounds; l1 and l2 have room for one activation a
device.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

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


def row(name: str, problem: Problem, seconds: float) -> tuple[str, ...]:
    """Solve a case with offload and recompute, and return its columns."""
    report = solve(problem, offload=True, recompute=True, time_limit=seconds).report
    assert report is not None
    gap = report.value / report.bound.value - 1
    shown = f"{gap:.1%}" if gap else "optimal"
    return name, f"{report.value:g}", f"{report.bound.value:g}", shown, f"{report.seconds:.1f} s"


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=6, help="time limit of each solve; default 6")
    given = parser.parse_args()
    print(f"| {' | '.join(HEADINGS)} |\n|{' --- |' * len(HEADINGS)}")
    for name, problem in cases().items():
        print(f"| {' | '.join(row(name, problem, given.seconds))} |", flush=True)


if __name__ == "__main__":
    main()
