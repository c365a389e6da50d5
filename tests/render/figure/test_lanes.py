"""Figures of schedules that recompute and offload: stripes, and rows of lanes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import pipesched
from pipesched import Schedule
from pipesched.render.figure.chart import stripes
from pipesched.render.palette import colour_of, stripe_of
from tests.render.figure.conftest import GREY, IDLE, Picture, image, picture, texts, texts_of
from tests.stepped import SHARDED, SIDE, TIED
from tests.strategies import Texts, saving_plan_of


def drawn(kind: str, **view: Any) -> tuple[Schedule, bytes]:
    """Two devices; device 0 recomputes microbatch 1 and offloads 0 and 2, device 1 offloads 1."""
    costs: dict[str, Any] = {"forward": 4, "backward": 8, "recompute": 4, "offload": 4}
    problem = pipesched.make_problem(devices=2, microbatches=3, placement="linear", **costs)
    devices = [["0F0", "0F1", "0B0", "0F2", "0R1", "0B1", "0B2"], ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]]
    texts = Texts(devices, [["0O0", "0O2"], ["0L0", "0L2"], ["1O1"], ["1L1"]], [])
    schedule = pipesched.schedule_plan(problem, saving_plan_of(problem, texts))
    return schedule, image(pipesched.Outcome("by hand", schedule), kind, **view)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [False, True])
def test_lanes_are_rows_below_their_devices(memory: bool) -> None:
    """Every transfer has its colour at its time, in thinner rows below their device."""
    schedule, png = drawn("png", label="none", memory=memory)
    seen, plan = Picture(png), schedule.plan
    starts, ends = schedule.start_ticks, schedule.end_ticks
    rows = [plan.orders[0], *plan.lanes[0], plan.orders[1], *plan.lanes[1]]
    assert len(seen.bands) == len(rows)
    heights = [bottom - top for top, bottom in seen.bands]
    for place, row in enumerate(rows):
        is_device = any(row is order for order in plan.orders)
        assert heights[place] == pytest.approx(heights[0] * (1 if is_device else 0.55), abs=2)
        for task in row:
            op, middle = plan.index.op(task), (starts[task] + ends[task]) / 2 / schedule.makespan_ticks
            assert op.kind == "R" or seen.at(place, middle) == colour_of(op.microbatch, op.kind), f"{op}"
        for before, after in pairwise(row):
            if ends[before] < starts[after]:
                assert seen.at(place, (ends[before] + starts[after]) / 2 / schedule.makespan_ticks) == IDLE
    assert (seen.count(GREY) > 5000) == memory


def test_names_and_legend() -> None:
    """Rows and kinds have names."""
    found = texts(drawn("svg")[1])
    assert [found.count(name) for name in ("D2H", "H2D", "0O2", "1L1", "0R1")] == [2, 2, 1, 1, 1]
    assert {"recompute", "offload", "load back"} <= set(found)
    plain = texts_of(pipesched.run(pipesched.make_problem(devices=2), "1f1b"))
    assert not {"recompute", "offload", "load back", "D2H"} & set(plain)


def test_recomputes_are_striped_the_other_way() -> None:
    """Lines fall in a recompute and rise in a weight gradient, so that they differ without colours."""
    dark = "stroke: #{:02x}{:02x}{:02x}; stroke-width: 0.5".format(*stripe_of(colour_of(0, "R")))
    rising, falling = list(stripes(20, 10)), list(stripes(20, 10, falling=True))
    assert len(rising) == len(falling) == 6
    assert all(left[1] < right[1] for left, right in rising[:-1])
    assert all(left[1] > right[1] for left, right in falling[:-1])
    assert all(0 <= x <= 20 and 0 <= y <= 10 for ends in falling for x, y in ends)
    assert drawn("svg")[1].count(dark.encode()) > 3


CASES = [("1f1b", TIED), ("interleaved", SHARDED)]


@pytest.mark.parametrize(("name", "given"), CASES)
def test_network_lanes_are_rows_below_their_devices(name: str, given: dict[str, Any]) -> None:
    """Every gather and reduction has the colour of its kind and chunk at its time."""
    schedule = pipesched.run(pipesched.make_problem(**given), name).schedule
    seen = picture(schedule)
    devices, chunks = schedule.problem.devices, schedule.problem.stages // schedule.problem.devices
    assert len(seen.bands) == 2 * devices
    for device, program in enumerate(schedule.network):
        for op, start, end, _ in program:
            if op.kind != "RESHARD":
                middle = (start + end) / 2 / schedule.makespan
                colour = colour_of(None, op.kind, op.stage // devices, chunks)
                assert seen.at(2 * device + 1, middle) == colour, f"{op}"


LANES = {"net", "gather weights", "reduce gradients", "reduce tied gradients", "optimizer"}
SIDE_TEXTS = {"0E0", "0E1", "0G0", "0G1", "side forward", "side backward"}


@pytest.mark.parametrize(
    ("algorithm", "given", "view", "there", "gone"),
    [
        ("1f1b", TIED, {}, LANES, {"0OPTIMIZER", "0REDUCE_GRAD"}),
        ("1f1b", {**SIDE, "devices": 2, "microbatches": 2}, {"label": "op"}, SIDE_TEXTS, {"net"}),
        ("seq-1f1b", {"devices": 4, "microbatches": 4, "slices": 4}, {}, {"0.3", "3.0", "slices 0, 1, 2, .."}, {"4.0"}),
    ],
    ids=["network lanes", "side work", "slices"],
)
def test_names_of_what_few_have(
    algorithm: str, given: dict[str, Any], view: dict[str, Any], there: set[str], gone: set[str]
) -> None:
    """Lanes of a step, side work and slices have their names in a figure, its legend and its labels."""
    found = set(texts_of(pipesched.run(pipesched.make_problem(**given), algorithm), **view))
    assert there <= found
    assert found.isdisjoint(gone)
