"""The trace holds what the format asks for, and says what the schedule says."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import Schedule
from pipesched.documents.json_text import dump
from pipesched.file_formats.chrome_trace import COLOURS, document
from pipesched.pipeline.problem.kinds import ALL_KINDS
from tests.oracle.alike import device_of, inputs, parts, replay
from tests.stepped import SMALL
from tests.strategies import SETTLED, Texts, plan_of, problems, random_plan, random_saving_plan, saving_plan_of

Event = dict[str, Any]
REQUIRED = {  # the fields that the format asks for, by phase
    "M": {"name", "ph", "pid", "tid", "args"},
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"},
    "s": {"name", "cat", "ph", "id", "ts", "pid", "tid"},
    "f": {"name", "cat", "ph", "id", "ts", "pid", "tid", "bp"},
    "C": {"name", "ph", "ts", "pid", "args"},
}
# Of the viewer's reserved names; any other is an error there.
RESERVED = {
    *("rail_response", "rail_idle", "rail_load", "rail_animation", "thread_state_iowait"),
    *("detailed_memory_dump", "light_memory_dump", "background_memory_dump"),
    *("yellow", "terrible", "bad", "grey", "good", "olive", "cq_build_running"),
}


def trace(algorithm: str = "1f1b", **values: Any) -> dict[str, Any]:
    """The trace of an algorithm's schedule, as it is read from its text."""
    problem = pipesched.make_problem(**{"devices": 4, "microbatches": 8, "forward": 5, "backward": 10, **values})
    content: dict[str, Any] = json.loads(dump(document(pipesched.run(problem, algorithm))))
    return content


def of(content: dict[str, Any], phase: str) -> list[Event]:
    """The events of one phase."""
    return [event for event in content["traceEvents"] if event["ph"] == phase]


def require_format(content: dict[str, Any]) -> None:
    """What the trace event format demands of every event, of threads and of flows."""
    assert set(content) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert content["displayTimeUnit"] in ("ms", "ns")
    last = 0
    slices = defaultdict(list)
    for event in content["traceEvents"]:
        assert REQUIRED[event["ph"]] <= set(event), event
        assert event["pid"] == 1
        if event["ph"] == "M":
            assert event["args"], event
            continue
        assert event["ts"] >= last, "times go back"
        last = event["ts"]
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["cname"] in RESERVED
            slices[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
    named = {event["tid"] for event in of(content, "M") if event["name"] == "thread_name"}
    assert {event["tid"] for phase in "Xsf" for event in of(content, phase)} <= named
    require_flows(content, slices)


def require_flows(content: dict[str, Any], slices: dict[int, list[tuple[float, float]]]) -> None:
    """Every flow has one start and one finish, later and on another thread, each within a slice."""
    starts, ends = ({event["id"]: event for event in of(content, phase)} for phase in "sf")
    assert starts.keys() == ends.keys()
    assert len(starts) == len(of(content, "s")) == len(of(content, "f"))
    for number, start in starts.items():
        end = ends[number]
        assert (start["name"], start["cat"]) == (end["name"], end["cat"])
        assert start["tid"] != end["tid"]
        assert start["ts"] <= end["ts"]
        assert end["bp"] == "e"
        for event in (start, end):
            assert any(left <= event["ts"] <= right for left, right in slices[event["tid"]])


@given(st.data())
def test_random_plans(data: st.DataObject) -> None:
    """Any legal plan: valid, every slot at its time by the naive replay, and an arrow for each result that travels."""
    problem = data.draw(problems(SETTLED, overlap=True))
    texts = random_plan(problem, Random(data.draw(st.integers(0, 999))), split=0.5, pair=0.5)
    schedule = pipesched.schedule_plan(problem, plan_of(problem, texts))
    content = document(pipesched.Outcome("random", schedule))
    require_format(content)
    times, scale = replay(problem, texts), problem.ticks.per_unit
    rows = [[event for event in of(content, "X") if event["tid"] == device + 1] for device in range(problem.devices)]
    assert [[event["name"] for event in row] for row in rows] == texts
    for row in rows:
        for event in row:
            op = f"{event['args']['stage']}{event['args']['kind'][0]}{event['args']['microbatch']}"
            assert event["ts"] == pytest.approx(float(Fraction(1000 * times.start[op], scale)))
            assert event["ts"] + event["dur"] == pytest.approx(float(Fraction(1000 * times.end[op], scale)))
    assert len(of(content, "s")) == travelling(problem, texts)


def travelling(problem: pipesched.Problem, texts: list[list[str]]) -> int:
    """How many results go to another device, to a lane or back from it, by the rules that the naive replay knows."""
    ops = {op for row in texts for slot in row for op in parts(slot)}
    home = {op: (device_of(problem, op.stage, op.microbatch), op.kind if op.kind in "OL" else "") for op in ops}
    return sum(home[source] != home[op] for op in ops for source, _ in inputs(problem, op, ops))


@given(st.data())
def test_random_plans_that_save_memory(data: st.DataObject) -> None:
    """Recomputes and transfers: each row at its times by the naive replay, its arrows, and counters up to the peaks."""
    problem = data.draw(problems(SETTLED, saving=True))
    random = Random(data.draw(st.integers(0, 999)))
    texts = random_saving_plan(problem, random, split=0.5, pair=0, recompute=0.3, offload=0.6, wait=0.1)
    content = document(pipesched.Outcome("random", pipesched.schedule_plan(problem, saving_plan_of(problem, texts))))
    require_format(content)
    times = replay(problem, texts.devices, texts.lanes, texts.waits)
    rows = defaultdict(list)
    for event in of(content, "X"):
        rows[event["tid"]].append(event["name"])
        start = Fraction(1000 * times.start[event["name"]], problem.ticks.per_unit)
        assert event["ts"] == pytest.approx(float(start))
        assert event["cat"] == event["args"]["kind"]
    assert sorted(rows.values()) == sorted(row for row in [*texts.devices, *texts.lanes] if row)
    assert len(of(content, "s")) == travelling(problem, [*texts.devices, *texts.lanes])
    highest = [Fraction(0)] * problem.devices
    for event in of(content, "C"):
        device, (level,) = int(event["name"].split()[-1]), event["args"].values()
        highest[device] = max(highest[device], level)
    assert highest == pytest.approx([float(peak / problem.grains.per_unit) for peak in times.peak])


def test_lanes_are_threads() -> None:
    """Lanes stand below their device; one that moves nothing is left out."""
    names = ["device 0", "device 0 D2H", "device 0 H2D", "device 1", "device 1 D2H", "device 1 H2D"]
    content = document(pipesched.Outcome("by hand", transferring()))
    metadata = [event for event in of(content, "M") if event["name"] == "thread_name"]
    assert [event["args"]["name"] for event in metadata] == [*names, "device 2"]
    assert [event["tid"] for event in metadata] == list(range(1, len(names) + 2))
    colours = {event["cname"] for event in of(content, "X") if event["cat"] in "ROL"}
    assert len(colours) == 3


def test_arrows_over_host_memory() -> None:
    """An offloaded activation can be followed from its forward out, back, and to its backward."""
    content = document(pipesched.Outcome("by hand", transferring()))
    threads = {event["tid"]: event["args"]["name"] for event in of(content, "M") if event["name"] == "thread_name"}
    arrows = {event["id"]: event for event in of(content, "s") if event["cat"] == "host"}
    ways = [(event["name"], threads[arrows[event["id"]]["tid"]], threads[event["tid"]])
            for event in of(content, "f") if event["id"] in arrows]  # fmt: skip
    assert sorted(ways) == [
        *[("in host memory", f"device {device} D2H", f"device {device} H2D") for device in (0, 1)],
        *[("load", f"device {device} H2D", f"device {device}") for device in (0, 1)],
        *[("offload", f"device {device}", f"device {device} D2H") for device in (0, 1)],
    ]


def transferring() -> Schedule:
    """Three devices, two microbatches: devices 0 and 1 offload microbatch 0, and device 0 recomputes the other."""
    problem = pipesched.make_problem(devices=3, microbatches=2, placement="linear", offload=1)
    devices = [["0F0", "0F1", "0B0", "0R1", "0B1"], ["1F0", "1F1", "1B0", "1B1"], ["2F0", "2B0", "2F1", "2B1"]]
    texts = Texts(devices, [["0O0"], ["0L0"], ["1O0"], ["1L0"], [], []], [])
    return pipesched.schedule_plan(problem, saving_plan_of(problem, texts))


def test_names_and_order_of_threads() -> None:
    """Devices are threads with their names, sorted by number, and the process has the algorithm's name."""
    metadata = of(trace(devices=12, stages=12, name="mine"), "M")
    names = {event["tid"]: event["args"]["name"] for event in metadata if event["name"] == "thread_name"}
    order = {event["tid"]: event["args"]["sort_index"] for event in metadata if event["name"] == "thread_sort_index"}
    assert [names[thread] for thread in sorted(names, key=order.__getitem__)] == [f"device {d}" for d in range(12)]
    assert [event["args"]["name"] for event in metadata if event["name"] == "process_name"] == ["1f1b  mine"]
    assert 0 not in names  # which viewers keep for the idle task


def test_arguments_of_a_slot_and_of_a_pair() -> None:
    """A slot says its operation; a pair says both, and has a colour of its own."""
    slots = {event["name"]: event for event in of(trace("1f1b-overlap", stages=4), "X")}
    assert slots["2F1"]["args"] == {"op": "2F1", "kind": "F", "stage": 2, "microbatch": 1}
    pair = next(event for name, event in slots.items() if name.endswith("OVERLAP_F_B"))
    forward, backward = parts(pair["name"])
    assert pair["args"] == {
        "op": pair["name"],
        "kind": "F&B",
        "stage": forward.stage,
        "microbatch": forward.microbatch,
        "backward_stage": backward.stage,
        "backward_microbatch": backward.microbatch,
    }
    colours = {event["args"]["kind"]: event["cname"] for event in slots.values()}
    assert len(set(colours.values())) == len(colours) == 3


def test_every_kind_has_a_colour() -> None:
    """No kind of operation is without one of the viewer's colours."""
    assert set(COLOURS) == {*ALL_KINDS, "F&B"} - {"RESHARD"}
    assert set(COLOURS.values()) == RESERVED


def test_network_lanes_are_threads() -> None:
    """A device that gathers or reduces has a thread for that below its own; a reduction says its stage alone."""
    content = trace(**SMALL)
    require_format(content)
    names = [event["args"]["name"] for event in of(content, "M") if event["name"] == "thread_name"]
    assert names == ["device 0", "device 0 network", "device 1", "device 1 network"]
    slots = {event["name"]: event for event in of(content, "X")}
    assert slots["1REDUCE_GRAD"]["args"] == {"op": "1REDUCE_GRAD", "kind": "REDUCE_GRAD", "stage": 1}
    assert slots["0UNSHARD0"]["args"] == {"op": "0UNSHARD0", "kind": "UNSHARD", "stage": 0, "turn": 0}
    assert (slots["0REDUCE_GRAD"]["tid"], slots["0OPTIMIZER"]["tid"]) == (2, 1)


def test_side_work_travels() -> None:
    """Its output goes to the first forward on another device, and the gradient comes back."""
    content = trace(devices=2, microbatches=2, side=[{"forward": 2, "backward": 4, "devices": [1]}])
    require_format(content)
    slots = {event["name"]: event for event in of(content, "X")}
    assert slots["0E1"]["args"] == {"op": "0E1", "kind": "E", "side": 0, "microbatch": 1}
    passes = trace(devices=2, microbatches=2)
    assert len(of(content, "s")) == len(of(passes, "s")) + 4


def test_memory_counters_reach_the_peaks() -> None:
    """A counter a device, in the problem's unit, ends at 0 and reaches the peak that the metrics name."""
    content = trace(unit="GB", activation=Decimal("1.5"))
    levels = defaultdict(list)
    for event in of(content, "C"):
        (unit,) = event["args"]
        assert unit == "GB"
        levels[event["name"]].append(event["args"]["GB"])
    assert {name: max(values) for name, values in levels.items()} == {
        f"memory of device {device}": 1.5 * (4 - device) for device in range(4)
    }
    for values in levels.values():
        assert values[-1] == 0
        assert all(before != after for before, after in pairwise(values)), "a counter that stays is not said again"


@pytest.mark.parametrize(
    ("unit", "start"),
    [("s", 5e6), ("ms", 5000), ("MS", 5000), ("us", 5), ("µs", 5), ("ns", 0.005), ("", 5000), ("cycles", 5000)],
)
def test_time_units(unit: str, start: float) -> None:
    """Times are microseconds of the unit that the label names; without one a unit counts as a millisecond, and the
    trace says so.
    """
    content = trace(time_unit=unit)
    second = of(content, "X")[1]
    assert second["ts"] == start
    assert content["otherData"]["time_unit"] == unit
    assert content["otherData"]["microseconds_per_time_unit"] == start / 5


def test_no_arrow_within_a_device() -> None:
    """One device, or neighbouring stages on one, need no arrows; every boundary between two has its own."""
    assert not of(trace(devices=1, stages=1), "s")
    content = trace("list", devices=2, stages=4, placement="linear", microbatches=3)
    assert sorted(event["name"] for event in of(content, "s")) == ["activation"] * 3 + ["gradient"] * 3
