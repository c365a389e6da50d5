"""A meter of live bytes that knows nothing of the runtime: PyTorch's allocator, as its profiler reports it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch

from pipesched.runtime import Runtime

ROWS, WIDTH, INNER = 64, 4, 256


class Metered(NamedTuple):
    """A rank's bytes above those at the begin of a step: behind each operation, and behind the step."""

    operations: list[tuple[str, int]]
    left: int
    reported: dict[str, Any]
    host_bytes: list[int]


def wide_stage() -> Any:
    """Layers whose insides are far larger than what goes in and out."""
    layers: list[Any] = [torch.nn.Linear(WIDTH, INNER), torch.nn.Tanh()]
    for _ in range(4):
        layers += [torch.nn.Linear(INNER, INNER), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(INNER, WIDTH))


def meter(rank: int, group: Any, source: Any, stages: int, microbatches: int) -> Metered:
    """The second step of this rank under the meter; buffers of the host are made where the allocator does not see."""
    torch.manual_seed(0)
    modules = {rank: wide_stage()}
    buffers: list[int] = []

    def host(nbytes: int) -> Any:
        buffers.append(nbytes)
        return torch.from_numpy(numpy.empty(nbytes, numpy.uint8))

    def mark(op: str) -> None:
        with torch.profiler.record_function(f"MARK:{op}"):
            pass

    run = Runtime(source, modules, torch.nn.functional.mse_loss, group, host=host, on_op=mark)
    inputs = torch.randn(microbatches, ROWS, WIDTH)
    run.step(inputs, inputs)
    buffers.clear()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        mark("begin")
        losses = run.step(inputs, inputs)
        losses.clear()
        mark("end")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return _read(events, run.report(), buffers)


def _read(events: list[dict[str, Any]], reported: dict[str, Any], buffers: list[int]) -> Metered:
    """What was allocated at each mark."""
    changes = [
        (float(event["ts"]), 0, int(event["args"]["Bytes"])) for event in events if event.get("name") == "[memory]"
    ]
    marks = [
        (float(event["ts"]), 1, event["name"].removeprefix("MARK:"))
        for event in events
        if str(event.get("name", "")).startswith("MARK:") and event.get("ph") == "X"
    ]
    level, begin, found = 0, 0, list[tuple[str, int]]()
    for _, is_mark, value in sorted([*changes, *marks], key=lambda event: event[:2]):
        if not is_mark:
            level += value
        elif value == "begin":
            begin = level
        elif value == "end":
            return Metered(found, level - begin, reported, buffers)
        else:
            found.append((value, level - begin))
    raise AssertionError("the step has no end")
