"""Tables 5 and 6 of the Zero Bubble paper, each printed figure beside ours.

    python scripts/reproduce_zero_bubble.py          # all five rows, a few seconds
    python scripts/reproduce_zero_bubble.py --fast   # the first two

Zero Bubble Pipeline Parallelism (Qi et al. 2024, arXiv 2401.10241): profiled times of a model in ms (table 6), and the
bubble rates of its schedules from them (table 5). 1F1B, ZB-H1 and ZB-1p: bubble, idle device-time / (devices x
makespan). ZB-H2 and ZB-2p: bubble of span, 1 - ideal / span. Memory, as in the paper's appendix, per token and layer
of hidden size h with a heads and sequences of s = 1024: F takes 34h + 5as, W gives back 32h, I the rest. ZB-1p and
ZB-2p are zb-auto at a limit of P and 2P times what F takes.

Exit code 1 when a figure of a fixed schedule is further than the rounding of four digits from the printed one, or a
figure of zb-auto is above it by more than that. (Below is better: the paper's search is a heuristic, too.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.run import run
from published import FOUR_DIGITS, Figure, reproduce

SEQUENCE = 1024
FAST = 2  # cases


class Column(NamedTuple):
    """A schedule of the paper: our algorithm, the bubble that its column states, and its limit in units of P."""

    title: str
    algorithm: str
    bubble: str
    limit: int | None = None


class Case(NamedTuple):
    """A row of the paper: the model, its profiled times in ms, and the printed bubble of every column."""

    model: str
    hidden: int
    heads: int
    devices: int
    microbatches: int
    times: tuple[str, str, str, str]  # F, I, W, p2p
    printed: tuple[float, ...]


COLUMNS = (
    Column("1F1B", "1f1b", "bubble"),
    Column("ZB-H1", "zb-h1", "bubble"),
    Column("ZB-H2", "zb-h2", "bubble_span"),
    Column("ZB-1p", "zb-auto", "bubble", limit=1),
    Column("ZB-2p", "zb-auto", "bubble_span", limit=2),
)
CASES = (
    Case("1.5B", 2304, 24, 8, 24, ("18.522", "18.086", "9.337", "0.601"), (0.2431, 0.1585, 0.1083, 0.1585, 0.0433)),
    Case("1.5B", 2304, 24, 8, 64, ("18.546", "18.097", "9.321", "0.762"), (0.1240, 0.0674, 0.0444, 0.0674, 0.0026)),
    Case("6.2B", 4096, 32, 8, 32, ("29.802", "29.428", "19.530", "0.577"), (0.1898, 0.1045, 0.0559, 0.1045, 0.0022)),
    Case("14.6B", 5120, 40, 16, 48, ("11.347", "11.248", "8.132", "0.377"), (0.2552, 0.1397, 0.0672, 0.1397, 0.0066)),
    Case("28.3B", 6144, 48, 32, 96, ("10.419", "10.207", "7.715", "0.408"), (0.2646, 0.1421, 0.0641, 0.1421, 0.0038)),
)


def problem_of(case: Case, limit: int | None) -> Problem:
    """Return the row as a problem, under a limit of `limit` times P activations."""
    forward, backward_input, backward_weight, p2p = map(Fraction, case.times)
    activation = 34 * case.hidden + 5 * case.heads * SEQUENCE
    return make_problem(
        devices=case.devices,
        microbatches=case.microbatches,
        forward=forward,
        backward_input=backward_input,
        backward_weight=backward_weight,
        p2p=p2p,
        activation=activation,
        retain=Fraction(32 * case.hidden, activation),
        budget=None if limit is None else limit * case.devices * activation,
    )


def ours(case: Case, column: Column) -> float:
    """Our figure for a cell; the schedule must keep its limit."""
    schedule = run(problem_of(case, column.limit), column.algorithm).schedule
    if not schedule.fits:
        raise SystemExit(f"{column.title} of {case.model} is over its limit")
    figure: float = getattr(schedule, column.bubble)
    return figure


def figures(fast: bool) -> Iterator[Figure]:
    """Every figure; that of zb-auto may be better than the printed one."""
    for case in CASES[:FAST] if fast else CASES:
        for column, printed in zip(COLUMNS, case.printed, strict=True):
            what = f"{case.model} P{case.devices} M{case.microbatches} {column.title}: {column.bubble}"
            yield Figure(what, printed, ours(case, column), FOUR_DIGITS, or_better=column.algorithm == "zb-auto")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 when a figure does not agree."""
    return reproduce(__doc__, figures, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
