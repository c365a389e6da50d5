"""`solve` against proven optima, against harder cases, and against a plain CP-SAT model of the same problems.

    python scripts/bench_solver.py                     # the table of optima, then the ladder; about 20 minutes
    python scripts/bench_solver.py --no-plain h7 h11   # some cases, without the yardstick

The plain model has start variables, dependencies, NoOverlap, Cumulative and microbatches in order: no hint, no bounds,
no capacity edges. Both get the same problem, the same seconds and the same cores, one after the other in one run. Exit
code 1 when an optimum of the table is not proved or a goal of the ladder is missed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from measuring import machine
from pipesched.core.cpsat import Limits
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.outcome import SolveReport
from pipesched.solver.recompute_offload import PlainVariant
from pipesched.solver.solve import solve
from plain_model import plain_model

FUSED = {"forward": 1, "backward": 2}
UNIT = {"forward": 1, "backward_input": 1, "backward_weight": 1}
WIDE_V = {"stages": 8, "placement": "v"}
LOOP = {"stages": 8, "placement": "loop"}
GPT = {"microbatches": 24, "forward": 185, "backward_input": 181, "backward_weight": 93, "p2p": 6}
UNEVEN = {
    "devices": 8,
    "microbatches": 32,
    "forward": [30715, 29233, 29106, 29078, 28850, 28919, 28924, 41678],
    "backward_input": [31308, 29344, 29357, 29455, 29217, 29384, 29354, 38731],
    "backward_weight": [18746, 18789, 19062, 19367, 19455, 19967, 20096, 32833],
    "p2p": 473,
    "activation": [943, *[1240] * 6, 1071],
}
ENDS = [120, *[100] * 30, 160]


class Row(NamedTuple):
    """A case: what is known to be the best, the seconds it may take, and how far from the best it may end."""

    name: str
    objective: str
    values: dict[str, Any]
    best: int
    seconds: float
    slack: float = 0.0

    @property
    def problem(self) -> Problem:
        """The problem; four devices with a stage each and eight microbatches unless the case says otherwise."""
        return make_problem(**{"devices": 4, "microbatches": 8, "placement": "linear", "activation": 1, **self.values})


def table() -> Iterator[Row]:
    """Optima that CP-SAT proved elsewhere."""
    yield from _rows("f=1 B=2", FUSED, {1: 96, 2: 51, 3: 39, 4: 33, 5: 33})
    yield from _rows("f=b=w=1", UNIT, {1: 72, 2: 41, 3: 31, 4: 27, 5: 27})
    yield from _rows("f=b=w=1", UNIT, {2: 41, 3: 31, 4: 27, 5: 26, 6: 25, 7: 24}, "span", 10)
    yield from _rows("v f=b=w=1", UNIT | WIDE_V, {2: 101, 3: 86, 4: 59, 5: 56, 6: 53, 8: 51}, seconds=10)
    yield from _rows("loop f=1 B=2", FUSED | LOOP, {3: 114, 4: 87, 5: 75, 6: 65, 7: 60, 8: 57})
    yield from _rows("f=2 B=4 p2p 1", {"forward": 2, "backward": 4, "p2p": 1}, {4: 80, 5: 74, 6: 72})
    yield from _rows("P3 M6 f=1 B=2", FUSED | {"devices": 3, "microbatches": 6}, {1: 54, 2: 30, 3: 24})
    yield from _rows("loop f=5 B=10", {"forward": 5, "backward": 10} | LOOP, {None: 285})
    halves = {"forward": 5, "backward_input": 6, "backward_weight": 4, "retain": 0.5, "activation": 2}
    yield from _rows("M12 retain 0.5", halves | {"microbatches": 12}, {8: 201, 10: 195, 14: 195})
    yield from _rows("P8 M16 f=1 B=2", FUSED | {"devices": 8, "microbatches": 16}, {4: 105}, seconds=10)


def _rows(
    name: str, values: dict[str, Any], optima: dict[Any, int], objective: str = "makespan", seconds: float = 1
) -> Iterator[Row]:
    for budget, best in optima.items():
        limit = "no limit" if budget is None else f"budget {budget}"
        yield Row(f"{name}, {limit}", objective, {**values, "budget": budget}, best, seconds)


def ladder() -> Iterator[Row]:
    """Harder cases: within 1 % of the best known (or of a bound, where that is nearer) inside 30 s; h10 3 % in 60 s."""
    wide = {"devices": 16, "microbatches": 64}
    yield Row("h1", "makespan", {**GPT, "devices": 8, "budget": 8}, 13095, 30, 0.01)
    yield Row("h2", "makespan", {**GPT, "devices": 8, "budget": 16}, 12353, 30, 0.01)
    yield Row("h3, budget 8", "makespan", {**UNEVEN, "budget": 8 * 1240}, 3831880, 30, 0.01)
    yield Row("h3, budget 16", "makespan", {**UNEVEN, "budget": 16 * 1240}, 3831880, 30, 0.01)
    yield Row("h4", "makespan", {**UNIT, **wide, "budget": 16}, 207, 30, 0.01)
    yield Row("h5", "makespan", {"forward": 10, "backward": 20, **wide, "budget": 12}, 2970, 30, 0.01)
    narrow = {"devices": 8, "microbatches": 64}
    yield Row("h6", "makespan", {"forward": 10, "backward": 20, **narrow, "budget": 6}, 2730, 30, 0.01)
    twice = {"devices": 8, "stages": 16, "microbatches": 16, "placement": "loop", "budget": 12}
    yield Row("h7", "makespan", {"forward": 5, "backward": 10, **twice}, 660, 30, 0.01)
    yield Row("h8", "makespan", {**UNIT, **narrow, "stages": 16, "placement": "v", "budget": 10}, 401, 30, 0.01)
    ends = {"forward": ENDS, "backward_input": ENDS, "backward_weight": ENDS, "p2p": 2}
    large = {"devices": 16, "stages": 32, "microbatches": 128, "placement": "v", "budget": 20}
    yield Row("h10", "makespan", {**ends, **large}, 107520, 60, 0.03)
    thirds = {"forward": 12, "backward_input": 13, "backward_weight": 9, "p2p": 1}
    yield Row("h11", "makespan", {**thirds, "devices": 8, "microbatches": 32, "budget": 5}, 1648, 30, 0.01)


def report_of(row: Row, seconds: float) -> SolveReport:
    """Return what `solve` knows after at most so many seconds."""
    report = solve(row.problem, objective=row.objective, time_limit=seconds).report
    assert report is not None
    return report


def plain(row: Row, seconds: float) -> str:
    """Return the plain model's objective, bound and seconds, as text.

    No model needs more time than one microbatch after another.
    """
    case, begin = PlainVariant(row.problem, row.objective), time.monotonic()
    alone = PlainVariant(replace(row.problem, microbatches=1), row.objective).graph
    most = (sum(alone.durations) + 2 * sum(row.problem.ticks.mean["p2p"])) * row.problem.microbatches
    answer = plain_model(case, 0, most).solve(Limits(seconds))
    value = "none" if answer.objective is None else f"{answer.objective * case.quantum}"
    return f"{value:>8} {answer.bound * case.quantum:>8} {time.monotonic() - begin:7.1f} s"


def judged(row: Row, report: SolveReport, seconds: float, *, proof: bool) -> str:
    """One word: whether the goal of a case is met."""
    if not proof:
        return "ok" if report.value_ticks <= row.best * (1 + row.slack) else "MISSED"
    if report.status != "optimal" or report.value_ticks != row.best:
        return "MISSED"
    return "ok" if seconds <= row.seconds else "late"


def line(row: Row, least: float, *, proof: bool, yardstick: bool) -> str:
    """Run a case: best known | ours | the plain model's."""
    seconds = max(least, row.seconds)
    begin = time.monotonic()
    report = report_of(row, seconds)
    took = time.monotonic() - begin
    name = f"{row.name}, {row.objective}" if row.objective == "span" else row.name
    ours = f"{report.value_ticks:>8} {report.bound.ticks:>8} {report.gap:>7.2%} {took:>6.1f} s"
    goal = judged(row, report, took, proof=proof)
    return f"{name:<28} {row.best:>8} | {ours} {goal:<6} | {plain(row, seconds) if yardstick else ''}"


def main() -> int:
    """Print a line a case; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="solve against proven optima and a plain CP-SAT model")
    parser.add_argument("names", nargs="*", help="only cases whose name begins so")
    parser.add_argument("--no-plain", action="store_true", help="leave the plain model out")
    parser.add_argument("--least", type=float, default=20, help="seconds that every case may take at least")
    options = parser.parse_args()
    print(f"{machine()}")
    print(f"{'case':<28} {'best':>8} |    solve    bound     gap     time goal   |    plain    bound     time")
    lines = []
    for rows, proof in ((table(), True), (ladder(), False)):
        for row in rows:
            if not options.names or row.name.startswith(tuple(options.names)):
                lines.append(line(row, options.least, proof=proof, yardstick=not options.no_plain))
                print(lines[-1], flush=True)
    return int(any("MISSED" in text for text in lines))


if __name__ == "__main__":
    raise SystemExit(main())
