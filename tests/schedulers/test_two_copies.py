"""DualPipe, DualPipe-V and BitPipe: the published orders, and what they idle and hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import Outcome, Placement, make_problem, run
from tests.examples import at_night_but
from tests.strategies import texts_of

UNIT: dict[str, Any] = {"backward_input": 1, "backward_weight": 1, "activation": 1}
Lane = tuple[int, int]  # the stage of a phase, and its first microbatch


def deepseek(half: int, rank: int, count: int) -> list[str]:
    """The eight steps of a rank, as kinds and phases, for `count` microbatches a phase (at least 2 * half)."""
    outer, inner = half - rank - 1, rank + 1
    main = ["F0B1", "F1B0"] * (count - 2 * half + inner)
    if outer == 0:
        main[:1] = ["F0", "B1"]
    last = [f"{kind}{phase}" for kind, phase in zip("B" * inner + "I" * inner, "10" * inner, strict=True)]
    return [
        *["F0"] * (2 * outer), *["F0", "F1"] * inner, *["I1", "W", "F1"] * outer, *main, *["B1", "F1B0"] * outer,
        *last, *["W", "I0"] * outer, *["W"] * inner,
    ]  # fmt: skip


def spelled(steps: list[str], lanes: list[Lane]) -> list[str]:
    """The steps with stages and microbatches: every phase takes its own in turn, W the oldest that waits."""
    turn = {(kind, phase): 0 for kind in "FB" for phase in "01"}
    waiting: list[str] = []
    texts = []
    for step in steps:
        ops = []
        for kind, phase in zip(step[::2], step[1::2], strict=False):
            stage, first = lanes[int(phase)]
            counter = ("F" if kind == "F" else "B", phase)
            ops.append(f"{stage}{kind}{first + turn[counter]}")
            turn[counter] += 1
        waiting += [op.replace("I", "W") for op in ops if "I" in op]
        ops = ops or [waiting.pop(0)]
        texts.append(ops[0] if len(ops) == 1 else f"({ops[0]};{ops[1]})OVERLAP_F_B")
    return texts


@pytest.mark.parametrize("devices", at_night_but((2, 6), range(2, 17, 2)))
def test_dualpipe_is_deepseeks(devices: int) -> None:
    """Operation by operation, for every even number of devices and every even M >= 2P."""
    half = devices // 2
    for microbatches in [*range(2 * devices, 3 * devices + 1, 2), 5 * devices]:
        each = microbatches // 2
        expected = []
        for device in range(devices):
            down, up = (device, 0), (devices - 1 - device, each)
            lanes = [down, up] if device < half else [up, down]
            expected.append(spelled(deepseek(half, min(device, devices - 1 - device), each), lanes))
        problem = make_problem(devices=devices, microbatches=microbatches)
        assert texts_of(run(problem, "dualpipe").schedule.plan) == expected


@pytest.mark.parametrize("devices", at_night_but((1, 4), range(1, 10)))
def test_dualpipe_v_is_deepseeks(devices: int) -> None:
    """Operation by operation, for every number of devices, odd ones too, and every M >= 2P."""
    for microbatches in [*range(2 * devices, 3 * devices + 2), 5 * devices + 1]:
        expected = [
            spelled(deepseek(devices, device, microbatches), [(device, 0), (2 * devices - 1 - device, 0)])
            for device in range(devices)
        ]
        problem = make_problem(devices=devices, stages=2 * devices, microbatches=microbatches)
        assert texts_of(run(problem, "dualpipe-v").schedule.plan) == expected


@pytest.mark.parametrize("devices", at_night_but((2, 6), range(2, 17, 2)))
def test_dualpipe_of_few_microbatches(devices: int) -> None:
    """Any even M: a checked schedule, at most P+1 activations, at worst 5 % behind ZB-1P, whose memory is P."""
    for microbatches in range(2, 3 * devices + 1, 2):
        problem = make_problem(devices=devices, microbatches=microbatches, **UNIT)
        schedule = run(problem, "dualpipe").schedule
        assert max(schedule.peak_grains) <= min(microbatches, devices + 1)
        assert schedule.makespan_ticks <= 1.05 * run(problem, "zb-1p").schedule.makespan_ticks
        assert schedule.makespan_ticks >= schedule.ideal_ticks == 3 * microbatches


@pytest.mark.parametrize("devices", at_night_but((1, 4), range(1, 10)))
def test_dualpipe_v_of_few_microbatches(devices: int) -> None:
    """Any M: a checked schedule, at most 2P+1 chunks, at worst 8 % behind ZB-1P of the fused stages."""
    for microbatches in range(1, 3 * devices + 1):
        problem = make_problem(devices=devices, stages=2 * devices, microbatches=microbatches, **UNIT)
        schedule = run(problem, "dualpipe-v").schedule
        assert max(schedule.peak_grains) <= min(2 * microbatches, 2 * devices + 1)
        assert schedule.makespan_ticks <= 1.08 * run(problem, "zb-1p").schedule.makespan_ticks
        assert schedule.makespan_ticks >= schedule.ideal_ticks == 6 * microbatches


@pytest.mark.parametrize(("name", "per_stage"), [("dualpipe", 1), ("dualpipe-v", 2)])
def test_idle_time_as_published(name: str, per_stage: int) -> None:
    """(P/2-1)(F&B + B - 3w) at f = b = w, here 2(P/2-1), on each device; cut in half it is that of 2P devices."""
    for devices in (2, 4, 8, 16):
        for microbatches in (2 * devices, 2 * devices + 6, 5 * devices):
            problem = make_problem(devices=devices, stages=per_stage * devices, microbatches=microbatches, **UNIT)
            schedule = run(problem, name).schedule
            assert schedule.idle_ticks == [2 * (per_stage * devices // 2 - 1)] * devices


DEEPSPEED = """
0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7B0 7F1 7B1 7F2 7B2 7F3 0F7 7B3 7F4 0B0 7B4 7F5 0B1 7B5 7F6 0B2 7B6 7F7 0B3 7B7 0B4
0B5 0B6 0B7
"""


@pytest.mark.parametrize(("devices", "microbatches", "makespan"), [(4, 8, 295), (4, 12, 415), (2, 4, 135)])
def test_whole_backwards_last_as_deepspeeds_instructions(devices: int, microbatches: int, makespan: int) -> None:
    """DeepSpeed 0.19.8 keeps gradients of weights in its backwards; every device holds 2P + 1 chunks."""
    problem = make_problem(devices=devices, stages=2 * devices, microbatches=microbatches, forward=5, backward=10)
    schedule = run(problem, "dualpipe-v-whole").schedule
    assert (schedule.makespan, schedule.peak_memory) == (makespan, [devices + 0.5] * devices)
    assert makespan == 2 * microbatches * 15 + (4 * devices - 5) * 5
    if (devices, microbatches) == (4, 8):
        assert texts_of(schedule.plan)[0] == DEEPSPEED.split()


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
