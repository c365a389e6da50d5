"""How fast a large schedule is planned, timed, checked, measured and drawn.

    python scripts/bench_timing.py

It also prints how much longer runs take, without start-up, of as many operations of unequal size and of as many slices.

The yardstick is a plain replay of the same order, as anybody would write it: operations are tuples, times live in a
dictionary, a device goes on while the inputs of its next operation are there. It only computes times; the whole run of
pipesched (a new process: start-up, plan, timing, check, metrics, bounds, chart) should take no longer than that.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from functools import partial
from typing import Any

from measuring import AS_INSTALLED, least_seconds
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.run import run

DEVICES, STAGES, MICROBATCHES = 32, 128, 512
COSTS = {"F": 5, "B": 10}
REPEATS = 5
Op = tuple[int, str, int]  # stage, kind, microbatch


def inputs(op: Op, stages: int) -> list[Op]:
    """Return the operations that must have ended before `op` starts."""
    stage, kind, microbatch = op
    if kind == "F":
        return [(stage - 1, "F", microbatch)] if stage > 0 else []
    needed = [(stage, "F", microbatch)]
    if stage < stages - 1:
        needed.append((stage + 1, "B", microbatch))
    return needed


def replay(orders: list[list[Op]], stages: int) -> dict[Op, int]:
    """Return the end of every operation when each device runs its order as early as it can."""
    end: dict[Op, int] = {}
    clock = dict.fromkeys(range(len(orders)), 0)
    position = dict.fromkeys(range(len(orders)), 0)
    moved = True
    while moved:
        moved = False
        for device, order in enumerate(orders):
            while position[device] < len(order):
                op = order[position[device]]
                needed = inputs(op, stages)
                if not all(other in end for other in needed):
                    break
                start = max([clock[device], *(end[other] for other in needed)])
                end[op] = clock[device] = start + COSTS[op[1]]
                position[device] += 1
                moved = True
    return end


def interleaved_orders(microbatches: int) -> list[list[Op]]:
    """Return the order of interleaved as tuples."""
    problem = make_problem(devices=DEVICES, stages=STAGES, microbatches=microbatches, forward=5, backward=10)
    plan = run(problem, "interleaved").schedule.plan
    return [[(op.stage, op.kind, op.microbatch) for op in map(plan.index.op, order)] for order in plan.orders]


def whole_run(microbatches: int) -> None:
    """`pipesched run` in a new process, chart drawn."""
    command = ["-m", "pipesched", "run", "--algo", "interleaved", "--devices", str(DEVICES), "--stages", str(STAGES)]
    command += ["--microbatches", str(microbatches), "--forward", "5", "--backward", "10", "--width", "120"]
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, env=AS_INSTALLED)


def unequal_runs() -> dict[str, float]:
    """Return how long runs in this process take, of operations that are alike and that are not."""
    works = random.Random(1).choices(range(1, 9999), k=MICROBATCHES)
    cases: dict[str, dict[str, Any]] = {
        "alike": {"microbatches": MICROBATCHES},
        "unequal work": {"sizes": {"work": works}},
        "unequal work, activation and messages": {"sizes": dict.fromkeys(("work", "activation", "message"), works)},
        "slices": {"microbatches": MICROBATCHES // 4, "slices": {"count": 4, "attention": 0.3}, "kv": 0.25},
    }
    problems = {
        name: make_problem(devices=DEVICES, stages=STAGES, forward=5, backward=10, p2p=1, **given)
        for name, given in cases.items()
    }
    return {name: least_seconds(partial(run, one, "interleaved"), REPEATS) for name, one in problems.items()}


def main() -> int:
    """Print the table; 1 when the run takes longer than the replay."""
    rows = []
    for microbatches in (MICROBATCHES, 8 * MICROBATCHES):
        operations = 2 * STAGES * microbatches
        orders = interleaved_orders(microbatches)
        ours = run(
            make_problem(devices=DEVICES, stages=STAGES, microbatches=microbatches, forward=5, backward=10),
            "interleaved",
        )
        if max(replay(orders, STAGES).values()) != ours.schedule.makespan:
            raise SystemExit("the replay disagrees with pipesched")
        naive = least_seconds(partial(replay, orders, STAGES), REPEATS)
        del orders
        rows.append((operations, naive, least_seconds(partial(whole_run, microbatches), REPEATS)))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"P{DEVICES}, {STAGES} stages, interleaved; seconds, best of {REPEATS}")
    print(f"{'operations':>12} {'replay':>8} {'whole run':>10} {'ratio':>6} {'ops/s':>12}")
    for operations, naive, whole in rows:
        print(f"{operations:>12,} {naive:>8.3f} {whole:>10.3f} {whole / naive:>6.2f} {operations / whole:>12,.0f}")
    (small, _, quick), (large, _, slow) = rows
    print(f"growth: {large / small:.0f} times the operations, {slow / quick:.1f} times the seconds")
    print(f"peak memory of the largest run: {peak:.0f} MB")
    runs = unequal_runs()
    for name, seconds in runs.items():
        print(f"{name:>38}: {seconds:.3f} s, {seconds / runs['alike']:.2f} times as long as alike")
    return int(rows[0][2] > rows[0][1])


if __name__ == "__main__":
    raise SystemExit(main())
