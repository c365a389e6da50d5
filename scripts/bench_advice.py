"""Advice of a solve: what it takes, what it claims, and what runs of the advised changes reach under the same limit."""

from __future__ import annotations

import argparse
import time
from typing import Any

import pipesched.core.clock
from bench_solver_next import CASES
from measuring import machine
from pipesched import make_problem, solve

QUICK: dict[str, dict[str, Any]] = {
    "README": {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10, "budget": 4},
    "tight": {"devices": 4, "stages": 4, "microbatches": 8, "forward": 5, "backward": 10, "budget": 2},
    "h5": {"devices": 16, "microbatches": 64, "placement": "linear", "forward": 10, "backward": 20, "budget": 12},
}


def main() -> None:
    """Print a Markdown row for each case, and one for each change that helps."""
    parser = argparse.ArgumentParser(description=__doc__)
    every = {**QUICK, **CASES}
    parser.add_argument("names", nargs="*", help="only these cases", choices=[*every, []])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cpu", action="store_true", help="seconds of the processor, with one worker")
    options = parser.parse_args()
    settings: dict[str, Any] = {"time_limit": options.seconds}
    if options.cpu:
        vars(pipesched.core.clock)["monotonic"] = time.process_time
        settings["workers"] = 1
    print(f"{machine()}\n")
    print("| case | change | at most | reached | time without | with advice |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in options.names or every:
        problem = every[name]
        plain = solve(make_problem(**problem), **settings, advice=False).report
        report = solve(make_problem(**problem), **settings).report
        assert plain is not None
        assert report is not None
        print(f"| {name} | | {report.value:g} | | {plain.seconds:.2f} s | {report.seconds:.2f} s |", flush=True)
        for one in report.advice or ():
            changed = make_problem(**{**problem, **one.problem})
            reached = solve(changed, **settings, **one.solve, advice=False).schedule.makespan
            print(f"| | {one.change} | {one.makespan_at_most:g} | {reached:g} | | |", flush=True)


if __name__ == "__main__":
    main()
