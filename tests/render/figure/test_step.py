"""Figures of schedules whose step has more than passes: rows of network lanes, optimizers, side work."""

from __future__ import annotations

from typing import Any

import pytest

import pipesched
from pipesched.render.figure.draw import image_of
from pipesched.render.palette import colour_of
from pipesched.render.view import View
from tests.render.figure.conftest import Picture, texts
from tests.stepped import SHARDED, SIDE, TIED

CASES = [("1f1b", TIED), ("interleaved", SHARDED)]


@pytest.mark.parametrize(("name", "given"), CASES)
def test_network_lanes_are_rows_below_their_devices(name: str, given: dict[str, Any]) -> None:
    """Every gather and reduction has the colour of its kind and chunk at its time."""
    outcome = pipesched.run(pipesched.make_problem(**given), name)
    schedule = outcome.schedule
    seen = Picture(image_of(outcome, View(label="none"), "png"))
    devices, chunks = schedule.problem.devices, schedule.problem.stages // schedule.problem.devices
    assert len(seen.bands) == 2 * devices
    for device, program in enumerate(schedule.network):
        for op, start, end, _ in program:
            if op.kind != "RESHARD":
                middle = (start + end) / 2 / schedule.makespan
                colour = colour_of(None, op.kind, op.stage // devices, chunks)
                assert seen.at(2 * device + 1, middle) == colour, f"{op}"


def test_names_and_legend() -> None:
    """Lanes and kinds have names; what is of no microbatch is labelled by its stage."""
    found = texts(image_of(pipesched.run(pipesched.make_problem(**TIED), "1f1b"), View(), "svg"))
    assert found.count("net") == 4
    assert {"gather weights", "reduce gradients", "reduce tied gradients", "optimizer"} <= {*found}
    assert not {"0OPTIMIZER", "0REDUCE_GRAD"} & {*found}


def test_side_work() -> None:
    """Side work stands in the rows of devices, by its texts where all slots have theirs."""
    given = {**SIDE, "devices": 2, "microbatches": 2}
    found = texts(image_of(pipesched.run(pipesched.make_problem(**given), "1f1b"), View(label="op"), "svg"))
    assert {"0E0", "0E1", "0G0", "0G1", "side forward", "side backward"} <= {*found}
    assert "net" not in found
