"""What a thousand samples cost, beside one plain timing of the same schedule, and what memory a large one takes.

    python scripts/bench_robust.py

The yardstick is `schedule_plan`: one timing of the same plan, lowering included, by machines in plain Python. A
thousand samples of 4,096 operations, slow devices included, should cost at most a hundred of them; 131,072 operations
with 200 samples should stay below 2 GB. The last rows vary devices too, and take a schedule with transfers.
"""

from __future__ import annotations

import resource
import subprocess
import sys

from measuring import least_seconds, seconds_of
from pipesched import Outcome, make_problem, robustness, run, schedule_plan

REPEATS = 7
RETIMINGS = 50  # in a row, so that what else the machine does slows both alike
MOST_RATIO, MOST_MB = 100, 2000


def retime(outcome: Outcome) -> None:
    """Time the plan a few times, keeping none."""
    for _ in range(RETIMINGS):
        schedule_plan(outcome.problem, outcome.schedule.plan)


def ratio(name: str, outcome: Outcome, **settings: float) -> float:
    """Print and return how many plain timings a thousand samples cost, the least of a few pairs of measurements."""
    ratios = []
    for _ in range(3):
        plain = least_seconds(lambda: retime(outcome), REPEATS) / RETIMINGS
        ours = least_seconds(lambda: robustness(outcome, samples=1000, **settings), REPEATS)  # type: ignore[arg-type]
        ratios.append((ours / plain, plain, ours))
    least, plain, ours = min(ratios)
    operations = len(outcome.schedule.plan)
    print(f"{name:<34} {operations:>10,} {plain * 1e3:>9.2f} {ours * 1e3:>9.1f} {least:>6.0f}")
    return least


def large(samples: int) -> None:
    """Time 131,072 operations so often, in a process of its own, and print seconds."""
    problem = make_problem(devices=16, stages=32, microbatches=2048, forward=5, backward=10)
    outcome = run(problem, "interleaved")
    seconds = seconds_of(lambda: robustness(outcome, samples=samples))
    print(f"{len(outcome.schedule.plan):,} operations, {samples} samples: {seconds:.1f} s", end=", ")


def main() -> int:
    """Print the table; 1 where a limit is exceeded."""
    if "--large" in sys.argv:
        large(200)
        return 0
    print(
        f"{'milliseconds, best of ' + str(REPEATS):<34} {'operations':>10} {'retiming':>9} {'robust':>9} {'ratio':>6}"
    )
    flat = run(make_problem(devices=8, stages=8, microbatches=256, forward=5, backward=10), "1f1b")
    ratios = [ratio("1f1b", flat)]
    loop = run(make_problem(devices=8, stages=16, microbatches=128, forward=5, backward=10, p2p=1), "interleaved")
    ratios.append(ratio("interleaved, latencies", loop))
    ratio("interleaved, device noise", loop, device_noise=0.05)
    saving = make_problem(devices=8, stages=8, microbatches=128, forward=5, backward=10, offload=2)
    ratio("1f1b, all offloaded", run(saving, "1f1b", offload="full"))
    sys.stdout.flush()
    subprocess.run([sys.executable, __file__, "--large"], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{peak:.0f} MB at most")
    return int(max(ratios) > MOST_RATIO or peak > MOST_MB)


if __name__ == "__main__":
    raise SystemExit(main())
