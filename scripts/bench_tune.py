"""What executors gain and cost a tuning: two processes over one, and a Dask cluster over processes of the same number.

    python scripts/bench_tune.py [--slices 4]

Each slice is a space of its own, of some seconds for one process; all ways search it in turns, so that what else
the machine does slows all alike, and find the same rows. `solve` is left out, whose rows depend on time. On two idle
cores two processes should be at least 1.7 times as fast as one; Dask should take at most 1.3 times as long as
processes of this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import Executor
from contextlib import ExitStack

import pipesched
from pipesched.tuning.result import Tuning

WORKERS = 2
LEAST_GAIN, MOST_COST = 1.7, 1.3
ALGORITHMS = ("1f1b", "interleaved", "interleaved-zb", "zb-h1", "zb-v", "v-half", "v-min", "zb-auto")
BATCHES = (96, 128, 160, 192)  # sequences a step, of each slice


def tuned(number: int, executor: Executor | None) -> Tuning:
    """Return the best points of a slice."""
    return pipesched.tune(
        None,
        ALGORITHMS,
        executor=executor,
        model="llama-3-8b",
        hardware="a100-40gb-sxm",
        parallel={"gpus": 32, "context": [1, 2]},
        batch={"sequence": 8192, "global": BATCHES[number], "micro": [1, 2]},
        training={"recompute": ["none", "full"]},
    )


def ready(_number: int) -> None:
    """Import what the work needs, and stay long enough that every worker does."""
    pipesched.estimate(
        model="llama-3-8b",
        hardware="a100-40gb-sxm",
        parallel={"gpus": 8, "pipeline": 2},
        batch={"sequence": 2048, "global": 8},
    )
    time.sleep(0.5)


def forget() -> None:
    """Empty the caches of this process, so that no way profits from the one before it."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("pipesched"):
            for value in [*vars(module).values()]:
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()


def measured(ways: dict[str, Executor | None], slices: int) -> tuple[dict[str, float], int]:
    """Return the seconds of each way, run in turns over the slices, and how many points were simulated."""
    seconds, simulated = dict.fromkeys(ways, 0.0), 0
    for number in range(slices):
        answers = []
        for name, executor in ways.items():
            forget()
            begin = time.perf_counter()
            answers.append(tuned(number, executor))
            seconds[name] += time.perf_counter() - begin
        assert all(answer.rows == answers[0].rows for answer in answers)
        assert all(answer.simulated == answers[0].simulated for answer in answers)
        simulated += answers[0].simulated
    return seconds, simulated


def main() -> int:
    """Print the table; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--slices",
        type=int,
        default=4,
        choices=range(1, len(BATCHES) + 1),
        help="spaces to search, of some seconds for one process",
    )
    given = parser.parse_args()
    from distributed import LocalCluster

    load = os.getloadavg()[0]
    with ExitStack() as stack:
        cluster = stack.enter_context(
            LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
        )
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        specs = ("local:1", f"local:{WORKERS}", address)
        alone, here, there = (stack.enter_context(pipesched.open_executor(spec)) for spec in specs)
        for executor in (here, there):
            list(executor.map(ready, range(WORKERS)))
        seconds, simulated = measured({"one process": alone, "local": here, "dask": there}, given.slices)
    gain, cost = seconds["one process"] / seconds["local"], seconds["dask"] / seconds["local"]
    print(f"{given.slices} spaces, {simulated} points simulated, on {os.cpu_count()} cores, load before {load:.1f}")
    print(f"one process                   {seconds['one process']:>6.1f} s")
    print(f"{WORKERS} processes of this machine   {seconds['local']:>6.1f} s, gain {gain:.2f} (at least {LEAST_GAIN})")
    print(f"{WORKERS} workers of a Dask cluster   {seconds['dask']:>6.1f} s, cost {cost:.2f} (at most {MOST_COST})")
    print("the same rows of all")
    return int(gain < LEAST_GAIN or cost > MOST_COST)


if __name__ == "__main__":
    raise SystemExit(main())
