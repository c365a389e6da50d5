"""How much longer a run takes with side work in its bubbles than without, and how much shorter that makes the step.

    python scripts/bench_side.py

Each row is a problem of 1f1b with an encoder of forward 2 and backward 4 for each microbatch, on any device.
"""

from __future__ import annotations

import time
from typing import Any

from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.outcome import Outcome, run

SIZES = ((4, 8), (8, 64), (8, 512), (8, 4096), (32, 2048))  # devices, microbatches
ENCODER: list[dict[str, Any]] = [{"forward": 2, "backward": 4, "activation": 0.5, "output": 0.1}]
COSTS: dict[str, Any] = {"forward": 5, "backward": 10}
REPEATS = 3


def timed(devices: int, microbatches: int, **more: Any) -> tuple[Outcome, float]:
    """Return the outcome of a run, and the least seconds of several."""
    options: dict[str, Any] = {key: more.pop(key) for key in ("side_rule",) if key in more}
    best = float("inf")
    for _ in range(REPEATS):
        problem = make_problem(devices=devices, microbatches=microbatches, **COSTS, **more)
        started = time.perf_counter()
        outcome = run(problem, "1f1b", **options)
        best = min(best, time.perf_counter() - started)
    return outcome, best


def main() -> None:
    """Print a row for each size."""
    print("devices  microbatches  without  first  bubbles  run s, without  first / without  bubbles / without")
    for devices, microbatches in SIZES:
        alone, least = timed(devices, microbatches)
        first, plain = timed(devices, microbatches, side=ENCODER, side_rule="first")
        bubbles, full = timed(devices, microbatches, side=ENCODER)
        lengths = "".join(f"{one.schedule.makespan:>8}" for one in (alone, first, bubbles))
        print(f"{devices:7}{microbatches:14}{lengths}{least:15.3f}{plain / least:17.1f}{full / least:19.1f}")


if __name__ == "__main__":
    main()
