"""What executors gain and cost: two processes over one, and a Dask cluster over processes of the same number.

    python scripts/bench_executors.py [--seconds 25]

The work is a sweep of compared algorithms that takes one process so many seconds. All ways run the same calls in
turns, slice by slice, so that what else the machine does slows all alike. On two idle cores two processes should be at
least 1.7 times as fast as one; Dask should take at most 1.3 times as long as processes of this machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack

from pipesched import make_problem, open_executor
from pipesched.comparing.compare import Call, comparison_calls, run_calls

SLICES = 3
WORKERS = 2
ALGORITHMS = ("1f1b-overlap", "interleaved-overlap", "zb-auto", "dualpipe", "dualpipe-v", "hanayo", "list")
LEAST_GAIN, MOST_COST = 1.7, 1.3


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
    begin = time.perf_counter()
    makespans(calls(5), None)
    return max(round(5 * seconds / (time.perf_counter() - begin)), SLICES)


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


def main() -> int:
    """Print the table; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=25, help="of work for one process")
    given = parser.parse_args()
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
    print(f"{len(work)} calls on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"one process                   {seconds['one process']:>6.1f} s")
    print(f"{WORKERS} processes of this machine   {seconds['local']:>6.1f} s, gain {gain:.2f} (at least {LEAST_GAIN})")
    print(f"{WORKERS} workers of a Dask cluster   {seconds['dask']:>6.1f} s, cost {cost:.2f} (at most {MOST_COST})")
    return int(gain < LEAST_GAIN or cost > MOST_COST)


if __name__ == "__main__":
    raise SystemExit(main())
