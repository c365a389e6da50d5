"""How much longer runs take with a whole step than with passes alone, in process time.

    python scripts/bench_step.py

Each row is 1f1b on 8 devices; a run plans, times, checks, bounds and measures a schedule. The second pair of numbers
counts what `metrics.step` says of its cost, too, as `pipesched run` shows it. All cases of a size run in turn, and the
least of several times counts.
"""

from __future__ import annotations

import time
from typing import Any

from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.run import run

REPEATS = 9
STEP: dict[str, Any] = {"gather": 4, "reduce": 6, "optimizer": 2}
SIDE = [{"forward": 2, "backward": 4, "activation": 0.5, "output": 0.1}]
HELD: dict[str, Any] = {"weights": 2, "gradients": 4, "states": 12}
CASES: dict[int, dict[str, dict[str, Any]]] = {  # by microbatches
    8192: {"passes alone": {}, "gather, reduce, optimizer": STEP},
    4096: {
        "passes alone": {},
        "side work first": {"side": SIDE, "side_rule": "first"},
        "side work in bubbles": {"side": SIDE},
        "reductions of each": {"reduce": 6, "gradients": 4, "shard": {"level": "gradients", "reduce": "each"}},
        "level weights": {**STEP, **HELD, "shard": "weights"},
    },
}


def seconds(microbatches: int, given: dict[str, Any]) -> tuple[float, float]:
    """Return the process time of one run, without and with what the step costs."""
    started = time.process_time()
    costs = {key: value for key, value in given.items() if key != "side_rule"}
    options = {key: value for key, value in given.items() if key == "side_rule"}
    problem = make_problem(devices=8, microbatches=microbatches, forward=5, backward=10, **costs)
    outcome = run(problem, "1f1b", **options)
    _ = outcome.bound, outcome.schedule.span, outcome.schedule.peak_memory, outcome.schedule.busy
    alone = time.process_time() - started
    if outcome.schedule.step:
        _ = outcome.schedule.step.document
    return alone, time.process_time() - started


def main() -> None:
    """Print a row for each case."""
    for microbatches, cases in CASES.items():
        least = dict.fromkeys(cases, (float("inf"), float("inf")))
        for _ in range(REPEATS):
            for name, given in cases.items():
                run_alone, whole = seconds(microbatches, given)
                least[name] = min(least[name][0], run_alone), min(least[name][1], whole)
        alone, _ = least["passes alone"]
        for name, times in least.items():
            print(f"{16 * microbatches:9,} passes  {name:28}", *(f"{best:8.3f} s{best / alone:8.2f}" for best in times))


if __name__ == "__main__":
    main()
