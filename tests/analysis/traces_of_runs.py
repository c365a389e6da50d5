"""Traces of runs, made for the tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pipesched
from pipesched import NotApplicable, Op, Pair, Schedule

NEEDS = {  # of a kind: (other kind, stages further)
    "F": [("F", -1)],
    "B": [("F", 0), ("R", 0), ("L", 0), ("B", 1), ("I", 1)],
    "I": [("F", 0), ("R", 0), ("L", 0), ("B", 1), ("I", 1)],
    "W": [("I", 0)],
    "R": [("F", 0)],
    "O": [("F", 0)],
    "L": [("O", 0)],
}


@dataclass
class Ran:
    """An operation (or a pair) of a step: when its rank came to it, when it began, and its end.

    It began when its inputs were there, or a `pause` behind that.
    """

    slot: Any
    rank: int
    reached: int
    start: int
    end: int
    pause: int = 0

    @property
    def ops(self) -> Sequence[Op]:
        """Its operations."""
        return self.slot if isinstance(self.slot, Pair) else [self.slot]


def replayed(
    schedule: Schedule,
    length: Callable[[Any], int],
    latency: Callable[[Any, Any], int] = lambda _a, _b: 0,
    begin: int = 0,
    pause: Callable[[Any], int] = lambda _: 0,
) -> list[list[Ran]]:
    """A step of this order: each rank comes to an operation as it has done the one before, and waits for its inputs.

    A slow rank begins it a pause later.
    """
    orders = [list(schedule.plan.slots(device)) for device in range(schedule.problem.devices)]
    home = {op: rank for rank, order in enumerate(orders) for slot in order for op in _ops(slot)}
    done: dict[Op, tuple[int, Any]] = {}
    rows: list[list[Ran]] = [[] for _ in orders]
    clock = [begin] * len(orders)
    while any(len(row) < len(order) for row, order in zip(rows, orders, strict=True)):
        for rank, order in enumerate(orders):
            while len(rows[rank]) < len(order):
                slot = order[len(rows[rank])]
                inputs = [
                    Op(op.stage + more, kind, op.microbatch)
                    for op in _ops(slot)
                    for kind, more in NEEDS[op.kind]
                    if op.stage + more >= 0 and Op(op.stage + more, kind, op.microbatch) in home
                ]
                if any(op not in done for op in inputs):
                    break
                there = [done[op][0] + (latency(done[op][1], slot) if home[op] != rank else 0) for op in inputs]
                start = max([clock[rank], *there]) + pause(slot)
                end = start + length(slot)
                rows[rank].append(Ran(slot, rank, clock[rank], start, end, pause(slot)))
                clock[rank] = end
                done |= dict.fromkeys(_ops(slot), (end, slot))
    return rows


def _ops(slot: Any) -> Sequence[Op]:
    return slot if isinstance(slot, Pair) else [slot]


def torch_traces(
    folder: Path,
    steps: Sequence[Sequence[Sequence[Ran]]],
    clocks: Sequence[int],
    *,
    apart: bool = False,
    info: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Traces of torch.profiler; `apart` has waits as ranges of their own, as our runtime has them."""
    files = []
    for rank, clock in enumerate(clocks):
        events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "args": {}}]
        for step in steps:
            for one in step[rank]:
                there = one.start - one.pause
                if apart and there > one.reached:
                    events.append(_event(f"WAIT:{one.slot}", one.reached + clock, there + clock))
                events.append(_event(f"PP:{one.slot}", (one.start if apart else one.reached) + clock, one.end + clock))
        content = {"schemaVersion": 1, "distributedInfo": {"rank": rank, **(info or {})}, "traceEvents": events}
        files.append(folder / f"trace{rank}.json")
        files[-1].write_text(json.dumps(content))
    return files


def _event(name: str, start: int, end: int, category: str = "user_annotation") -> dict[str, Any]:
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, **times}


def primus_files(
    folder: Path,
    steps: Sequence[Sequence[Sequence[Ran]]],
    clocks: Sequence[Sequence[int]],
    stages: Sequence[Sequence[int]],
) -> list[Path]:
    """Primus's files: `clocks[n][r]` is the clock of rank r in iteration n, `stages[r]` are its chunks."""
    files = []
    for rank, own in enumerate(stages):
        content: dict[str, Any] = {}
        for number, step in enumerate(steps):
            part: dict[str, Any] = {
                f"{key}_{what}": []
                for key in ("fwd", "bwd", "wgrad")
                for what in ("start", "end", "minibatch", "chunk")
            }
            for one in step[rank]:
                for op in one.ops:
                    key = {"F": "fwd", "B": "bwd", "I": "bwd", "W": "wgrad"}[op.kind]
                    part[f"{key}_start"].append((one.start + clocks[number][rank]) / 1000)
                    part[f"{key}_end"].append((one.end + clocks[number][rank]) / 1000)
                    part[f"{key}_minibatch"].append(op.microbatch)
                    part[f"{key}_chunk"].append(own.index(op.stage))
            content[str(number + 1)] = {"total": 1.0, "memory": 2.0, **part}
        files.append(folder / f"pp_rank_{rank}.json")
        files[-1].write_text(json.dumps(content))
    return files


def made(algorithm: str, devices: int, chunks: int, microbatches: int) -> Schedule | None:
    """The schedule of a family, None where it does not apply."""
    problem = pipesched.make_problem(
        devices=devices, stages=devices * chunks, microbatches=microbatches, forward=2, backward_input=2,
        backward_weight=2,
    )  # fmt: skip
    try:
        return pipesched.run(problem, algorithm).schedule
    except NotApplicable:
        return None


def one_run(folder: Path, begin: Sequence[int] = (0, 50_000, 100_000), clocks: Sequence[int] = (0, 700)) -> list[Path]:
    """Traces of 1f1b on two ranks whose steps begin at these times."""
    schedule = made("1f1b", 2, 1, 4)
    assert schedule is not None
    folder.mkdir(exist_ok=True)
    return torch_traces(folder, [replayed(schedule, lambda _slot: 1000, begin=one) for one in begin], clocks)
