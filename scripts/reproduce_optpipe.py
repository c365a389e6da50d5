"""OptPipe's claim, up to half of the idle time gone at the same memory, measured: idle time with offload and recompute.

    python scripts/reproduce_optpipe.py [--fast] [--markdown] [--seconds 10]

Idle is devices x makespan less the useful work, in percent of devices x the makespan of the first column below: what is
recomputed counts as idle, so that no schedule looks busy by working twice. One stage a device, backward twice the
forward; uneven stages have a last one of half as much again. A budget is a share of 1F1B's peak, P activations.
Transfer / compute is PipeOffload's ratio (offload + load) / (forward + backward). A recomputed microbatch keeps a
tenth. The columns:

    without     the best heuristic that fits, without offload and recompute
    heuristic   the best heuristic with both
    offload, recompute, both      what `pipesched solve` finds with each and with both
    reduction   of the idle time, from `without` to `both`
    both is     proven optimal, or how far above the bound it may be
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.outcome import Outcome
from pipesched.solver.solve import solve

FORWARD, BACKWARD = 4, 8
SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
PROBLEM = ("P", "M", "stages", "transfer", "budget")
FOUND = ("without", "heuristic", "offload", "recompute", "both", "reduction", "both is")


class Cell(NamedTuple):
    """One problem of the grid."""

    devices: int
    microbatches: int
    uneven: bool
    ratio: Fraction  # transfer / compute
    share: Fraction  # budget / 1F1B's peak

    def problem(self) -> Problem:
        """Return the problem of this cell."""
        last = Fraction(3, 2) if self.uneven else 1
        sizes = [*([Fraction(1)] * (self.devices - 1)), last]
        transfer = self.ratio * (FORWARD + BACKWARD) / 2
        return make_problem(
            devices=self.devices,
            microbatches=self.microbatches,
            placement="linear",
            forward=[FORWARD * size for size in sizes],
            backward=[BACKWARD * size for size in sizes],
            offload=[transfer * size for size in sizes],
            activation=1,
            checkpoint=Fraction(1, 10),
            budget=self.share * self.devices,
        )


class Row(NamedTuple):
    """What came out: idle in percent in the order of the columns, and what is known about the last."""

    cell: Cell
    idle: tuple[float, ...]  # without, heuristic, offload, recompute, both
    proven: bool
    gap: float

    @property
    def reduction(self) -> float:
        """The part of the idle time of `without` that `both` does away with."""
        return 1 - self.idle[-1] / self.idle[0] if self.idle[0] else 0.0


def grid(fast: bool) -> Iterator[Cell]:
    """Yield the whole experiment, or a few cells of it."""
    if fast:
        yield from (Cell(4, 8, False, Fraction(1), share) for share in SHARES[:2])
        return
    ratios = (Fraction(1, 2), Fraction(1), Fraction(2))
    yield from (Cell(*values) for values in product((4, 8), (8, 16, 32), (False, True), ratios, SHARES))


def idle_time(schedule: Schedule) -> int:
    """Devices x makespan less the useful work, in ticks."""
    ticks, count = schedule.problem.ticks, schedule.problem.microbatches
    return schedule.problem.devices * schedule.makespan_ticks - count * (
        sum(ticks.mean["forward"]) + sum(ticks.mean["backward"])
    )


def measure(cell: Cell, seconds: float) -> Row:
    """All columns of a cell; `both` begins from the better of `offload` and `recompute`."""
    problem = cell.problem()
    without = solve(problem, method="portfolio", time_limit=seconds)
    heuristic = solve(problem, offload=True, recompute=True, method="portfolio", time_limit=seconds)
    offload = solve(problem, offload=True, time_limit=seconds)
    recompute = solve(problem, recompute=True, time_limit=seconds)
    known: list[Outcome] = [without, heuristic, offload, recompute]
    best = min((one.schedule for one in known if not one.schedule.plan.pairs), key=lambda one: one.makespan_ticks)
    both = solve(problem, offload=True, recompute=True, hint=best, time_limit=seconds)
    whole = cell.devices * without.schedule.makespan_ticks
    idle = tuple(100 * idle_time(one.schedule) / whole for one in (*known, both))
    return Row(cell, idle, both.status == "optimal", both.gap)


def texts(row: Row) -> tuple[str, ...]:
    """Return the row as it is printed."""
    cell = row.cell
    return (
        f"{cell.devices}",
        f"{cell.microbatches}",
        "uneven" if cell.uneven else "equal",
        f"{float(cell.ratio):g}",
        f"{float(cell.share):g}",
        *(f"{share:.1f} %" for share in row.idle),
        f"{row.reduction:.0%}",
        "optimal" if row.proven else f"{row.gap:+.1%}",
    )


def lines(rows: Iterable[Row], markdown: bool) -> Iterator[str]:
    """Yield the table, line by line as rows come."""
    if markdown:
        yield f"| {' | '.join((*PROBLEM, *FOUND))} |"
        yield f"|{' --- |' * len((*PROBLEM, *FOUND))}"
        yield from (f"| {' | '.join(texts(row))} |" for row in rows)
    else:
        yield " ".join(heading.rjust(9) for heading in (*PROBLEM, *FOUND))
        yield from (" ".join(text.rjust(9) for text in texts(row)) for row in rows)


def summary(rows: list[Row]) -> str:
    """Return what the table says in one sentence."""
    best = max(rows, key=lambda row: row.reduction)
    least = min(row.reduction for row in rows)
    proven, half = sum(row.proven for row in rows), sum(row.reduction >= 0.5 for row in rows)
    return (
        f"idle time reduced by {least:.0%} to {best.reduction:.0%}; by half or more in {half} of {len(rows)} cells;"
        f" {proven} proven optimal"
    )


def main() -> int:
    """Print the table; 1 when a cell got worse by being allowed more."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fast", action="store_true", help="a few cells only")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--seconds", type=float, default=10, help="time limit of each solve (three a cell); default 10")
    given = parser.parse_args()
    rows: list[Row] = []

    def measured() -> Iterator[Row]:
        for cell in grid(given.fast):
            rows.append(measure(cell, given.seconds))
            yield rows[-1]

    for line in lines(measured(), given.markdown):
        print(line, flush=True)
    print(f"\n{summary(rows)}")
    return int(any(row.reduction < 0 for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
