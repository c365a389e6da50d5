"""Traces that are not torch.profiler's of PyTorch's runtime: charts, GPipe, names of their own, spans, nsys."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

import pipesched
from pipesched.analysis.measured import files as stream
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.check.check import check
from pipesched.schedulers.registry import FAMILIES
from tests.analysis.measured.traces_of_runs import Ran, made, replayed

NAMES = {"forward_step": "F", "backward_*": "B"}
SPELLED = {"F": "forward_step", "B": "backward_step", "I": "backward_step", "W": "weights"}
LENGTHS = {"F": 1000, "B": 2100}
CLOCKS = [0, 7_000_000, -123_456, 5]
Rows = list[list[list[Ran]]]


def ran(ranks: int = 3, microbatches: int = 5, steps: int = 3) -> Rows:
    """Steps of 1f1b whose stages have lengths of their own."""
    schedule = made("1f1b", ranks, 1, microbatches)
    assert schedule is not None
    return [
        replayed(schedule, lambda op: LENGTHS[op.kind] + 10 * op.stage, begin=100_000 * step) for step in range(steps)
    ]


def assert_told(timeline: Any, rows: Rows, microbatches: int = 5) -> None:
    """The costs, the clocks and the order are those that were written."""
    ranks = len(rows[0])
    assert check(timeline.outcome) == []
    assert (timeline.problem.devices, timeline.problem.microbatches) == (ranks, microbatches)
    assert timeline.steps == len(rows) - 1
    told = {(cost.kind, cost.stage): cost.median for cost in timeline.costs}
    assert told == {(kind, rank): (LENGTHS[kind] + 10 * rank) / 1000 for kind in "FB" for rank in range(ranks)}
    assert timeline.offsets == pytest.approx([clock / 1000 for clock in CLOCKS[:ranks]], abs=3)
    for device, row in enumerate(rows[0]):
        assert [str(one.slot) for one in timeline.schedule.timeline(device)] == [str(one.slot) for one in row]


def kineto(folder: Path, rows: Rows, name: Callable[[Any], str], *, waits: bool = False) -> list[Path]:
    """Traces of torch.profiler with these names; with `waits` ranges begin when their rank came to them."""
    files = []
    for rank in range(len(rows[0])):
        events = [
            {
                "ph": "X", "cat": "user_annotation", "tid": 1, "name": name(one.slot),
                "ts": ((one.reached if waits else one.start) + CLOCKS[rank]) / 1000,
                "dur": (one.end - (one.reached if waits else one.start)) / 1000,
            }
            for step in rows for one in step[rank]
        ]  # fmt: skip
        files.append(folder / f"{rank}.json")
        files[-1].write_text(json.dumps({"traceEvents": events, "distributedInfo": {"rank": rank}}))
    return files


@given(st.integers(0, 10**6))
def test_our_own_chrome_trace(seed: int) -> None:
    """It reads back to the same starts and ends, in the same unit, whatever family and costs made it."""
    random = Random(seed)
    costs: dict[str, Any] = {
        key: random.randint(1, 900) / 100 for key in ("backward_input", "backward_weight", "recompute", "offload")
    }
    unit, mode = random.choice(["", "ms", "us", "s"]), random.choice(["train", "train", "forward"])
    problem = pipesched.make_problem(
        devices=random.randint(1, 4), chunks=random.randint(1, 2), microbatches=random.randint(1, 6), mode=mode,
        forward=random.randint(1, 900) / 100, p2p=random.choice([0, 0.3]), time_unit=unit, reload=0.5, **costs,
    )  # fmt: skip
    option = random.choice([{}, {"recompute": "full"}, {"offload": "full"}]) if mode == "train" else {}
    try:
        outcome = pipesched.run(problem, random.choice([name for name in FAMILIES if name != "block"]), **option)
    except (NotApplicable, ConfigError):
        return
    with TemporaryDirectory() as folder:
        timeline = pipesched.read_traces([pipesched.write(outcome, Path(folder) / "x.trace.json")])
    assert timeline.problem.time_unit == unit
    assert check(timeline.outcome) == []
    assert not any(timeline.offsets)
    for device in range(problem.devices):
        told, own = ([*one.schedule.timeline(device)] for one in (timeline, outcome))
        assert [str(slot.slot) for slot in told] == [str(slot.slot) for slot in own]
        for end in ("start", "end"):
            times = [getattr(slot, end) for slot in own]
            assert [getattr(slot, end) for slot in told] == pytest.approx(times, abs=1e-6)
    assert timeline.schedule.offloaded == outcome.schedule.offloaded


def test_the_chrome_trace_of_pytorch(tmp_path: Path) -> None:
    """What _dump_chrometrace writes: an operation a time step, a process a rank, and communication left out."""
    rows = [["0F0", "0SEND_F0", "0F1", None, "0B0", "0B1"], [None, "1F0", "1B0", "1F1", "1B1", None]]
    events = [
        {"name": name, "cat": "communication" if "_" in name else "computation", "ph": "X", "pid": rank, "tid": rank}
        | {"ts": time, "dur": 1}
        for rank, row in enumerate(rows)
        for time, name in enumerate(row)
        if name
    ]
    (tmp_path / "chart.json").write_text(json.dumps({"traceEvents": events}))
    timeline = pipesched.read_traces([tmp_path / "chart.json"])
    assert [[str(slot.slot) for slot in timeline.schedule.timeline(rank)] for rank in (0, 1)] == [
        ["0F0", "0F1", "0B0", "0B1"],
        ["1F0", "1B0", "1F1", "1B1"],
    ]
    assert timeline.makespan == 6
    with pytest.raises(ConfigError, match="on all its devices; give that file alone"):
        pipesched.read_traces([tmp_path / "chart.json"] * 2)
    with pytest.raises(ConfigError, match="has no effect on"):
        pipesched.read_traces([tmp_path / "chart.json"], ranges=NAMES)


def test_the_ranges_of_gpipe(tmp_path: Path) -> None:
    """PyTorch's ScheduleGPipe numbers forwards and backwards, which hold their waiting; the stage is the rank."""
    schedule = made("naive", 3, 1, 5)
    assert schedule is not None
    rows = [replayed(schedule, lambda op: LENGTHS[op.kind] + 10 * op.stage, begin=10**5 * step) for step in range(3)]
    words = {"F": "Forward", "B": "Backward"}
    files = kineto(tmp_path, rows, lambda op: f"{words[op.kind]} {op.microbatch}", waits=True)
    assert_told(pipesched.read_traces(files), rows)


@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 1), (3, 5), (4, 8)])
def test_names_of_their_own(tmp_path: Path, ranks: int, microbatches: int) -> None:
    """Names say the kind, counting the microbatch, and the rank the stage; a plan says how many there are in a step."""
    rows = ran(ranks, microbatches)
    files = kineto(tmp_path, rows, lambda op: SPELLED[op.kind])
    assert_told(pipesched.read_traces(files[::-1], ranges=NAMES), rows, microbatches)
    assert_told(pipesched.read_traces(files, ranges="forward_step=F, backward_*=B"), rows, microbatches)
    plan = pipesched.run(pipesched.make_problem(devices=ranks, microbatches=microbatches), "1f1b")
    assert_told(pipesched.read_traces(files, ranges=NAMES, plan=plan), rows, microbatches)


def test_schedule1f1b_names_nothing(tmp_path: Path) -> None:
    """The message says so, and what to do."""
    files = kineto(tmp_path, ran(), lambda _: "gloo:send")
    with pytest.raises(ConfigError, match="Schedule1F1B names none: run the same order as a CSV") as error:
        pipesched.read_traces(files)
    assert "forward_step=F" in error.value.message


def spans(rows: Rows, *, numbered: bool = True, about: Callable[[int], Any] | None = None) -> list[dict[str, Any]]:
    """The requests of an exporter of OpenTelemetry: a resource a rank and step."""
    found = []
    for step in rows:
        for rank, row in enumerate(step):
            listed: list[dict[str, Any]] = [
                {"name": "megatron.p2p.recv_forward", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
            ]
            for one in row:
                name = {"F": "megatron.microbatch.forward", "B": "megatron.microbatch.backward"}[one.slot.kind]
                times = {
                    f"{end}TimeUnixNano": str(1_790_000_000_000_000_000 + time + CLOCKS[rank])
                    for end, time in (("start", one.start), ("end", one.end))
                }
                value = {"key": "megatron.microbatch_id", "value": {"intValue": str(one.slot.microbatch)}}
                listed.append({"name": name, **times, "attributes": [value] * (numbered and one.slot.kind == "F")})
            resource = {"attributes": [about(rank)]} if about else {}
            found.append({"resource": resource, "scopeSpans": [{"spans": listed}]})
    return found


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize(
    "about",
    [
        lambda rank: {"key": "dl.rank", "value": {"intValue": str(8 * rank)}},
        lambda rank: {"key": "service.instance.id", "value": {"stringValue": f"job-rank{rank}"}},
    ],
)
def test_spans_of_megatron(tmp_path: Path, numbered: bool, about: Callable[[int], Any]) -> None:
    """OTLP JSON of all ranks in one file, as a document or as lines: forwards say their microbatch, or are counted."""
    rows = ran()
    found = spans(rows, numbered=numbered, about=about)
    (tmp_path / "one.json").write_text(json.dumps({"resourceSpans": found}))
    (tmp_path / "lines.json").write_text("".join(json.dumps({"resourceSpans": [one]}) + "\n" for one in found))
    for file in ("one.json", "lines.json"):
        assert_told(pipesched.read_traces([tmp_path / file]), rows)


def test_the_least_spans(tmp_path: Path) -> None:
    """One resource a rank that says nothing of itself, with names and times; of times that are none a message."""
    rows = ran(steps=1)
    (tmp_path / "one.json").write_text(json.dumps({"resourceSpans": spans(rows)}))
    timeline = pipesched.read_traces([tmp_path / "one.json"])
    assert (timeline.problem.devices, timeline.problem.microbatches, timeline.steps) == (3, 5, 1)
    (tmp_path / "one.json").write_text(json.dumps({"resourceSpans": spans(rows)}).replace("17900", "x"))
    with pytest.raises(ConfigError, match="must be a time"):
        pipesched.read_traces([tmp_path / "one.json"])


def nsys(file: Path, rows: Rows, ranks: list[int], *, kernels: bool = False) -> Path:
    """An export of Nsight Systems with the ranges of these ranks, as of Nsight Systems 2024.2."""
    base = sqlite3.connect(file)
    base.executescript(
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT);"
        "INSERT INTO StringIds VALUES (1, 'forward_step'), (2, 'sgemm'), (3, 'ncclDevKernel_SendRecv');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL"
        " (start INT, end INT, correlationId INT, globalPid INT, shortName INT);"
    )
    number = 0
    for rank in ranks:
        process = (100 + rank) << 24
        for one in (one for step in rows for one in step[rank]):
            start, end, late = one.start + CLOCKS[rank], one.end + CLOCKS[rank], 0
            if kernels:  # launched within 10 ns of the CPU, and run later
                number, late = number + 2, 400
                for which, name, at in ((0, 2, start), (1, 3, start - 300)):
                    base.execute(
                        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?)",
                        (start - late + 5, start - late + 6, process + 9, number + which),
                    )
                    base.execute(
                        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?)",
                        (at, end, number + which, process, name),
                    )
                start, end = start - late, start - late + 10
            text = (None, 1) if one.slot.kind == "F" else ("backward_step", None)
            base.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, ?)", (start, end, *text, process + 7))
    base.execute("INSERT INTO NVTX_EVENTS VALUES (1, NULL, 34, 'a mark', NULL, 7)")
    base.commit()
    base.close()
    return file


@pytest.mark.parametrize("kernels", [False, True])
def test_exports_of_nsys(tmp_path: Path, kernels: bool) -> None:
    """NVTX ranges by their names, a file a rank or one of all processes; where kernels are known, these count."""
    rows = ran()
    files = [nsys(tmp_path / f"run_{rank}.sqlite", rows, [rank], kernels=kernels) for rank in range(3)]
    assert_told(pipesched.read_traces(files[::-1], ranges=NAMES), rows)
    alone = nsys(tmp_path / "all.sqlite", rows, [0, 1, 2], kernels=kernels)
    assert_told(pipesched.read_traces([alone], ranges=NAMES), rows)
    for wrong, names, message in (
        ([alone], None, "are needed for .*: what its ranges are"),
        ([alone], {"other": "F"}, "no range with one of the names"),
        ([alone, files[0]], NAMES, "3 processes have such ranges; give a file of each rank"),
        ([files[0], nsys(tmp_path / "x.sqlite", rows, [0])], NAMES, "its name has no number"),
        ([files[0], nsys(tmp_path / "b0.sqlite", rows, [0])], NAMES, "rank 0 is there twice"),
    ):
        with pytest.raises(ConfigError, match=message):
            pipesched.read_traces(wrong, ranges=names)
    (tmp_path / "b1.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(ConfigError, match="no export of Nsight Systems"):
        pipesched.read_traces([tmp_path / "b1.sqlite"], ranges=NAMES)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"a": "X"}, "unknown operation of a 'X'"), ({"": "F"}, "must look like forward_step=F"),
        (["a"], "must be a mapping"), ("forward_step", "must look like .* not 'forward_step'"),
        ("a=F,b=Q", "unknown"), ({"a": "R"}, "known are F, B, I, W"),
    ],
)  # fmt: skip
def test_names_that_are_none(tmp_path: Path, ranges: Any, message: str) -> None:
    """Bad names of ranges: the message says what is wrong, about `ranges`."""
    with pytest.raises(ConfigError, match=message) as error:
        pipesched.read_traces(kineto(tmp_path, ran(), str), ranges=ranges)
    assert error.value.key == "ranges"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.integers(1, 9), st.booleans(), st.integers(0, 3))
@example({"": -0.0}, 2, False, 0)  # cut behind its point
def test_what_is_read_in_parts_is_the_same(content: dict[str, Any], part: int, packed: bool, indent: int) -> None:
    """Entries that are read a few letters at a time are those of the whole file; of a list each of its own."""
    text = json.dumps(content, indent=indent or None, ensure_ascii=False)
    expected = []
    for key, value in json.loads(text, parse_float=str).items():
        expected += [(key, one) for one in (None, *value)] if isinstance(value, list) else [(key, value)]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "PART", part)
        file = Path(folder) / "x.json"
        data = text.encode("utf-8", "surrogatepass")
        file.write_bytes(gzip.compress(data) if packed else data)
        try:
            assert [*stream.entries(file)] == expected
        except ConfigError:
            with pytest.raises(UnicodeDecodeError):
                data.decode()
        broken = data[: len(data) - 1]
        file.write_bytes(broken)
        with pytest.raises(ConfigError):
            [*stream.entries(file)]


BIG = """
import json, resource, sys
import pipesched
timeline = pipesched.read_traces(sys.argv[1:])
print(timeline.steps, timeline.problem.devices, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.nightly
def test_large_traces_take_little_memory(tmp_path: Path) -> None:
    """Three traces of 100 MB each, most of them kernels and calls, are read in less than 1 GB of memory."""
    rows = ran(steps=4)
    files = kineto(tmp_path, rows, lambda op: f"PP:{op}", waits=True)
    args = {"External id": 1, "correlation": 1, "stream": 7, "grid": [1, 2, 3], "block": [256, 1, 1], "bytes": 0.125}
    more = [{"ph": "X", "cat": "kernel", "name": "sgemm" * 9, "pid": 0, "tid": 7, "dur": 1.25, "args": args}] * 2
    more[1] = {**more[0], "cat": "cpu_op", "name": "aten::addmm"}
    for file in files:
        content = json.loads(file.read_text())
        with file.open("w") as big:
            big.write('{"distributedInfo": ' + json.dumps(content["distributedInfo"]) + ', "traceEvents": [')
            for number in range(420_000):
                event = {**more[number % 2], "ts": number + 0.5, "args": {**args, "correlation": number}}
                big.write(json.dumps(event) + ",\n")
            big.write(", ".join(map(json.dumps, content["traceEvents"])) + "]}")
        assert file.stat().st_size > 100e6
    done = subprocess.run([sys.executable, "-c", BIG, *files], capture_output=True, text=True, check=True)
    steps, devices, kilobytes = map(int, done.stdout.split())
    assert (steps, devices) == (3, 3)
    assert kilobytes < 1_000_000
