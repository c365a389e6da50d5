"""Late time of runs is message or runtime: planted latencies and slow ranks are named, whatever clocks are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
from pipesched.analysis.measured.clocks import Transit
from pipesched.analysis.measured.measured_step import latencies
from pipesched.analysis.measured.timeline import Timeline, config_text
from pipesched.core.reasons import Idle
from pipesched.documents.explanation import explanation_document, timeline_document
from pipesched.explore.drawing import BoardScreen, Viewport, draw
from pipesched.explore.pipeline_board import board_of
from pipesched.explore.sheet import loaded
from pipesched.explore.state import State
from pipesched.pipeline.check.check import check
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.ops import Op
from pipesched.render.explanation import gap_words, remarks, timeline_view
from pipesched.render.gantt import Gantt
from pipesched.render.html.page import legend
from pipesched.render.scene import MEASURED_MEMORY
from pipesched.render.summary import summary
from pipesched.schedulers.registry import FAMILIES
from tests.analysis.measured.traces_of_runs import NEEDS, Ran, made, primus_files, replayed, torch_traces

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


def test_a_slow_link_of_a_busy_machine(tmp_path: Path) -> None:
    """Where most messages take longer than the link the recorded waits tell that both directions are slow."""
    more = Random(1)
    latency = lambda boundary: 30_000_000 + more.choice([0, 40, 45, 50]) * 1_000_000 if boundary == 1 else 0  # noqa: E731
    timeline = pipesched.read_traces(torch_traces(tmp_path, ran(four_ranks(), latency), CLOCKS, apart=True))
    assert timeline.offsets == pytest.approx([clock / 1000 for clock in CLOCKS], abs=6000)
    assert timeline.p2p[1].p2p == pytest.approx(75_000, abs=5000)
    assert all(row.p2p < 6000 for row in timeline.p2p if row.boundary != 1)


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


def test_messages_that_nobody_waited_for_do_not_count(tmp_path: Path) -> None:
    """A receiver that comes after the end of the sender: its message says nothing of the latency."""
    steps = ran(four_ranks("naive"), lambda _: 20_000)
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, CLOCKS, apart=True))
    assert all(row.samples < 2 * 3 * 8 for row in timeline.p2p)
    assert [row.p2p for row in timeline.p2p] == pytest.approx([20] * 3, abs=0.01)


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


def test_explore_says_the_same(tmp_path: Path) -> None:
    """The reasons of gaps in the editor are those of the explanation; an edit has no late time left."""
    steps = ran(four_ranks(), lambda _: 210_000, lambda slot: 90_000 * (slot.stage == 3))
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, CLOCKS, apart=True))
    board = board_of(timeline.outcome)
    said = [gap_words(gap, "us") for gap in timeline.explanation.gaps]
    assert [board.gap_words(gap) for gap in board.gaps] == said
    assert {"message", "runtime"} <= {gap.idle.value for gap in board.gaps}
    edited = board.reordered(0, board.tasks.orders[0])
    assert not {gap.idle for gap in edited.gaps} & {Idle.LATE, Idle.MESSAGE, Idle.RUNTIME}


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
