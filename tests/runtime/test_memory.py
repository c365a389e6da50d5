"""Live bytes follow the plan: measured at PyTorch's allocator, which knows nothing of the runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import pipesched
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.ops import parse_op
from tests.runtime_ranks import Pool
from tests.solved import solved
from tests.torch_ranks import needs_torch

pytestmark = needs_torch
DEVICES, MICROBATCHES = 2, 6


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Two processes."""
    ranks = Pool(DEVICES, tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.stop()


def problem(**more: Any) -> pipesched.Problem:
    """One stage a device, activations in units of one, checkpoints as small as the boundaries of the stages."""
    return pipesched.make_problem(
        devices=DEVICES, stages=DEVICES, microbatches=MICROBATCHES, placement="linear", forward=1, backward=2,
        offload=1, activation=1, checkpoint=0, **more,
    )  # fmt: skip


def saving(budget: int, *, offload: bool, recompute: bool) -> Schedule:
    """The best schedule within a budget."""
    name = f"budget-{budget}" + "-offload" * offload + "-recompute" * recompute
    return solved(name, problem(budget=budget), time_limit=3, offload=offload, recompute=recompute).schedule


def metered(pool: Pool, schedule: Schedule) -> list[Any]:
    """What each rank had allocated."""
    from tests.runtime.meters import meter

    return pool.run(DEVICES, meter, schedule, DEVICES, MICROBATCHES)


def activation_of(pool: Pool) -> int:
    """The bytes of one activation: what the first forward of rank 0 leaves behind its input and output are sent."""
    ran = metered(pool, pipesched.run(problem(), "naive").schedule)
    levels = dict(ran[0].operations)
    return int((levels["0F5"] - levels["0F0"]) / 5)


SOLVED = {"budget 1, offload": (1, "offload"), "budget 2, both": (2, "both"), "budget 1, recompute": (1, "recompute")}


@pytest.mark.parametrize("name", ["1f1b", "naive", *SOLVED])
def test_peaks_are_the_plans(pool: Pool, name: str) -> None:
    """The largest level behind an operation is that of the plan, within 10 %; nothing is left behind a step."""
    if name in SOLVED:
        budget, what = SOLVED[name]
        schedule = saving(budget, offload=what != "recompute", recompute=what != "offload")
    else:
        schedule = pipesched.run(problem(), name).schedule
    unit = activation_of(pool)
    for device, rank in enumerate(metered(pool, schedule)):
        peak = max(level for _, level in rank.operations)
        assert peak <= 1.1 * unit * schedule.peak_memory[device]
        assert peak >= 0.9 * unit * _held_behind_operations(schedule, device)
        assert rank.left == 0
        assert rank.reported["live_bytes"] == 0


def _held_behind_operations(schedule: Schedule, device: int) -> int:
    """The most whole activations that the plan holds on a device between two operations of its order."""
    level = most = 0
    slots = [parse_op(str(slot)) for slot in schedule.plan.slots(device)]
    recomputed = {slot[::2] for slot in slots if slot.kind == "R"}
    for slot in slots:
        level += {"F": slot[::2] not in recomputed, "R": True, "B": -1}[slot.kind]
        most = max(most, level)
    offloads = sum(len(pair.offloads) for pair in schedule.plan.lanes)
    return 1 if offloads else most


def test_offload_load_and_recompute_move_what_they_say(pool: Pool) -> None:
    """O frees an activation, L brings the same bytes back, and R takes what F left out; the host gets these bytes."""
    unit = activation_of(pool)
    kinds = {"offload": "OL", "recompute": "R"}
    for what, letters in kinds.items():
        schedule = saving(1, offload=what == "offload", recompute=what == "recompute")
        ran = metered(pool, schedule)
        changes: dict[str, list[int]] = {letter: [] for letter in letters}
        for rank in ran:
            levels = [0, *(level for _, level in rank.operations)]
            for (op, level), before in zip(rank.operations, levels, strict=False):
                if op[1] in changes:
                    changes[op[1]].append(level - before)
        assert all(changes.values())
        for change in changes.get("O", []):
            assert change == pytest.approx(-unit, rel=0.02)
        for change in [*changes.get("L", []), *changes.get("R", [])]:
            assert change == pytest.approx(unit, rel=0.02)
        if what == "offload":
            assert sum(changes["L"]) == pytest.approx(sum(sum(rank.host_bytes) for rank in ran), rel=0.01)
            fractions = [rank.reported["freed_fraction"] for rank in ran]
            assert {fraction for fraction in fractions if fraction is not None} == {1.0}
