"""BitPipe: the published orders, and what it idles and holds."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched import Outcome, make_problem, run
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.problem.placement import Placement

# The first two devices of the figures of P = 4, M = 4 and 8 in the authors' repository (docs/BitPipe_images: BitPipe-v
# and scale-moreb); the others are theirs in the other direction.
FIGURES = {
    4: [
        "0F0 0F1 3F2 4F2 3F3 4F3 7F0 7B0 7F1 7B1 4B2 3B2 4B3 3B3 0B0 0B1",
        "1F0 2F2 1F1 2F3 5F2 6F0 5F3 6F1 6B0 5B2 6B1 5B3 2B2 1B0 2B3 1B1",
    ],
    8: [
        "0F0 0F1 3F4 4F4 3F5 4F5 7F0 7B0 7F1 7B1 4B4 3B4 4B5 3B5 0B0 0F2"
        " 0F3 0B1 3F6 4F6 3F7 4F7 7F2 7B2 7F3 7B3 4B6 3B6 4B7 3B7 0B2 0B3",
        "1F0 2F4 1F1 2F5 5F4 6F0 5F5 6F1 6B0 5B4 6B1 5B5 2B4 1B0 2B5 1B1"
        " 1F2 2F6 1F3 2F7 5F6 6F2 5F7 6F3 6B2 5B6 6B3 5B7 2B6 1B2 2B7 1B3",
    ],
}


def chunks(devices: int, microbatches: int, backward: int = 2) -> Outcome:
    """Two stages a device, of a forward of 1 and an activation of 1 each."""
    problem = make_problem(
        devices=devices, stages=2 * devices, microbatches=microbatches, forward=1, backward=backward, activation=1
    )
    return run(problem, "bitpipe")


@pytest.mark.parametrize(("microbatches", "makespan"), [(4, 28), (8, 53)])
def test_the_published_figures(microbatches: int, makespan: int) -> None:
    """P = 4 with B = 2F: the orders of the figures; timed, so many forwards, and 7 or 8 chunks on a device."""
    schedule = chunks(4, microbatches).schedule
    assert schedule.problem.placement == Placement((0, 1, 2, 3, 3, 2, 1, 0), mirrored=True)
    rows = [" ".join(map(str, schedule.plan.slots(device))) for device in range(4)]
    assert rows[:2] == FIGURES[microbatches]
    half = microbatches // 2
    theirs = [[op[:2] + str((int(op[2:]) + half) % microbatches) for op in row.split()] for row in rows[:2]]
    assert [row.split() for row in rows[:1:-1]] == theirs
    assert schedule.makespan == makespan
    assert schedule.peak_memory == [7, 8, 8, 7]


@given(st.integers(1, 6), st.integers(1, 4))
def test_what_it_idles_and_holds(half: int, units: int) -> None:
    """Of our orders: at B = f half of Chimera's bubble; at B = 2f 2(P-2) forwards, and P-3 more a further unit."""
    devices = 2 * half
    microbatches = units * devices
    even, double = (chunks(devices, microbatches, backward).schedule for backward in (1, 2))
    assert even.bubble == pytest.approx((devices - 2) / (4 * microbatches + devices - 2), abs=1e-15)
    assert double.makespan - double.ideal == 2 * (devices - 2) + max(devices - 3, 0) * (units - 1)
    assert double.peak_memory == [3 * half + 1 + min(device, devices - 1 - device) for device in range(devices)]


def test_static_memory_counts_both_copies() -> None:
    """Device d has the stages d, 2P-1-d, P-1-d and P+d: both copies of every stage are somewhere."""
    static = [1, 2, 4, 8, 16, 32, 64, 128]
    problem = make_problem(devices=4, stages=8, microbatches=4, static=static, budget=500)
    schedule = run(problem, "bitpipe").schedule
    own = [schedule.problem.static_grains(device) // schedule.problem.grains.per_unit for device in range(4)]
    assert own == [1 + 128 + 8 + 16, 2 + 64 + 4 + 32, 4 + 32 + 2 + 64, 8 + 16 + 1 + 128]
    assert schedule.fits
    tight = make_problem(devices=4, stages=8, microbatches=4, static=static, budget=154)
    assert not run(tight, "bitpipe").schedule.fits


def test_what_it_does_not_take() -> None:
    """A single device, a placement of another kind, and a step are refused, each with its key."""
    with pytest.raises(NotApplicable, match=r"^bitpipe needs an even number of devices, for instance 2, not 1") as one:
        run(make_problem(devices=1, stages=2), "bitpipe")
    with pytest.raises(
        NotApplicable, match=r"on devices \[0, 1, 1, 0\] in both directions, not \[0, 1, 1, 0\]; "
    ) as way:
        run(make_problem(devices=2, stages=4, placement="v"), "bitpipe")
    with pytest.raises(NotApplicable, match="two copies of each stage") as step:
        run(make_problem(devices=2, stages=4, reduce=1), "bitpipe")
    with pytest.raises(ConfigError, match="two copies of each stage"):
        make_problem(devices=2, stages=4, reduce=1, placement="bidirectional")
    assert [caught.value.key for caught in (one, way, step)] == ["devices", "placement", "placement"]
