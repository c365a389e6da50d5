"""Traces of runs, read from PyTorch and from others."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

import pipesched
from pipesched import ConfigError, InvalidSchedule, NotApplicable, Pair, Schedule, Slices, check
from pipesched.analysis.measured import files as stream
from pipesched.analysis.measured.timeline import config_text
from pipesched.schedulers.registry import FAMILIES
from tests.analysis.traces_of_runs import Ran, made, one_run, primus_files, replayed, torch_traces
from tests.examples import at_night_but
from tests.stepped import forwards, sized

Steps = list[list[list[Ran]]]
FAMILY_NAMES = [name for name in FAMILIES if name != "block"]


def kind(slot: Any) -> tuple[str, int]:
    """The kind and stage of a slot, as documents have them."""
    return ("overlap", slot.forward.stage) if isinstance(slot, Pair) else (slot.kind, slot.stage)


def steps_of(schedule: Schedule, random: Random, count: int, jitter: int = 0, latency: int = 0) -> Steps:
    """Steps in which each kind has a length of its own, and up to `jitter` more each time."""
    own: dict[Any, int] = {}

    def length(slot: Any) -> int:
        base = own.setdefault(
            (kind(slot), slot.backward.stage if isinstance(slot, Pair) else -1), random.randint(500, 3000)
        )
        return base + (random.randint(0, jitter) if jitter else 0)

    steps: Steps = []
    begin = 0
    for _ in range(count):
        delays = (lambda _a, _b: random.randint(0, latency)) if latency else (lambda _a, _b: 0)
        steps.append(replayed(schedule, length, delays, begin))
        begin = max(one.end for row in steps[-1] for one in row) + random.randint(1, 5000)
    return steps


def lengths(steps: Steps) -> dict[tuple[str, int], list[float]]:
    """What operations took, by kind and stage, without the first step."""
    found: dict[tuple[str, int], list[float]] = {}
    for one in (one for step in steps[1:] for row in step for one in row):
        found.setdefault(kind(one.slot), []).append((one.end - one.start) / 1000)
    return found


def span(step: list[list[Ran]]) -> int:
    """From the first start of a step to its last end."""
    return max(one.end for row in step for one in row) - min(one.start for row in step for one in row)


def assert_measured(timeline: Any, steps: Steps, clocks: Sequence[int]) -> None:
    """Offsets, quartiles, counts, the step of median makespan and its times are those that were planted."""
    assert timeline.offsets == pytest.approx([(clock - clocks[0]) / 1000 for clock in clocks], abs=1e-9)
    expected = lengths(steps)
    assert {(cost.kind, cost.stage) for cost in timeline.costs} == set(expected)
    for cost in timeline.costs:
        values = expected[cost.kind, cost.stage]
        assert cost.samples == len(values)
        quartiles = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        assert [cost.q1, cost.median, cost.q3] == pytest.approx(quartiles, abs=1e-9)
    spans = [*map(span, steps[1:])]
    assert timeline.makespan == pytest.approx(sorted(spans)[(len(spans) - 1) // 2] / 1000, abs=1e-9)
    assert check(timeline.outcome) == []
    step = steps[1 + spans.index(sorted(spans)[(len(spans) - 1) // 2])]
    first = min(one.start for row in step for one in row)
    for device, row in enumerate(step):
        drawn = [(str(slot.slot), slot.start, slot.end) for slot in timeline.schedule.timeline(device)]
        planted = [(str(one.slot), (one.start - first) / 1000, (one.end - first) / 1000) for one in row]
        assert [one[0] for one in drawn] == [one[0] for one in planted]
        assert [one[1:] for one in drawn] == [pytest.approx(one[1:], abs=1e-9) for one in planted]


def random_steps(random: Random, *, jitter: int = 0, latency: int = 0) -> tuple[Schedule, Steps]:
    """A random family on random sizes."""
    while True:
        sizes = random.choice([2, 3, 4]), random.choice([1, 2]), random.randint(1, 8)
        schedule = made(random.choice(FAMILY_NAMES), *sizes)
        if schedule is not None:
            return schedule, steps_of(schedule, random, random.randint(2, 5), jitter, latency)


@given(st.integers(0, 10**6))
def test_waits_apart(seed: int) -> None:
    """Ranges that hold no waiting: whatever the clocks are, the lengths are exactly those planted."""
    random = Random(seed)
    schedule, steps = random_steps(random, jitter=random.choice([0, 400]))
    clocks = [random.randint(-(10**9), 10**9) for _ in range(schedule.problem.devices)]
    with TemporaryDirectory() as folder:
        files = torch_traces(Path(folder), steps, clocks, apart=True)
        random.shuffle(files)
        timeline = pipesched.read_traces(files)
    expected = lengths(steps)
    for cost in timeline.costs:  # lengths do not depend on clocks
        assert cost.median == pytest.approx(median(expected[cost.kind, cost.stage]), abs=2e-3)
    assert check(timeline.outcome) == []


@pytest.mark.parametrize(
    ("algorithm", "apart"),
    [(name, apart) for name in ("1f1b", "zb-h1", "interleaved", "dualpipe-v", "zb-v") for apart in (True, False)]
    + [("naive", True)],
)
def test_planted_numbers_are_found(tmp_path: Path, algorithm: str, apart: bool) -> None:
    """Families whose messages settle the clocks: all numbers are exactly those planted, with waits inside or apart."""
    chunks = 2 if algorithm in ("interleaved", "dualpipe-v", "zb-v") else 1
    schedule = made(algorithm, 2, chunks, 8)
    assert schedule is not None
    fixed = {"F": 1000, "B": 2100, "I": 1100, "W": 900}

    def length(slot: Any) -> int:
        parts = slot if isinstance(slot, Pair) else [slot]
        return sum(fixed[op.kind] + 37 * op.stage for op in parts)

    steps = [replayed(schedule, length, begin=500_000 * step) for step in range(4)]
    clocks = [123_456, -987_654_321]
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, clocks, apart=apart))
    assert_measured(timeline, steps, clocks)


def test_wholes_beside_halves(tmp_path: Path) -> None:
    """A run of whole and split backwards gives the costs of both; of a stage without a whole one, its halves' sum."""
    given_costs: dict[str, Any] = {"forward": 1, "backward": 2, "backward_input": 1.5, "backward_weight": 1.5}
    schedule = pipesched.run(pipesched.make_problem(devices=4, microbatches=8, **given_costs), "zb-h1").schedule
    assert 0 < schedule.joined < 32
    fixed = {"F": 1000, "B": 2000, "I": 1500, "W": 1700}
    steps = [replayed(schedule, lambda slot: fixed[kind(slot)[0]], begin=500_000 * step) for step in range(4)]
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, [0, 5, -7, 9], apart=True))
    costs = timeline.problem.costs
    wholes = {kind(slot)[1] for row in range(4) for slot in schedule.plan.slots(row) if kind(slot)[0] == "B"}
    assert costs.backward == tuple(2 if stage in wholes else pytest.approx(3.2) for stage in range(4))
    assert pipesched.load(config_text(timeline)).costs.backward == costs.backward


@given(st.integers(0, 10**6))
def test_no_run_is_refused(seed: int) -> None:
    """Whatever lengths, latencies and clocks: a real run has clocks that fit, and its timeline keeps every rule."""
    random = Random(seed)
    schedule, steps = random_steps(random, jitter=random.choice([0, 1500]), latency=random.choice([0, 300]))
    clocks = [random.randint(-(10**9), 10**9) for _ in range(schedule.problem.devices)]
    with TemporaryDirectory() as folder:
        timeline = pipesched.read_traces(torch_traces(Path(folder), steps, clocks, apart=random.random() < 0.5))
    assert check(timeline.outcome) == []
    assert timeline.schedule.plan.orders == schedule.plan.orders or timeline.schedule.plan.index != schedule.plan.index


@given(st.integers(0, 10**6))
def test_primus(seed: int) -> None:
    """Primus's files: each iteration has its own clocks; bwd beside a wgrad is I; lengths are those planted."""
    random = Random(seed)
    names = ["1f1b", "zb-h1", "interleaved", "looped-bfs", "interleaved-zb"]
    schedule = None
    while schedule is None:
        sizes = random.choice([2, 3]), random.choice([1, 2]), random.randint(2, 7)
        schedule = made(random.choice(names), *sizes)
    steps = steps_of(schedule, random, 3, jitter=300)
    devices = schedule.problem.devices
    clocks = [[random.randint(-(10**6), 10**6) for _ in range(devices)] for _ in steps]
    stages = [schedule.problem.settled_placement.stages_on(rank) for rank in range(devices)]
    with TemporaryDirectory() as folder:
        timeline = pipesched.read_traces(primus_files(Path(folder), steps, clocks, stages))
    assert timeline.problem.time_unit == "ms"
    assert timeline.source == "Primus"
    expected = lengths(steps)
    for cost in timeline.costs:
        assert cost.median == pytest.approx(median(expected[cost.kind, cost.stage]), abs=1e-6)
    number = int(timeline.step) - 1
    assert timeline.offsets[0] == 0
    assert len(timeline.offsets) == devices
    spans = [*map(span, steps)]
    assert timeline.makespan == pytest.approx(spans[number] / 1000, rel=0.2)
    assert check(timeline.outcome) == []


@pytest.mark.parametrize("seed", at_night_but((0,), range(4)))
@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "zb-h2", "looped-bfs", "interleaved-zb", "v-half"])
def test_equal_lengths_tell_the_clocks(tmp_path: Path, algorithm: str, seed: int) -> None:
    """Waits inside the ranges, uneven stages: equal times of a kind settle clocks that messages alone leave open."""
    chunks = 1 if algorithm in ("1f1b", "zb-h1", "zb-h2") else 2
    schedule = made(algorithm, 2, chunks, 8)
    assert schedule is not None
    random = Random(seed)
    steps = uneven_steps(schedule, random)
    clocks = [random.randint(-(10**9), 10**9) for _ in range(2)]
    assert_measured(pipesched.read_traces(torch_traces(tmp_path, steps, clocks)), steps, clocks)


def uneven_steps(schedule: Schedule, random: Random, latency: int = 0) -> Steps:
    """Four steps in which operations of a kind take equal times, on each stage other ones, and messages nearly."""
    usual = {"F": 1000, "B": 2000, "I": 1000, "W": 1000}
    own: dict[Any, int] = {}

    def length(slot: Any) -> int:
        if kind(slot) not in own:
            own[kind(slot)] = int(usual[slot.kind] * random.uniform(0.7, 1.3))
        return own[kind(slot)]

    def delay(_sender: Any, _receiver: Any) -> int:
        return latency + random.randint(-2, 2) if latency else 0

    return [replayed(schedule, length, delay, 500_000 * step) for step in range(4)]


def test_primus_on_a_v(tmp_path: Path) -> None:
    """Chunks are stages by the placement that is given, and by that of the plan."""
    schedule = made("zb-v", 2, 2, 4)
    assert schedule is not None
    steps = [replayed(schedule, lambda _slot: 1000, begin=90_000 * step) for step in range(3)]
    files = primus_files(tmp_path, steps, [[0, 500]] * 3, [[0, 3], [1, 2]])
    for more in ({"placement": "v"}, {"placement": [0, 1, 1, 0]}, {"plan": schedule}):
        timeline = pipesched.read_traces(files, **more)
        assert list(timeline.problem.settled_placement.devices) == [0, 1, 1, 0]
        assert check(timeline.outcome) == []


def test_two_runs(tmp_path: Path) -> None:
    """Files of two runs: two messages contradict each other, and both are named with their ranks."""
    first = one_run(tmp_path / "a")[0]
    second = one_run(tmp_path / "b", begin=(0, 60_000, 140_000))[1]
    with pytest.raises(InvalidSchedule, match="ranks 0 and 1") as caught:
        pipesched.read_traces([first, second])
    assert len(caught.value.violations) == 2
    assert all("on rank 0" in said and "on rank 1" in said for said in caught.value.violations)


@pytest.mark.parametrize("apart", [True, False])
def test_a_clock_that_drifts(tmp_path: Path, apart: bool) -> None:
    """A clock that runs 20 % fast fits no constant difference."""
    schedule = made("1f1b", 3, 1, 6)
    assert schedule is not None
    steps = [replayed(schedule, lambda _slot: 1000, begin=50_000 * step) for step in range(4)]
    files = torch_traces(tmp_path, steps, [0, 0, 0], apart=apart)
    content = json.loads(files[1].read_text())
    for event in content["traceEvents"][1:]:
        event["ts"], event["dur"] = event["ts"] * 1.2, event["dur"] * 1.2
    files[1].write_text(json.dumps(content))
    with pytest.raises(InvalidSchedule, match="a clock that drifts") as caught:
        pipesched.read_traces(files)
    assert len(caught.value.violations) == 2


def test_ranks(tmp_path: Path) -> None:
    """A rank that is missing, or there twice, is bad input, however it shows."""
    files = one_run(tmp_path)
    with pytest.raises(ConfigError, match="rank 1 is there twice"):
        pipesched.read_traces([files[0], files[1], files[1]])
    with pytest.raises(ConfigError, match=r"rank 0 is missing"):
        pipesched.read_traces([files[1]])
    schedule = made("1f1b", 2, 1, 4)
    assert schedule is not None
    steps = [replayed(schedule, lambda _slot: 1000, begin=one) for one in (0, 50_000)]
    told = torch_traces(tmp_path, steps, [0, 0], info={"world_size": 2})
    with pytest.raises(ConfigError, match="rank 1 is missing"):
        pipesched.read_traces(told[:1])
    alone = torch_traces(tmp_path, steps, [0, 0])[0]
    content = json.loads(alone.read_text())
    content["traceEvents"].append({**content["traceEvents"][-1], "name": "PP:0SEND_F0", "dur": 0.001})
    alone.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="no file has stage 1"):
        pipesched.read_traces([alone])


def test_communication_and_unfinished_steps_do_not_count(tmp_path: Path) -> None:
    """SEND, RECV and the like are no operations; a last step that was cut off is left out on every rank."""
    files = one_run(tmp_path)
    plain = pipesched.read_traces(files)
    content = json.loads(files[0].read_text())
    content["traceEvents"] += [
        {**content["traceEvents"][-1], "name": name, "dur": 1}
        for name in ("PP:0SEND_F0", "PP:0UNSHARD", "PP:0WAIT_SEND_F0", "PP:0WAIT_REDUCE_GRAD")
    ]
    last = content["traceEvents"][-5]["ts"]
    content["traceEvents"].append({**content["traceEvents"][1], "ts": last + 1e6})
    files[0].write_text(json.dumps(content))
    found = pipesched.read_traces(files)
    assert (found.costs, found.steps) == (plain.costs, plain.steps)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "no trace of a run"),
        ("[1", "no JSON document"),
        ('{"traceEvents": []}', "no range that is named like PP:2F0"),
        (
            '{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "PP:0F0", "ts": 1, "dur": 2}]}',
            "whose it is",
        ),
        (
            '{"distributedInfo": {"rank": 0}, "traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "PP:0F0",'
            ' "ts": "x", "dur": 2}]}',
            "must be a time",
        ),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    """What is no trace is bad input, with what is wrong."""
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        pipesched.read_traces([tmp_path / "trace.json"])


def test_a_plan_of_another_step(tmp_path: Path) -> None:
    """A plan must have the sizes and the placement that were measured."""
    files = one_run(tmp_path)
    for other, message in ((made("1f1b", 2, 1, 5), "5 microbatches"), (made("interleaved", 2, 2, 4), "4 stages")):
        with pytest.raises(ConfigError, match=message):
            pipesched.read_traces(files, plan=other)


def test_planned_costs_in_the_unit_of_the_trace(tmp_path: Path) -> None:
    """A plan in ms stands beside a trace in us: its costs and its chart are converted."""
    problem = pipesched.make_problem(devices=2, microbatches=4, forward=0.001, backward=0.0015, time_unit="ms")
    plan = pipesched.run(problem, "1f1b")
    timeline = pipesched.read_traces(one_run(tmp_path), plan=plan)
    assert {(cost.kind, cost.planned) for cost in timeline.costs} == {("F", 1), ("B", 1.5)}
    assert timeline.plan is not None
    assert timeline.plan.schedule.makespan == pytest.approx(plan.schedule.makespan * 1000)
    assert timeline.plan.problem.ticks.per_unit == timeline.problem.ticks.per_unit
    assert check(timeline.plan) == []


@pytest.mark.parametrize(
    ("algorithm", "options"), [("1f1b", {"offload": "full"}), ("1f1b", {"recompute": "full"}), ("dualpipe", {})]
)
def test_everything_that_our_runtime_runs(tmp_path: Path, algorithm: str, options: dict[str, Any]) -> None:
    """Offloads and loads stand on lanes, recomputes among the slots, and two copies of each stage are told."""
    problem = pipesched.make_problem(
        devices=2, microbatches=4, forward=3, backward=5, recompute=2, offload=1, reload=2, time_unit="us"
    )
    outcome = pipesched.run(problem, algorithm, **options)
    document = json.loads(pipesched.write(outcome, tmp_path / "plan.json").read_text())
    clocks = [0, 1_234_567]
    files = []
    for rank, clock in enumerate(clocks):
        rows = [*document["devices"][rank], *document.get("transfers", [[], []])[rank]]
        events: list[dict[str, Any]] = []
        for step in range(3):
            for row in rows:
                start, end = ((row[key] * 1000 + step * 10**6 + clock) / 1000 for key in ("start", "end"))
                event = {"ph": "X", "cat": "user_annotation", "tid": 1}
                events.append({**event, "name": f"PP:{row['op']}", "ts": start, "dur": end - start})
                events.append({**event, "name": f"WAIT:{row['op']}", "ts": start - 0.001, "dur": 0.001})
        files.append(tmp_path / f"trace{rank}.json")
        files[-1].write_text(json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": events}))
    timeline = pipesched.read_traces(files, plan=outcome)
    assert check(timeline.outcome) == []
    assert timeline.offsets[1] == pytest.approx(clocks[1] / 1000, abs=2e-3)
    assert timeline.schedule.offloaded == outcome.schedule.offloaded
    assert timeline.schedule.recomputed == outcome.schedule.recomputed
    assert timeline.problem.settled_placement == outcome.problem.settled_placement
    assert all(cost.median == pytest.approx(cost.planned, abs=1e-6) for cost in timeline.costs)
    back = pipesched.read(pipesched.write(timeline.outcome, tmp_path / "measured.json"))
    assert isinstance(back, pipesched.Outcome)
    assert check(back) == []
    assert back.schedule.makespan == timeline.makespan


@pytest.mark.parametrize("apart", [True, False])
def test_microbatches_that_differ(tmp_path: Path, apart: bool) -> None:
    """With a plan that says so costs and memory are tables, planned costs medians; else they are as of alike ones."""
    outcome = sized(forward=2, backward=3, sizes={"work": [1, 2, 3, 4, 5, 9], "activation": [1, 2, 3, 4, 5, 6]})
    works = {"F": 2000, "B": 3000}

    def length(op: Any) -> int:
        return int(works[op.kind] * [1, 2, 3, 4, 5, 9][op.microbatch] + 30)

    steps = [replayed(outcome.schedule, length, lambda _a, _b: 50, 10**6 * step) for step in range(3)]
    files = torch_traces(tmp_path, steps, [0, 5, -3, 100], apart=apart)
    timeline, alone = pipesched.read_traces(files, plan=outcome), pipesched.read_traces(files)
    assert check(timeline.outcome) == check(alone.outcome) == []
    assert timeline.schedule.memory == outcome.schedule.memory == [18, 15, 11, 6]
    assert {cost.planned for cost in timeline.costs} == {7, 10.5}
    assert not alone.problem.has_units
    rough = "clocks are told by equal times of a kind, and microbatches differ: waiting and clocks are rough"
    assert timeline.notes == [] if apart else [rough]
    if apart:
        assert timeline.offsets == pytest.approx([0, 0.005, -0.003, 0.1])
        assert timeline.problem.costs.forward == ((2.03, 4.03, 6.03, 8.03, 10.03, 18.03),) * 4
        assert timeline.makespan >= timeline.explanation.bound.value
        (tmp_path / "measured.yaml").write_text(config_text(timeline))
        config = pipesched.load(tmp_path / "measured.yaml")
        assert config.costs.forward == timeline.problem.costs.forward
        assert config.memory == timeline.problem.memory


def test_traces_and_plans_of_slices(tmp_path: Path) -> None:
    """Neither is read beside whole microbatches; nor a plan of forwards alone beside backwards."""
    files = one_run(tmp_path)
    cut = pipesched.make_problem(devices=2, microbatches=4, slices=2)
    for problem, algorithm, message in (
        (cut, "seq-1f1b", "has 2 slices a microbatch, but the traces have whole ones"),
        (
            replace(cut, slices=Slices(), mode="forward"),
            "naive",
            "has forwards alone, but the traces have backwards too",
        ),
    ):
        with pytest.raises(ConfigError, match=message) as error:
            pipesched.read_traces(files, plan=pipesched.run(problem, algorithm))
        assert error.value.key == "plan"
    files[0].write_text(files[0].read_text().replace("PP:0F1", "PP:0F1.0"))
    with pytest.raises(ConfigError, match=r"0F1\.0 is of a slice; traces .* are not read"):
        pipesched.read_traces(files)


def test_forward_passes_alone(tmp_path: Path) -> None:
    """Traces of forwards alone beside a plan of them."""
    outcome = forwards(3)
    steps = [replayed(outcome.schedule, lambda _: 4100, begin=begin) for begin in (0, 10**6)]
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, [0, 7, 9, 11], apart=True), plan=outcome)
    assert check(timeline.outcome) == []
    assert timeline.makespan == 24.6
    assert timeline.problem.mode == "forward"


@pytest.mark.parametrize("order", [[7, 0, 3, 1, 2, 6, 4, 5], [4, 5, 6, 7, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7]])
def test_microbatches_that_go_the_second_way(tmp_path: Path, order: list[int]) -> None:
    """Which enter at the other end follows from where they ran."""
    outcome = pipesched.run(pipesched.make_problem(devices=4, microbatches=8), "chimera", order=order)
    steps = [replayed(outcome.schedule, lambda _: 1000, begin=begin) for begin in (0, 10**6)]
    files = torch_traces(tmp_path, steps, [0, 7, 9, 11], apart=True)
    planned, alone = pipesched.read_traces(files, plan=outcome), pipesched.read_traces(files)
    assert planned.problem.placement == outcome.problem.placement
    assert check(planned.outcome) == check(alone.outcome) == []
    assert (alone.problem.placement == outcome.problem.placement) == (order[0] != 4)  # else devices are the other way


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
    """The message says so, and what to do; waits alone are no operations of GPipe."""
    for name in ("gloo:send", "WAIT:0F0"):
        files = kineto(tmp_path, ran(), lambda _, name=name: name)  # type: ignore[misc]
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
