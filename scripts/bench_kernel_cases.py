"""One measured case of bench_kernels.py, in the package that PYTHONPATH names: prints a JSON object of its numbers.

    python scripts/bench_kernel_cases.py v zb-v

Seconds are those of the processor, in this process. A tiny run of the same kind goes first, so that imports do not
count. `same` is a digest of what the case found, to compare with that of another build.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from decimal import Decimal
from functools import partial
from hashlib import sha256
from math import inf
from statistics import median
from time import process_time
from typing import Any

import pipesched
from measuring import seconds_of
from pipesched import Outcome, Plan, Problem, make_problem

Numbers = dict[str, Any]
DEVICES, CHUNKS, MICROBATCHES = 64, 2, 128
REPEATS = 5  # of what takes milliseconds
SEEDS = 3  # of documents, and of microbatches that differ
MILLIONS = 78_125  # microbatches: 10 million operations on 64 stages


def seconds(action: Callable[[], object]) -> float:
    """Return the seconds of the processor that a call takes."""
    return seconds_of(action, process_time)


def digest(texts: Iterable[str]) -> str:
    """Return a short digest of texts."""
    whole = sha256()
    for text in texts:
        whole.update(text.encode() + b"\n")
    return whole.hexdigest()[:12]


def large(microbatches: int = MICROBATCHES) -> Problem:
    """Return the problem of 128 stages on 64 devices."""
    return make_problem(devices=DEVICES, stages=CHUNKS * DEVICES, microbatches=microbatches, forward=5, backward=10)


def warm(algorithm: str, **options: Any) -> Outcome:
    """Run an algorithm on a tiny problem, which imports what it needs."""
    return pipesched.run(
        make_problem(devices=4, stages=8, microbatches=8, forward=5, backward=10), algorithm, **options
    )


def order_digest(outcome: Outcome) -> str:
    """Return the digest of the orders of all devices."""
    plan = outcome.schedule.plan
    return digest(" ".join(map(str, plan.slots(device))) for device in range(len(plan.orders)))


# ---- The inner parts: what the two builds may call by different names. --------------------------------------------


def timer(problem: Problem, plan: Plan) -> Callable[[], Any]:
    """Return what times the orders of a plan, its wait table included; the graph is there already."""
    from pipesched.core import timing

    try:
        from pipesched.pipeline.plan.lowering import lower_plan
    except ImportError:
        from pipesched.pipeline.lowering import lower_plan  # type: ignore[import-not-found, no-redef]
    graph, orders = lower_plan(problem, plan), getattr(plan, "lines", plan.machines)
    try:
        earliest: Callable[..., Any] = timing.earliest_times
    except AttributeError:
        return lambda: timing.Retiming(graph, orders).times()
    return lambda: earliest(graph, orders)


def starts(times: Any) -> list[int]:
    """Return the starts of the tasks as plain numbers."""
    try:
        return [int(start) for start in times.starts]
    except AttributeError:
        return [int(start) for start in times[0]]


# ---- The cases. ---------------------------------------------------------------------------------------------------


def replay() -> Numbers:
    """Time orders of 49,152 operations with F, I and W, the table of waits included."""
    warm("interleaved-zb")
    outcome = pipesched.run(large(), "interleaved-zb")
    taken = []
    for _ in range(REPEATS):
        action = timer(outcome.problem, outcome.schedule.plan)  # anew, so that no build keeps what it found
        taken.append(seconds(action))
    return {"s": median(taken), "same": digest(map(str, starts(action())))}


def orders() -> Numbers:
    """Take orders of 393,216 operations to times, metrics and check."""
    warm("interleaved-zb")
    outcome = pipesched.run(large(8 * MICROBATCHES), "interleaved-zb")
    taken: list[float] = []
    found: list[Any] = []

    def whole(plan: Plan) -> None:
        schedule = pipesched.schedule_plan(outcome.problem, plan)
        found[:] = [schedule.makespan, *schedule.peak_memory, *pipesched.check(schedule)]

    for _ in range(REPEATS):
        plan = Plan(outcome.schedule.plan.index, outcome.schedule.plan.orders)
        taken.append(seconds(lambda plan=plan: whole(plan)))  # type: ignore[misc]
    return {"s": median(taken), "same": digest(map(str, found))}


def v(algorithm: str) -> Numbers:
    """Run a V schedule."""
    warm(algorithm)
    found: list[Outcome] = []
    problem = large()
    taken = seconds(lambda: found.append(pipesched.run(problem, algorithm)))
    return {"s": taken, "same": order_digest(found[0])}


def zbv1024() -> Numbers:
    """Run zb-v with 128 microbatches and with eight times as many; `growth` is the ratio of the seconds."""
    warm("zb-v")
    found: list[Outcome] = []
    few, many = large(), large(8 * MICROBATCHES)
    short = seconds(lambda: pipesched.run(few, "zb-v"))
    taken = seconds(lambda: found.append(pipesched.run(many, "zb-v")))
    return {"s": taken, "growth": taken / short, "same": order_digest(found[0])}


def robust() -> Numbers:
    """Draw 200 samples of 131,072 operations."""
    pipesched.robustness(warm("interleaved"), samples=10)
    outcome = pipesched.run(
        make_problem(devices=16, stages=32, microbatches=2048, forward=5, backward=10), "interleaved"
    )
    found: list[Any] = []
    taken = seconds(lambda: found.append(pipesched.robustness(outcome, samples=200)))
    row = asdict(found[0].rows[0])
    return {"s": taken, "same": digest(f"{row[key]:.9g}" for key in ("makespan", "mean", "std", "p50", "p95", "p99"))}


def messages() -> Numbers:
    """Run 131,072 operations with one queue of messages a device, and with free ones: the ratio of their seconds."""
    try:
        from pipesched.pipeline.plan.step import Messages
    except ImportError:  # an old build has no messages that queue
        return {"s": inf, "ratio": inf}
    warm("interleaved")
    taken: dict[str, list[float]] = {"free": [], "rank": []}
    found: list[Outcome] = []
    for queue in (*taken,) * REPEATS:
        problem = replace(large(4 * MICROBATCHES), messages=Messages(queue))
        found.clear()  # what it holds takes new memory from each run
        taken[queue].append(seconds(lambda problem=problem: found.append(pipesched.run(problem, "interleaved"))))  # type: ignore[misc]
    least = min(taken["rank"])
    same = digest(map(str, found[-1].schedule.start_ticks))
    return {"s": least, "ratio": least / min(taken["free"]), "same": same}


def feeding() -> Numbers:
    """Find the best order of 16 microbatches that differ, on 8 devices under 1F1B."""
    found: Numbers = {"s": 0.0}
    for seed in (SEEDS, *range(SEEDS)):  # the first one imports
        draw = random.Random(seed)
        works = [round(draw.lognormvariate(0, 0.5), 2) for _ in range(16)]
        problem = make_problem(devices=8, microbatches=16, forward=1, backward=2, sizes={"work": works})
        begin = process_time()
        outcome = pipesched.run(problem, "1f1b", order="best")
        if seed < SEEDS:
            found["s"] += (process_time() - begin) / SEEDS
            found[f"makespan {seed}"] = outcome.schedule.makespan
    return found


def pack() -> Numbers:
    """Pack the documents of the first case of bench_pack.py."""
    from bench_pack import ATTENTION, CASES, MICROBATCHES as FEW, RANKS, documents

    median_tokens, cap = CASES[0]
    found: Numbers = {"s": 0.0}
    for seed in range(SEEDS):
        lengths = documents(seed, median_tokens, cap)
        problem = make_problem(devices=8, microbatches=FEW, forward=1, backward=2, name=str(seed))
        packed = partial(pipesched.pack, lengths, ranks=RANKS, cap=cap, problem=problem, attention=ATTENTION)
        found[f"makespan {seed}"] = packed().makespan  # the first one finds the plan's positions besides
        found["s"] = max(found["s"], min(seconds(packed) for _ in range(REPEATS)))
    return found


def solve(name: str, limit: str) -> Numbers:
    """Solve a case of bench_solver_next.py in so many seconds."""
    from bench_solver_next import CASES

    problem = make_problem(**json.loads(json.dumps(CASES[name]), parse_float=Decimal))
    report = pipesched.solve(problem, time_limit=float(limit)).report
    assert report is not None
    return {"value": report.value, "note": report.source}


def families(limit: str) -> Numbers:
    """Solve a case at a size where the families decide, in so many seconds; zb-v runs beside it."""
    problem = make_problem(
        devices=DEVICES, stages=CHUNKS * DEVICES, microbatches=512, forward=2, backward_input=2,
        backward_weight=Decimal("1.7"), p2p=Decimal("0.1"), budget=64,
    )  # fmt: skip
    report = pipesched.solve(problem, time_limit=float(limit)).report
    assert report is not None
    zb_v = pipesched.run(problem, "zb-v").schedule.makespan
    return {"value": report.value, "over zb-v": report.value / zb_v, "note": report.source}


def million10() -> Numbers:
    """Run 1F1B of 10 million operations whose microbatches all differ, and ask for its figures."""
    warm("1f1b")
    works = random.Random(1).sample(range(100_000, 200_000), MILLIONS)
    problem = make_problem(devices=DEVICES, forward=1, backward=2, p2p=1, sizes={"work": works})
    found: list[Any] = []

    def whole() -> None:
        outcome = pipesched.run(problem, "1f1b")
        found[:] = [outcome.schedule.makespan, outcome.lower_bound, *outcome.schedule.peak_memory]

    taken = seconds(whole)
    return {"s": taken, "same": digest(map(str, found))}


CASES: dict[str, Callable[..., Numbers]] = {
    one.__name__: one
    for one in (replay, orders, v, zbv1024, robust, messages, feeding, pack, solve, families, million10)
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](*sys.argv[2:])))
