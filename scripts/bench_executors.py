"""What executors gain and cost: two processes over one, and a Dask cluster over processes of the same number.

    python scripts/bench_executors.py [--seconds 25]
    python scripts/bench_executors.py --ahead [--rounds 3]    # what `--jobs 2` gains in `solve` and `frontier`

The work is a sweep of compared algorithms that takes one process so many seconds. All ways run the same calls in
turns, slice by slice, so that what else the machine does slows all alike. On two idle cores two processes should be at
least 1.7 times as fast as one; Dask should take at most 1.3 times as long as processes of this machine.

With --ahead the work is what `solver/ahead.py` sends to workers before its turn: portfolios of large placements, cases
to search, budgets of a frontier. One job and two take turns, and the start of processes counts. Each row has the
medians, the median gain of a round, and the least and the largest; where the time is given, gaps to the bound stand in
place of seconds. A kind of work none of whose rows gains 10 % would not be worth its code.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

from measuring import machine, seconds_of
from pipesched import frontier, make_problem, open_executor, solve
from pipesched.comparing.compare import Call, comparison_calls, run_calls

SLICES = 3
WORKERS = 2
ALGORITHMS = ("1f1b-overlap", "interleaved-overlap", "zb-auto", "dualpipe", "dualpipe-v", "hanayo", "list")
LEAST_GAIN, MOST_COST = 1.7, 1.3
AHEAD_GAIN = 1.1
SEARCH_SECONDS = 60  # of a search of large placements, the heuristics before it among them

FOUR_PLACEMENTS: dict[str, Any] = {  # linear, loop, v and wave, of 19,968 operations each
    "devices": 8, "stages": 32, "microbatches": 208, "budget": 8,
    "forward": 10, "backward_input": 11, "backward_weight": 9, "p2p": 3,
}  # fmt: skip
PROOFS: dict[str, Any] = {  # of loop and v
    "devices": 3, "stages": 6, "microbatches": 7, "budget": 3,
    "forward": 5, "backward_input": 6, "backward_weight": 4,
}  # fmt: skip
LARGE_BUDGETS: dict[str, Any] = {
    "devices": 8, "microbatches": 832, "placement": "linear", "budget": 8,
    "forward": 10, "backward_input": 11, "backward_weight": 9, "p2p": 3,
}  # fmt: skip
SMALL_BUDGETS: dict[str, Any] = {
    "devices": 8, "microbatches": 16, "placement": "linear", "p2p": 1,
    "forward": [5, 6, 5, 7, 5, 5, 6, 8], "backward": [10, 11, 12, 13, 10, 11, 12, 16],
}  # fmt: skip


def calls(points: int) -> list[Call]:
    """Return the calls of a sweep over so many values."""
    made: list[Call] = []
    for number in range(points):
        problem = make_problem(
            devices=8, stages=16, microbatches=128, forward=1000 + number, backward=2000 + number, p2p=50
        )
        made += comparison_calls(problem, ALGORITHMS, None, None, {})
    return made


def points_for(seconds: float) -> int:
    """Return how many values of the sweep take one process so many seconds."""
    return max(round(5 * seconds / seconds_of(lambda: makespans(calls(5), None))), SLICES)


def ready(_number: int) -> None:
    """Import what the work needs, and stay long enough that every worker does."""
    makespans(calls(1), None)
    time.sleep(0.5)


def makespans(slice_: Sequence[Call], executor: Executor | None) -> list[object]:
    """Run calls, and return what shows that the answer is the same."""
    return [entry.metrics and entry.metrics["makespan"] for entry in run_calls(slice_, executor)]


def measured(ways: dict[str, Executor | None], work: Sequence[Call]) -> dict[str, float]:
    """Return the seconds of each way, run in turns over slices of the work."""
    seconds = dict.fromkeys(ways, 0.0)
    for number in range(SLICES):
        part, answers = work[number::SLICES], []
        for name, executor in ways.items():
            begin = time.perf_counter()
            answers.append(makespans(part, executor))
            seconds[name] += time.perf_counter() - begin
        assert all(answer == answers[0] for answer in answers)
    return seconds


def with_jobs(work: Callable[..., object], jobs: int) -> float:
    """Return the seconds that some work takes."""
    return seconds_of(partial(work, jobs=jobs))


def gap_of(problem: dict[str, Any], jobs: int) -> float:
    """Return the gap in percent that a search leaves."""
    report = solve(make_problem(**problem), time_limit=SEARCH_SECONDS, advice=False, polish=False, jobs=jobs).report
    assert report is not None
    return 100 * report.gap


def works() -> Iterator[tuple[str, str, str, Callable[[int], float]]]:
    """Yield the kinds of work with what is measured, by the number of jobs, and its unit."""
    given: dict[str, Any] = {"time_limit": 600, "advice": False}
    heuristics = partial(solve, make_problem(**FOUR_PLACEMENTS), method="portfolio", **given)
    proofs = partial(solve, make_problem(**PROOFS), polish=False, **given)
    large = partial(frontier, make_problem(**LARGE_BUDGETS), method="portfolio", time_limit=600)
    small = partial(frontier, make_problem(**SMALL_BUDGETS), time_limit=600)
    yield "portfolios", "heuristics of 4 placements, 19,968 operations", "s", partial(with_jobs, heuristics)
    yield "cases", f"search of these placements, {SEARCH_SECONDS} s", "%", partial(gap_of, FOUR_PLACEMENTS)
    yield "cases", "proofs of 2 placements, 126 operations", "s", partial(with_jobs, proofs)
    yield "budgets", "heuristics at 8 budgets, 19,968 operations", "s", partial(with_jobs, large)
    yield "budgets", "proofs at 8 budgets, 256 operations", "s", partial(with_jobs, small)


def print_ahead(rounds: int) -> int:
    """Print what two jobs gain over one; 1 where a kind of work gains too little."""
    best: dict[str, float] = {}
    print(f"{'medians of ' + str(rounds) + ' rounds':<46} {'1 job':>8} {'2 jobs':>8}   gain  (least, most)")
    for kind, name, unit, measure in works():
        pairs = [(measure(1), measure(2)) for _ in range(rounds)]
        alone, together = (median(column) for column in zip(*pairs, strict=True))
        gains = sorted(one / two for one, two in pairs)
        texts = f"{alone:>6.2f} {unit} {together:>6.2f} {unit}   {median(gains):.2f}  ({gains[0]:.2f}, {gains[-1]:.2f})"
        print(f"{name:<46} {texts}  load {os.getloadavg()[0]:.1f}", flush=True)
        best[kind] = max(best.get(kind, 0), median(gains))
    return int(min(best.values()) < AHEAD_GAIN)


def main() -> int:
    """Print the table; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=25, help="of work for one process")
    parser.add_argument("--ahead", action="store_true", help="measure what two jobs gain in solve and frontier")
    parser.add_argument("--rounds", type=int, default=3, help="of one job and two; default 3")
    given = parser.parse_args()
    if given.ahead:
        return print_ahead(given.rounds)
    from distributed import LocalCluster

    work = calls(points_for(given.seconds))
    with ExitStack() as stack:
        cluster = stack.enter_context(
            LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
        )
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        here, there = (stack.enter_context(open_executor(spec)) for spec in (f"local:{WORKERS}", address))
        for executor in (here, there):
            list(executor.map(ready, range(WORKERS)))
        seconds = measured({"one process": None, "local": here, "dask": there}, work)
    gain, cost = seconds["one process"] / seconds["local"], seconds["dask"] / seconds["local"]
    print(f"{len(work)} calls on {machine()}")
    print(f"one process                   {seconds['one process']:>6.1f} s")
    print(f"{WORKERS} processes of this machine   {seconds['local']:>6.1f} s, gain {gain:.2f} (at least {LEAST_GAIN})")
    print(f"{WORKERS} workers of a Dask cluster   {seconds['dask']:>6.1f} s, cost {cost:.2f} (at most {MOST_COST})")
    return int(gain < LEAST_GAIN or cost > MOST_COST)


if __name__ == "__main__":
    raise SystemExit(main())
