"""Losses and gradients of any plan are those of the model without a pipeline, in real processes.

Needs torch, and is skipped without it; with PIPESCHED_REQUIRE_TORCH=1 in the environment a missing torch is a failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.documents.schedule import document
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.schedulers.registry import FAMILIES
from tests.examples import at_night_but
from tests.runtime.random_plans import made, random_schedule, sizes_of
from tests.runtime_ranks import Pool
from tests.solved import solved
from tests.torch_ranks import needs_torch

TOLERANCE = 1e-9  # the model is in float64
pytestmark = needs_torch


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Four processes that train by schedules of up to four devices."""
    ranks = Pool(4, tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.stop()


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


@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "interleaved", "zb-v"])
def test_bit_equal_in_order(pool: Pool, algorithm: str) -> None:
    """Where microbatches reach B and W in the order of the model, nothing differs by a bit."""
    assert_trains(pool, made(algorithm, 4).schedule, exact=True)


@pytest.mark.parametrize("algorithm", FAMILIES)
def test_unequal_microbatches(pool: Pool, algorithm: str) -> None:
    """Each family, planned for microbatches of unequal work and fed in no order of size, with weights."""
    assert_trains(pool, made(algorithm, 2, unequal=True).schedule, unequal=True)


@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "interleaved", "zb-v"])
def test_weights_are_bit_equal_in_order(pool: Pool, algorithm: str) -> None:
    """A weighted loss has the gradient, to the bit, that it has where PyTorch multiplies it."""
    assert_trains(pool, made(algorithm, 4, unequal=True).schedule, exact=True, unequal=True)


@pytest.mark.parametrize("budget", [1.5, 2, 3])
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


@pytest.mark.parametrize("seed", range(40))
def test_random_legal_plans(pool: Pool, seed: int) -> None:
    """B and I with W mixed, pairs, recomputation, offload, stages anywhere, two copies, microbatches in any order."""
    assert_trains(pool, random_schedule(seed), unequal=not seed % 3)
