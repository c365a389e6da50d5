"""The queue that made a schedule fits its trace best, and traces without messages say nothing of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

import pipesched
from pipesched.analysis.measured.measured_step import MeasuredMessages
from pipesched.analysis.measured.timeline import Timeline
from pipesched.documents.explanation import timeline_document
from pipesched.errors import NotApplicable
from pipesched.file_formats.chrome_trace import document
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.plan.step import QUEUES
from pipesched.pipeline.problem.ops import Op, other_end
from pipesched.render.explanation import messages_tables
from pipesched.results.outcome import Outcome

Event = dict[str, Any]
NAMES = ["1f1b", "interleaved", "looped-bfs", "zb-h1", "dualpipe-v", "dualpipe", "gpipe", "zb-v"]


def made(queue: str, algorithm: str, devices: int, stages: int, microbatches: int, p2p: float) -> Outcome:
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
    outcome = made(queue, *sizes)
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


def test_times_of_the_design(tmp_path: Path) -> None:
    """Interleaved 1F1B, P 3, M 6, p2p 0.25 on one stream a rank: 54.5, beside 44.5 of free messages in that order."""
    found = of(charted(tmp_path, made("rank", "interleaved", 3, 6, 6, 0.25)))
    assert [one.makespan for one in found.queues] == [44.5, 44.5, 44.5, 54.5, 73.75]
    assert [row.behind for row in found.devices] == [29.75, 48.75, 23.5]


@pytest.mark.parametrize("queue", ["rank", "pair", "edge"])
@pytest.mark.parametrize("clocks", [(0, 0, 0), (0, 700, -4000)], ids=str)
@pytest.mark.parametrize("p2p", [0.25, 1])
def test_ranges_of_pytorch(tmp_path: Path, queue: str, clocks: Sequence[int], p2p: float) -> None:
    """SEND and RECV ranges of each rank, whose kernels wait in their stream, tell the queue too, on any clocks."""
    outcome = made(queue, "interleaved", 3, 6, 6, p2p)
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
        schedule = made(queue, random.choice(NAMES), *sizes).schedule
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
    random, late = Random(queue), document(made(queue, "interleaved", 3, 6, 6, 1))
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
    timeline = charted(tmp_path, made("free", "1f1b", 2, 2, 4, 0.5))
    assert timeline.messages is None
    assert [*messages_tables(timeline)] == []
    assert "messages" not in timeline_document(timeline)["measured"]


def test_the_tables_and_the_document(tmp_path: Path) -> None:
    """Words and JSON have the numbers of all five queues, and those of each device."""
    timeline = charted(tmp_path, made("rank", "interleaved", 3, 6, 6, 0.25))
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
    file = written(folder, made("rank", "1f1b", 2, 2, 4, 0.5))
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
    outcome = made("rank", "1f1b", 2, 2, 4, 0.5)
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
