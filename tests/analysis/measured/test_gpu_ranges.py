"""Traces of runs on GPUs: an operation is what was launched inside its range on the CPU, by whatever thread."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pipesched
from pipesched.analysis.measured.ranges import PER_UNIT, Range, idle_as_waits
from pipesched.analysis.measured.torch_profiler import GpuSpans
from pipesched.pipeline.problem.ops import parse_op
from tests.analysis.measured.traces_of_runs import one_run

Events = list[dict[str, Any]]


def assert_alike(folder: Path, on_a_gpu: Callable[[int, dict[str, Any]], Events]) -> None:
    """A run has the costs that it has on CPUs, when each range is changed so and has these events of a GPU besides."""
    files = one_run(folder)
    plain = pipesched.read_traces(files)
    for file in files:
        content = json.loads(file.read_text())
        events: Events = content["traceEvents"]
        for number, event in enumerate([one for one in events if one["name"].startswith("PP:")]):
            events += on_a_gpu(number, event)
        file.write_text(json.dumps(content))
    assert pipesched.read_traces(files).costs == plain.costs


def annotation(event: dict[str, Any]) -> dict[str, Any]:
    """The range of the GPU that the profiler itself writes beside one of the CPU."""
    return {**event, "cat": "gpu_user_annotation", "tid": 7}


def launched(number: int, name: str, kind: str, at: float, start: float, length: float) -> Events:
    """A launch by another thread, and what it ran."""
    said = {"ph": "X", "name": name, "args": {"correlation": number}}
    launch = {**said, "cat": "cuda_runtime", "tid": 99, "ts": at, "dur": 0.01}
    return [launch, {**said, "cat": kind, "tid": 7, "ts": start, "dur": length}]


def test_ranges_of_the_gpu_count(tmp_path: Path) -> None:
    """Of a name with ranges of the CPU and of the GPU those of the GPU do, where no launches are known."""

    def on_a_gpu(_: int, event: dict[str, Any]) -> Events:
        found = annotation(event)
        event["ts"], event["dur"] = event["ts"] / 3, event["dur"] * 9
        return [found]

    assert_alike(tmp_path, on_a_gpu)


def test_what_was_launched_counts_by_whatever_thread(tmp_path: Path) -> None:
    """From the first to the last kernel and copy, whatever the profiler's own range holds; no message."""

    def on_a_gpu(number: int, event: dict[str, Any]) -> Events:
        ts, dur = event["ts"], event["dur"]
        found = annotation(event | {"dur": 0.001})
        event["ts"], event["dur"] = ts / 3, 0.3
        inside = ts / 3 + 0.1
        return [
            found,
            *launched(3 * number, "f", "kernel", inside, ts, dur / 4),
            *launched(3 * number + 1, "copy", "gpu_memcpy", inside, ts + dur / 2, dur / 2),
            *launched(3 * number + 2, "ncclDevKernel", "kernel", inside, ts - 5000, 9000),
        ]

    assert_alike(tmp_path, on_a_gpu)


def test_a_trace_that_lacks_launches_has_the_ranges_of_the_profiler(tmp_path: Path) -> None:
    """Then what kernels are there do not count."""

    def on_a_gpu(number: int, event: dict[str, Any]) -> Events:
        middle = event["ts"] + event["dur"] / 2
        known = launched(number, "f", "kernel", middle, middle, 0.1) if number % 2 else []
        return [annotation(event), *known]

    assert_alike(tmp_path, on_a_gpu)


def test_all_kernels_of_a_launch_count() -> None:
    """One launch of a graph runs many; where a range launched nothing there is none."""
    launch, first = launched(1, "graph", "kernel", 2, 15, 5)
    kernels = [first, {**first, "ts": 10}, {**first, "ts": 12}]
    spans, others = GpuSpans("a file"), GpuSpans("a file")
    for event in (launch, *kernels, {"ph": "i"}, None):
        spans.see(event)
    others.see(launch)
    assert spans.of(0, 4 * PER_UNIT) == (10 * PER_UNIT, 20 * PER_UNIT)
    assert spans.of(5 * PER_UNIT, 6 * PER_UNIT) is None
    assert others.of(0, 4 * PER_UNIT) is None


def test_a_device_is_idle_beside_its_transfers() -> None:
    """What runs on a lane leaves the device free: an operation behind it waited from the end of the one before."""
    ran = [("0F0", 0, 10), ("0O0", 10, 50), ("0F1", 10, 20), ("0O1", 50, 90), ("0B0", 55, 65)]
    waits = [one.wait for one in idle_as_waits([Range(parse_op(text), start, end) for text, start, end in ran], 0)]
    assert [wait and (wait.start, wait.end) for wait in waits] == [(0, 0), (10, 10), (10, 10), (20, 50), (20, 55)]
