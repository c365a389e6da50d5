"""A trained schedule gives the gradients of the whole model, and holds the memory that it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import Schedule
from pipesched.documents.schedule import document
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.ops import parse_op
from pipesched.schedulers.registry import FAMILIES
from tests.examples import at_night_but
from tests.runtime.random_plans import made, random_schedule, sizes_of
from tests.runtime_ranks import Pool, pool_of
from tests.solved import solved
from tests.torch_ranks import needs_torch

TOLERANCE = 1e-9  # the model is in float64
pytestmark = needs_torch


pool = pool_of(4)


def assert_trains(
    pool: Pool, schedule: Schedule, *, exact: bool = False, source: Any = None, steps: int = 2, unequal: bool = False
) -> list[Any]:
    """Every rank runs its operations in order, and the steps (with dropout) are those of the model in one piece.

    Microbatches may be of unequal shapes, others in each step, and their losses weigh by rows.
    """
    from tests.runtime.models import train

    problem = schedule.problem
    given = schedule if source is None else source
    ran = pool.run(problem.devices, train, given, steps, sizes_of(problem.microbatches) if unequal else None)
    for device, rank in enumerate(ran):
        slots = [op for op in rank.executed if not KINDS[op.lstrip("0123456789")[0]].is_transfer]
        texts = [str(slot) for slot in schedule.plan.slots(device)]
        assert slots == ",".join(texts).replace("(", "").replace(")OVERLAP_F_B", "").replace(";", ",").split(",")
        moved = {str(entry["op"]) for entry in rank.report["operations"]} - set(slots)
        assert len(rank.executed) == len(slots) + len(moved)
        assert rank.report["live_bytes"] == 0
    limit = 0.0 if exact else TOLERANCE
    assert max(rank.gradients for rank in ran) <= limit
    assert max(rank.losses for rank in ran) <= limit
    assert sorted(microbatch for rank in ran for microbatch in rank.microbatches) == list(range(problem.microbatches))
    return ran


@pytest.mark.parametrize("devices", at_night_but((2,), (2, 4)))
@pytest.mark.parametrize("algorithm", FAMILIES)
def test_every_family(pool: Pool, tmp_path: Path, algorithm: str, devices: int) -> None:
    """Each family, two copies included, from the file of its document."""
    outcome = made(algorithm, devices)
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(document(outcome)))
    assert_trains(pool, outcome.schedule, source=str(path))


@pytest.mark.parametrize("algorithm", at_night_but(["zb-v"], ["1f1b", "zb-h1", "interleaved", "zb-v"]))
def test_bit_equal_in_order(pool: Pool, algorithm: str) -> None:
    """Where microbatches reach B and W in the order of the model, nothing differs by a bit."""
    assert_trains(pool, made(algorithm, 4).schedule, exact=True)


@pytest.mark.parametrize("algorithm", at_night_but([*FAMILIES][::3], FAMILIES))
def test_unequal_microbatches(pool: Pool, algorithm: str) -> None:
    """Each family, planned for microbatches of unequal work and fed in no order of size, with weights."""
    assert_trains(pool, made(algorithm, 2, unequal=True).schedule, unequal=True)


@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "interleaved", "zb-v"])
def test_weights_are_bit_equal_in_order(pool: Pool, algorithm: str) -> None:
    """A weighted loss has the gradient, to the bit, that it has where PyTorch multiplies it."""
    assert_trains(pool, made(algorithm, 4, unequal=True).schedule, exact=True, unequal=True)


@pytest.mark.parametrize("budget", at_night_but([1.5], [1.5, 2, 3]))
def test_solved_with_offload_and_recompute(pool: Pool, budget: float) -> None:
    """What the solver finds within a budget, each activation kept, offloaded or recomputed, from its document."""
    problem = pipesched.make_problem(
        devices=4, stages=4, microbatches=6, placement="linear", forward=2, backward=4, recompute=2, offload=3,
        activation=1, checkpoint=0.25, budget=budget,
    )  # fmt: skip
    outcome = solved(f"equality-{budget}", problem, offload=True, recompute=True, time_limit=3)
    assert outcome.schedule.fits
    assert outcome.schedule.offloaded + outcome.schedule.recomputed
    source = json.loads(json.dumps(document(outcome)))
    assert_trains(pool, outcome.schedule, source=source)


@pytest.mark.parametrize("seed", at_night_but(range(0, 40, 4), range(40)))
def test_random_legal_plans(pool: Pool, seed: int) -> None:
    """B and I with W mixed, pairs, recomputation, offload, stages anywhere, two copies, microbatches in any order."""
    assert_trains(pool, random_schedule(seed), unequal=not seed % 3)


DEVICES, MICROBATCHES = 2, 6


pool_memory = pool_of(DEVICES)


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


def metered(pool_memory: Pool, schedule: Schedule) -> list[Any]:
    """What each rank had allocated."""
    from tests.runtime.meters import meter

    return pool_memory.run(DEVICES, meter, schedule, DEVICES, MICROBATCHES)


def activation_of(pool_memory: Pool) -> int:
    """The bytes of one activation: what the first forward of rank 0 leaves behind its input and output are sent."""
    ran = metered(pool_memory, pipesched.run(problem(), "naive").schedule)
    levels = dict(ran[0].operations)
    return int((levels["0F5"] - levels["0F0"]) / 5)


SOLVED = {"budget 1, offload": (1, "offload"), "budget 2, both": (2, "both"), "budget 1, recompute": (1, "recompute")}


@pytest.mark.parametrize("name", ["1f1b", "naive", *SOLVED])
def test_peaks_are_the_plans(pool_memory: Pool, name: str) -> None:
    """The largest level behind an operation is that of the plan, within 10 %; nothing is left behind a step."""
    if name in SOLVED:
        budget, what = SOLVED[name]
        schedule = saving(budget, offload=what != "recompute", recompute=what != "offload")
    else:
        schedule = pipesched.run(problem(), name).schedule
    unit = activation_of(pool_memory)
    for device, rank in enumerate(metered(pool_memory, schedule)):
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


def test_offload_load_and_recompute_move_what_they_say(pool_memory: Pool) -> None:
    """O frees an activation, L brings the same bytes back, and R takes what F left out; the host gets these bytes."""
    unit = activation_of(pool_memory)
    kinds = {"offload": "OL", "recompute": "R"}
    for what, letters in kinds.items():
        schedule = saving(1, offload=what == "offload", recompute=what == "recompute")
        ran = metered(pool_memory, schedule)
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
