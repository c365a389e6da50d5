"""A run beside its plan: late time, messages, ranges, and a run of PyTorch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from hypothesis import assume, given, strategies as st
from rich.console import Console

import pipesched
from pipesched import Gantt, NotApplicable, Op, Outcome, Schedule, Timeline, check, schedule_plan
from pipesched.analysis.measured.clocks import Transit
from pipesched.analysis.measured.ranges import PER_UNIT, Range, idle_as_waits
from pipesched.analysis.measured.timeline import MeasuredMessages, config_text, latencies
from pipesched.analysis.measured.torch_profiler import GpuSpans
from pipesched.core.reasons import Idle
from pipesched.documents.explanation import explanation_document, timeline_document
from pipesched.explore.drawing import BoardScreen, Viewport, draw
from pipesched.explore.pipeline_board import board_of
from pipesched.explore.sheet import loaded
from pipesched.explore.state import State
from pipesched.file_formats.chrome_trace import document
from pipesched.file_formats.pytorch_csv import dump
from pipesched.pipeline.plan.step import QUEUES
from pipesched.pipeline.problem.ops import other_end, parse_op
from pipesched.render.explanation import gap_words, messages_tables, remarks, timeline_view
from pipesched.render.html.page import legend
from pipesched.render.scene import MEASURED_MEMORY
from pipesched.render.summary import summary
from pipesched.schedulers.registry import FAMILIES
from tests.analysis.traces_of_runs import NEEDS, Ran, made, one_run, primus_files, replayed, torch_traces
from tests.runtime_ranks import Pool, pool_of
from tests.torch_ranks import TRACED, Job, needs_torch, run_job

CLOCKS = [0, 7_000_123, -55_555_000, 987_654_321]
LENGTHS = {"F": 1_000_000, "B": 2_000_000, "I": 1_000_000, "W": 1_000_000}
Steps = list[list[list[Ran]]]


def ran(schedule: Schedule, latency: Callable[[int], int], pause: Callable[[Any], int] = lambda _: 0) -> Steps:
    """Four steps; `latency` is that of a boundary, in ns."""
    steps: Steps = []
    for _ in range(4):
        begin = 1 + max((one.end for row in steps[-1] for one in row), default=0) if steps else 0
        delay = lambda one, other: latency(min(one.stage, other.stage))  # noqa: E731
        steps.append(replayed(schedule, lambda slot: LENGTHS[slot.kind], delay, begin, pause))
    return steps


def four_ranks(algorithm: str = "1f1b", chunks: int = 1) -> Schedule:
    """Eight microbatches on four devices."""
    schedule = made(algorithm, 4, chunks, 8)
    assert schedule is not None
    return schedule


def late_gaps(timeline: Timeline) -> list[Any]:
    """The gaps of late time."""
    return [gap for gap in timeline.explanation.gaps if gap.idle in (Idle.MESSAGE, Idle.RUNTIME)]


def assert_parts_add_up(timeline: Timeline) -> None:
    """In the document message and runtime are late, and the classes with late are the idle time."""
    document = timeline_document(timeline)
    for row in document["devices"]:
        parts = {key: value for key, value in row.items() if key not in ("message", "runtime", "idle")}
        assert row["message"] + row["runtime"] == pytest.approx(row["late"])
        assert sum(parts.values()) == pytest.approx(row["idle"])
    assert "late" not in {gap["class"] for gap in document["gaps"]}


@pytest.mark.parametrize("microseconds", [60, 210, 800, 2500])
@pytest.mark.parametrize(("algorithm", "chunks"), [("1f1b", 1), ("zb-h1", 1), ("interleaved", 2)])
def test_a_slow_link(tmp_path: Path, algorithm: str, chunks: int, microseconds: int) -> None:
    """All late time is message, of the boundary that is slow; its latency is found, and stands in the config."""
    steps = ran(four_ranks(algorithm, chunks), lambda boundary: microseconds * 1000 if boundary == 1 else 0)
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, CLOCKS, apart=True))
    assert timeline.offsets == pytest.approx([clock / 1000 for clock in CLOCKS], abs=0.01)
    found = late_gaps(timeline)
    assert {(gap.idle, gap.sender) for gap in found} == {(Idle.MESSAGE, 1), (Idle.MESSAGE, 2)}
    assert {str(gap.culprit)[:2] for gap in found} <= {"1B", "1I", "2F"}
    assert max(gap.length for gap in found) == pytest.approx(microseconds, abs=0.01)
    assert [row.p2p for row in timeline.p2p][1] == pytest.approx(microseconds, abs=0.01)
    assert all(row.p2p < 0.01 for row in timeline.p2p if row.boundary != 1)
    costs = yaml.safe_load(config_text(timeline))["costs"]
    assert costs["p2p"][1] == pytest.approx(microseconds, rel=0.15)
    assert_parts_add_up(timeline)


def test_a_slow_rank(tmp_path: Path) -> None:
    """Operations that a rank begins late although their inputs are there: runtime, also where other devices wait."""
    steps = ran(four_ranks(), lambda _: 0, lambda slot: 500_000 if slot.stage == 2 else 0)
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, CLOCKS, apart=True))
    assert {(gap.idle, gap.culprit.stage) for gap in late_gaps(timeline)} == {(Idle.RUNTIME, 2)}
    assert timeline.explanation.devices[2][Idle.RUNTIME] == pytest.approx(16 * 500)
    assert {row.p2p for row in timeline.p2p} == {0}
    assert_parts_add_up(timeline)


def by_definition(step: Sequence[Sequence[Ran]]) -> dict[str, tuple[float, ...]]:
    """Of each slot from when it could run, to when its message took, and when it began, in us since the first start.

    Judged from what was planted alone.
    """
    first = min(one.start for row in step for one in row)
    ends = {op: one for row in step for one in row for op in one.ops}
    found = {}
    for row in step:
        for one in row:
            parts = [(op, *need) for op in one.ops for need in NEEDS[op.kind]]
            needs = [Op(op.stage + more, kind, op.microbatch) for op, kind, more in parts if op.stage + more >= 0]
            sent = [ends[op] for op in needs if op in ends and ends[op] is not one]
            could = max([one.reached, *(other.end for other in sent)])
            is_sent = any(other.rank != one.rank for other in sent)
            there = min(max(one.start - one.pause, could), one.start) if is_sent else could
            found[str(one.slot)] = tuple((time - first) / 1000 for time in (could, there, one.start))
    return found


@given(st.integers(0, 10**6))
def test_every_gap_by_its_definition(seed: int) -> None:
    """Random families and latencies: of each slot that is late message and runtime are as the definition says."""
    random = Random(seed)
    schedule = None
    while schedule is None or schedule.plan.pairs:
        name = random.choice([name for name in FAMILIES if name != "block"])
        schedule = made(name, 2, random.choice([1, 2]), random.randint(2, 6))
    delays = {boundary: random.choice([0, 100_000]) for boundary in range(8)}
    steps = ran(schedule, delays.__getitem__, lambda slot: Random(str(slot)).choice([0, 0, 300_000]))
    with TemporaryDirectory() as folder:
        timeline = pipesched.read_traces(torch_traces(Path(folder), steps, [0, 5_000_000], apart=True))
    assert check(timeline.outcome) == []
    assert_parts_add_up(timeline)
    assume(timeline.offsets[1] == 5000)
    expected = by_definition(steps[int(timeline.step)])
    for gap in timeline.explanation.gaps:
        if gap.waiting is None or gap.culprit != gap.waiting or gap.idle not in (Idle.MESSAGE, Idle.RUNTIME):
            continue
        could, there, start = expected[str(gap.culprit)]
        due = (could, there) if gap.idle is Idle.MESSAGE else (there, start)
        assert (gap.start, gap.end) == pytest.approx(due, abs=1e-6)


def test_waits_inside_are_runtime(tmp_path: Path) -> None:
    """Ranges that hold their waiting: nothing tells of messages, so late time is runtime, and no latency is known."""
    steps = ran(four_ranks(), lambda boundary: 60_000 if boundary == 1 else 0, lambda slot: 90_000 * (slot.stage == 3))
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, CLOCKS))
    assert timeline.explanation.totals[Idle.MESSAGE] == 0
    assert [row[1:] for row in timeline.p2p] == [(0, None, None, 0)] * 3
    assert yaml.safe_load(config_text(timeline))["costs"]["p2p"] == 0
    assert_parts_add_up(timeline)


def test_primus(tmp_path: Path) -> None:
    """Its ranges begin behind the waiting: what a rank did nothing before a message's range is the message."""
    steps = ran(four_ranks(), lambda boundary: 210_000 if boundary == 1 else 0)
    clocks = [[-step[0][0].start + clock for clock in CLOCKS] for step in steps]
    timeline = pipesched.read_traces(primus_files(tmp_path, steps, clocks, [[rank] for rank in range(4)]))
    assert timeline.problem.time_unit == "ms"
    assert {gap.idle for gap in late_gaps(timeline)} == {Idle.MESSAGE}
    assert [row.p2p for row in timeline.p2p] == [0, pytest.approx(210), 0]


@pytest.mark.parametrize(
    ("found", "row"),
    [
        ([], (0, 0, None, None, 0)),
        ([((0, True), 30_000_000)], (0, 1, 30, None, 30)),
        ([((0, False), -5_000_000)], (0, 1, None, -5, 0)),
        ([((0, True), 70_000_000), ((0, False), -50_000_000)], (0, 2, 70, -50, 10)),
        ([((0, True), 7_000_000), ((0, True), 8_000_000), ((0, False), -9_000_000)], (0, 3, 7.5, -9, 0)),
    ],
)
def test_latency_of_both_directions(found: list[Transit], row: tuple[Any, ...]) -> None:
    """Half of the sum of the medians; that of one direction alone; 0 where there is none, or it is less than 0."""
    assert [tuple(one) for one in latencies(found, 2)] == [row, (1, 0, None, None, 0)]


def test_a_document_keeps_both(tmp_path: Path) -> None:
    """The measured schedule that is written is explained in the same way when it is read."""
    steps = ran(four_ranks(), lambda _: 210_000, lambda slot: 90_000 * (slot.stage == 3))
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, CLOCKS, apart=True))
    back = pipesched.read(pipesched.write(timeline.outcome, tmp_path / "measured.json"))
    assert isinstance(back, pipesched.Outcome)
    before, after = (explanation_document(one) for one in (timeline.explanation, pipesched.explain(back)))
    assert {key: after[key] for key in ("devices", "gaps")} == {key: before[key] for key in ("devices", "gaps")}
    assert before["devices"][3]["message"] > 0
    assert before["devices"][3]["runtime"] > 0


@pytest.mark.parametrize(("planned", "words"), [(0, "210 us"), (100, "110 us"), (300, "no")])
def test_the_sentences(tmp_path: Path, planned: int, words: str) -> None:
    """What took longer than planned by how much, and what a rank had not begun."""
    schedule = made("1f1b", 2, 1, 4)
    assert schedule is not None
    steps = ran(schedule, lambda _: 210_000, lambda slot: 90_000 * (slot.stage == 0))
    problem = pipesched.make_problem(devices=2, microbatches=4, forward=1, backward=2, p2p=planned, time_unit="us")
    plan = pipesched.run(problem, "1f1b")
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, CLOCKS[:2], apart=True), plan=plan)
    sentences = {gap_words(gap, "us") for gap in late_gaps(timeline)}
    assert f"1F0's input from device 0 took {words} longer than planned" in sentences
    assert "0F0 could run, the rank had not begun it" not in sentences  # nothing comes before it
    assert "0F1 could run, the rank had not begun it" in sentences


def printed(timeline: Timeline) -> str:
    """The charts and the costs of a timeline, as text."""
    console = Console(width=120, color_system=None)
    with console.capture() as captured:
        console.print(timeline_view(timeline))
    return captured.get()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"ranks": 4, "cores": 2}, "4 ranks ran on 2 cores"),
        ({"ranks": 1, "cores": 1}, "1 rank ran on 1 core"),
        ({"ranks": 4, "cores": "2"}, None),
        ({"ranks": 4}, None),
        ([4, 2], None),
        (None, None),
    ],
)
def test_ranks_and_cores(tmp_path: Path, said: Any, words: str | None) -> None:
    """How many ranks ran on how many cores is said where the traces say it."""
    files = torch_traces(tmp_path, ran(four_ranks(), lambda _: 0), CLOCKS, apart=True)
    for file in files if said is not None else ():
        file.write_text(json.dumps({**json.loads(file.read_text()), "pipesched": said}))
    timeline = pipesched.read_traces(files)
    assert [line.plain for line in remarks(timeline) if "ran on" in line.plain] == ([words] if words else [])
    assert (words or "ran on") in printed(timeline) or words is None
    measured = timeline_document(timeline)["measured"]
    assert {key: measured.get(key) for key in ("ranks", "cores")} == (said if words else {"ranks": None, "cores": None})


def test_whose_memory_it_is(tmp_path: Path) -> None:
    """The strip of a measured chart has a title, in a figure too, and the summary says it: of that schedule alone."""
    memory_key = pytest.importorskip("pipesched.render.figure.chart").memory_key
    timeline = pipesched.read_traces(torch_traces(tmp_path, ran(four_ranks(), lambda _: 0), CLOCKS, apart=True))
    planned = pipesched.run(pipesched.make_problem(devices=4, microbatches=8), "1f1b")
    for outcome, times in ((timeline.outcome, 1), (planned, 0)):
        console = Console(width=80, color_system=None)
        with console.capture() as captured:
            console.print(Gantt(outcome, memory=True))
        lines = captured.get().splitlines()
        titles = [number for number, line in enumerate(lines) if line.strip() == MEASURED_MEMORY]
        assert len(titles) == times
        assert all(lines[number + 1].startswith("mem ") for number in titles)
        with console.capture() as captured:
            console.print(Gantt(outcome, memory=True), width=30)
        assert max(map(len, captured.get().splitlines())) <= 30
        state = State(loaded(board_of(outcome), outcome.algorithm), Mock())
        state.shown = {*state.shown, "memory"}
        drawing = draw(state, Viewport(1), BoardScreen(80, 40, colour=False, ascii_only=False))
        assert "".join(segment.text for line in drawing.lines for segment in line).count(MEASURED_MEMORY) == times
        with console.capture() as captured:
            console.print(summary(outcome))
        assert captured.get().count(MEASURED_MEMORY) == times
        (_, name), *_ = memory_key([outcome.schedule])
        assert name.startswith(MEASURED_MEMORY) == bool(times)


def test_the_page_has_both_classes(tmp_path: Path) -> None:
    """The legend of a page names them where a schedule was measured, and not else."""
    timeline = pipesched.read_traces(torch_traces(tmp_path, ran(four_ranks(), lambda _: 0), CLOCKS, apart=True))
    planned = pipesched.run(pipesched.make_problem(devices=4, microbatches=8), "1f1b")
    entries = [legend([outcome]) for outcome in (timeline.outcome, planned)]
    assert [("message" in text, "runtime" in text, "late" in text) for text in entries] == [
        (True, True, False), (False, False, True)
    ]  # fmt: skip
    text = timeline.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert '"arrived":[' in text


Event = dict[str, Any]
NAMES = ["1f1b", "interleaved", "looped-bfs", "zb-h1", "dualpipe-v", "dualpipe", "gpipe", "zb-v"]


def queued_run(queue: str, algorithm: str, devices: int, stages: int, microbatches: int, p2p: float) -> Outcome:
    """The schedule of a family whose messages queue so."""
    sizes: dict[str, Any] = {"devices": devices, "stages": stages, "microbatches": microbatches, "p2p": p2p}
    problem = pipesched.make_problem(forward=1, backward=2, messages=queue, time_unit="us", **sizes)
    return pipesched.run(problem, algorithm)


def charted(folder: Path, outcome: Outcome) -> Timeline:
    """What is read of the schedule as our Chrome trace."""
    return pipesched.read_traces([written(folder, outcome)], plan=outcome)


def written(folder: Path, outcome: Outcome) -> Path:
    """The file of a schedule as our Chrome trace."""
    file = folder / "made.trace.json"
    file.write_text(json.dumps(document(outcome)), encoding="utf-8")
    return file


def of(timeline: Timeline) -> MeasuredMessages:
    """What the trace says of messages, which it has."""
    assert timeline.messages is not None, timeline.notes
    return timeline.messages


def kineto(folder: Path, outcome: Outcome, clocks: Sequence[int], steps: int = 3) -> list[Path]:
    """Traces of torch.profiler of some steps: an end of a message begins as the one before it on its stream has ended.

    A SEND begins once its tensor is made too. Ranges of operations hold no waiting, which stands apart.
    """
    schedule, files = outcome.schedule, list[Path]()
    index, per_unit = schedule.plan.index, schedule.problem.ticks.per_unit
    assert schedule.problem.messages is not None
    homes, queue = schedule.problem.settled_placement.devices, schedule.problem.messages.queue
    for device, clock in enumerate(clocks):
        program, events = schedule.plan.messages[device], list[Event]()
        for begin in (clock + 1000 * step for step in range(steps)):
            free, done = dict[int, float](), 0.0
            for number, sends in zip(program.number.tolist(), program.sends.tolist(), strict=True):
                message = index.op(number)
                source = Op(message.stage, "F" if message.kind == "SEND_F" else "B", message.microbatch)
                other = homes[other_end(message).stage if sends else message.stage]
                stream = {"rank": -1, "pair": other}.get(queue, other if sends else ~number)
                start = max(free.get(stream, 0), schedule.end_ticks[index.number(source)] / per_unit if sends else 0)
                free[stream] = schedule.end_ticks[number] / per_unit
                name = f"PP:{message if sends else other_end(message)}"
                events.append(event(name, begin + start, free[stream] - start))
            for one in schedule.timeline(device):
                if one.start > done:
                    events.append(event(f"WAIT:{one.slot}", begin + done, one.start - done))
                events.append(event(f"PP:{one.slot}", begin + one.start, one.end - one.start))
                done = one.end
        files.append(folder / f"rank{device}.json")
        files[-1].write_text(json.dumps({"distributedInfo": {"rank": device}, "traceEvents": events}))
    return files


def event(name: str, start: float, length: float) -> Event:
    """A range of the GPU."""
    lane = {"ph": "X", "cat": "gpu_user_annotation", "pid": 0, "tid": 20 if "_" in name else 7}
    return {**lane, "name": name, "ts": start, "dur": length}


@pytest.mark.parametrize("queue", QUEUES[1:])
@pytest.mark.parametrize(
    "sizes",
    [("interleaved", 3, 6, 6, 0.25), ("interleaved", 3, 6, 6, 1), ("1f1b", 4, 4, 8, 0.5), ("dualpipe-v", 2, 4, 6, 0.5),
     ("looped-bfs", 4, 8, 8, 1), ("dualpipe", 4, 4, 8, 1)],
    ids=str,
)  # fmt: skip
def test_the_queue_that_made_it(tmp_path: Path, queue: str, sizes: Any) -> None:
    """The step retimed with its own queue starts where it started; others that fit as well have the same makespan."""
    outcome = queued_run(queue, *sizes)
    timeline = charted(tmp_path, outcome)
    found = of(timeline)
    assert [one.queue for one in found.queues] == [*QUEUES]
    own = {one.queue: one for one in found.queues}
    assert own[queue] == (queue, outcome.schedule.makespan, 0)
    assert [*found.fits] == [name for name, one in own.items() if one.off == 0]
    assert {own[name].makespan for name in found.fits} == {outcome.schedule.makespan}
    for device, row in enumerate(found.devices):
        assert (row.messages, row.time, row.planned) == (
            len(outcome.schedule.plan.messages[device].number),
            *sizes[4:] * 2,
        )
    if queue in ("rank", "device") and sizes[0] != "dualpipe-v":  # on two ranks a pair is a rank
        assert [*found.fits] == [queue]


@pytest.mark.parametrize("queue", ["rank", "pair", "edge"])
@pytest.mark.parametrize("clocks", [(0, 0, 0), (0, 700, -4000)], ids=str)
@pytest.mark.parametrize("p2p", [0.25, 1])
def test_ranges_of_pytorch(tmp_path: Path, queue: str, clocks: Sequence[int], p2p: float) -> None:
    """SEND and RECV ranges of each rank, whose kernels wait in their stream, tell the queue too, on any clocks."""
    outcome = queued_run(queue, "interleaved", 3, 6, 6, p2p)
    found = of(pipesched.read_traces(kineto(tmp_path, outcome, clocks), plan=outcome))
    assert queue in found.fits
    assert {one.queue: one.makespan for one in found.queues}[queue] == outcome.schedule.makespan
    assert [row[:3] for row in found.devices] == [(36, p2p, p2p), (48, p2p, p2p), (36, p2p, p2p)]


@given(st.integers(0, 10**6))
def test_any_schedule(seed: int) -> None:
    """Of a random family, sizes, queue and lengths, the own queue is off by nothing, and none is shorter than free."""
    random = Random(seed)
    devices, chunks = random.randint(2, 4), random.randint(1, 2)
    sizes = devices, devices * chunks, random.randint(1, 8), random.choice([0.1, 0.5, 1, 3])
    queue = random.choice(QUEUES[1:])
    try:
        schedule = queued_run(queue, random.choice(NAMES), *sizes).schedule
    except NotApplicable:
        return
    if random.random() < 0.5:  # a step whose operations and messages each took longer
        longer = [length + random.randint(0, 9) for length in schedule.graph.durations]
        schedule = schedule_plan(schedule.problem, schedule.plan, longer)
    with TemporaryDirectory() as folder:
        found = of(pipesched.read_traces([written(Path(folder), Outcome("made", schedule))]))
    assert queue in found.fits
    own = {one.queue: one for one in found.queues}
    assert (own[queue].makespan, own[queue].off) == (schedule.makespan, 0)
    assert min(one.makespan for one in found.queues if one.makespan is not None) == own["free"].makespan


@pytest.mark.parametrize("queue", QUEUES[1:])
def test_late_ranks(tmp_path: Path, queue: str) -> None:
    """What is late by itself hides no queue: what ends up to 3 % earlier leaves gaps behind it."""
    random, late = Random(queue), document(queued_run(queue, "interleaved", 3, 6, 6, 1))
    for one in late["traceEvents"]:
        if "dur" in one:
            one["dur"] = round(one["dur"] * (1 - random.random() * 0.03), 6)
    (tmp_path / "late.trace.json").write_text(json.dumps(late), encoding="utf-8")
    found = of(pipesched.read_traces([tmp_path / "late.trace.json"]))
    assert queue in found.fits
    assert min(one.off or 0 for one in found.queues) > 0
    assert {*found.fits} <= {"free", "edge", "pair"} if queue in ("edge", "pair") else found.fits == [queue]


def test_without_messages(tmp_path: Path) -> None:
    """A trace of free messages says nothing of them: no table, no key, no note."""
    timeline = charted(tmp_path, queued_run("free", "1f1b", 2, 2, 4, 0.5))
    assert timeline.messages is None
    assert [*messages_tables(timeline)] == []
    assert "messages" not in timeline_document(timeline)["measured"]


def test_the_tables_and_the_document(tmp_path: Path) -> None:
    """Words and JSON have the numbers of all five queues, and those of each device."""
    timeline = charted(tmp_path, queued_run("rank", "interleaved", 3, 6, 6, 0.25))
    console = Console(width=80, record=True, file=StringIO())
    for part in messages_tables(timeline):
        console.print(part)
    text = [line.rstrip() for line in console.export_text().splitlines()]
    assert "device 1     48       0.25     0.25                48.75" in text
    assert "rank        54.5              0" in text
    assert text[-1] == "queue that fits best: rank"
    said = json.loads(json.dumps(timeline_document(timeline)))["measured"]["messages"]
    assert said["devices"][1] == {"messages": 48, "time": 0.25, "planned": 0.25, "behind": 48.75}
    assert said["queues"][3] == {"queue": "rank", "makespan": 54.5, "off": 0}
    assert said["fits"] == ["rank"]


def changed(folder: Path, change: Any) -> Timeline:
    """What is read of a trace whose events were changed."""
    file = written(folder, queued_run("rank", "1f1b", 2, 2, 4, 0.5))
    content = json.loads(file.read_text(encoding="utf-8"))
    content["traceEvents"] = [one for one in map(change, content["traceEvents"]) if one is not None]
    file.write_text(json.dumps(content), encoding="utf-8")
    return pipesched.read_traces([file])


def test_a_message_is_missing(tmp_path: Path) -> None:
    """A trace that lacks a message is read, and a note says which one."""
    timeline = changed(tmp_path, lambda one: None if one["name"] == "1SEND_B2" else one)
    assert timeline.messages is None
    assert timeline.notes == ["messages are not compared: the trace lacks 1SEND_B2 and 0RECV_B2"]


def test_ranges_that_only_issue(tmp_path: Path) -> None:
    """A RECV that ends before its SEND begins took no message: a note says so."""
    outcome = queued_run("rank", "1f1b", 2, 2, 4, 0.5)
    files = kineto(tmp_path, outcome, (0, 0))
    for file in files:
        content = json.loads(file.read_text(encoding="utf-8"))
        for one in content["traceEvents"]:
            if "RECV_F" in one["name"]:
                one.update(ts=one["ts"] // 1000 * 1000, dur=0.001)
        file.write_text(json.dumps(content), encoding="utf-8")
    timeline = pipesched.read_traces(files)
    assert timeline.messages is None
    (note,) = timeline.notes
    assert note.startswith("messages are not compared: 1RECV_F0 ended before 0SEND_F0 began")


def test_no_time(tmp_path: Path) -> None:
    """A message whose time is none is refused by its name."""
    with pytest.raises(pipesched.ConfigError, match="ts of 1SEND_B2 must be a time, not 'soon'"):
        changed(tmp_path, lambda one: {**one, "ts": "soon"} if one["name"] == "1SEND_B2" else one)


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


ranks = pool_of(2)


@pytest.mark.parametrize(("algorithm", "chunks"), [("1f1b", 1), ("zb-h1", 1), ("interleaved", 2), ("dualpipe-v", 2)])
@needs_torch
def test_a_real_run(ranks: Pool, tmp_path: Path, algorithm: str, chunks: int) -> None:
    """Every operation of the schedule is measured in each step, in its order, within every rule, below its plan."""
    problem = pipesched.make_problem(
        devices=2, chunks=chunks, microbatches=4, forward=100, backward=200, time_unit="us"
    )
    plan = pipesched.run(problem, algorithm)
    (tmp_path / "schedule.csv").write_text(dump(plan.schedule))
    read = pipesched.read(tmp_path / "schedule.csv", problem=problem)
    assert isinstance(read, pipesched.Outcome)
    placement = read.problem.settled_placement.devices
    run_job(ranks, Job(tmp_path / "schedule.csv", placement, 4, traces=tmp_path))
    timeline = pipesched.read_traces([tmp_path / "trace1.json", tmp_path / "trace0.json"], plan=read)
    assert check(timeline.outcome) == []
    assert timeline.steps == TRACED - 1
    for device in range(2):
        ran = [str(slot.slot) for slot in timeline.schedule.timeline(device)]
        assert ran == [str(slot.slot) for slot in read.schedule.timeline(device)]
    assert sum(cost.samples for cost in timeline.costs) == (TRACED - 1) * sum(map(len, read.schedule.plan.orders))
    console = Console(width=100, record=True, file=StringIO())
    console.print(timeline_view(timeline))
    text = console.export_text()
    assert f"planned: {read.algorithm}" in text
    assert "measured  makespan" in text
    assert timeline.to_html(tmp_path / "page.html").read_text(encoding="utf-8").count("measured") > 1
