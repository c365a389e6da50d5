"""The self-test of a trainer, and the text of a profile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipesched import ConfigError
from pipesched.pipeline.problem.kinds import KINDS
from tests.torch_ranks import needs_torch

pytestmark = needs_torch


def trials() -> Any:
    from pipesched.runtime.self_testing import TRIALS

    return TRIALS


def stages(activation: int = 1000) -> list[Any]:
    """What a first, a middle and a last stage take."""
    from pipesched.runtime.profiling import StageProfile

    return [StageProfile(activation=activation, retain=1.5, checkpoint=0.1) for _ in range(3)]


@pytest.mark.parametrize("ranks", [2, 4, 6])
def test_a_dozen_plans_have_every_kind_of_operation(ranks: int) -> None:
    """Chunks, a V, pairs, two copies, all kinds, and one plan with all of them but chunks; each name once."""
    schedules = {trial.name: trial.schedule(ranks, stages()) for trial in trials()}
    assert len(schedules) == len(trials()) == 12
    kinds = {name: {kind for kind in KINDS if schedule.plan.count(kind)} for name, schedule in schedules.items()}
    assert set.union(*kinds.values()) == set(KINDS)
    assert kinds["dualpipe, recompute full, offload 1"] == set(KINDS)
    placements = [schedule.problem.settled_placement for schedule in schedules.values()]
    assert {placement.mirrored for placement in placements} == {True, False}
    assert {len(placement.devices) // ranks for placement in placements} == {1, 2}
    assert any(schedule.plan.pairs for schedule in schedules.values())


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_all_plans_are_right(ranks: int) -> None:
    """Each plan in 64 and in 32 bits: equal but for rounding, and the bytes of the plan on some rank of nearly each."""
    from pipesched.runtime import self_test

    told: list[str] = []
    found = self_test("cpu", ranks, listener=told.append)
    assert (found.failure, found.plan, found.device, found.gpus) == (None, None, "cpu", 0)
    assert [(row.dtype, row.plan) for row in found.rows] == [
        (dtype, trial.name) for dtype in ("float64", "float32") for trial in trials()
    ]
    for row in found.rows:
        most = 1e-15 if row.dtype == "float64" else 1e-6
        assert row.losses <= most
        assert row.gradients <= most
        assert row.fault is None
        assert row.allocated_bytes is None
        assert len(row.peak_bytes) == len(row.planned_bytes) == ranks
        if "offload" not in row.plan:  # what is under way to the host, or back, is on the device in plans
            assert row.peak_bytes == row.planned_bytes
    assert f"{ranks} ranks, float32: zb-v, recompute full" in told
    assert len([*found.lines()]) == 1 + 2 * (2 + len(trials()))
    assert found.document()["passed"]


def test_the_model_feels_every_microbatch() -> None:
    """Each weight has gradients far above what may differ, so that a microbatch more or less shows."""
    import torch

    from pipesched.runtime.training_data import Microbatches
    from pipesched.runtime.unpipelined import APART_AT_MOST, batch, blocks, train_unpipelined

    modules = blocks(4, torch.float32)
    for microbatch in range(2):
        alone = slice(microbatch, microbatch + 1)
        train_unpipelined(modules, Microbatches(*(part[alone] for part in batch(8, torch.float32)[:2])))
        for module in modules:
            for weight in module.parameters():
                assert float(weight.grad.abs().max()) > 10 * APART_AT_MOST["float32"]
                weight.grad = None


def row(**changed: Any) -> Any:
    from pipesched.runtime.self_testing import SelfTestRow

    right = SelfTestRow(2, "float64", "1f1b", 1e-10, 1e-10, [10, 20], [10, 20], None, 0.5)
    return right._replace(**changed)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None),
        ({"dtype": "float32", "losses": 1e-5, "gradients": 9e-5}, None),
        ({"losses": 2e-9}, "losses differ by 2e-09 from those without a pipeline, more than 1e-09"),
        (
            {"dtype": "float32", "gradients": 2e-4},
            "gradients differ by 0.0002 from those without a pipeline, more than",
        ),
        ({"gradients": float("inf")}, "gradients differ by inf"),
        ({"peak_bytes": [10, 1021]}, "rank 1 holds 1,021 bytes of activations at its peak; the plan has 20"),
        ({"peak_bytes": [9, 20]}, None),
    ],
)
def test_what_is_a_fault(changed: dict[str, Any], fault: str | None) -> None:
    """Differences above what sums in another order make, and more bytes than the plan has; not fewer."""
    found = row(**changed).fault
    assert found is None if fault is None else found is not None and found.startswith(fault)


def test_what_is_no_number_differs() -> None:
    """NaN hides no difference: it counts as the largest one. Large numbers differ by a part of them."""
    import torch

    from pipesched.runtime.unpipelined import apart

    one = torch.tensor([1.0, -2.0])
    assert (apart(one, 0 * one), apart(one, 2 * one), apart(one, 8 * one)) == (2, 0.5, 0.875)
    assert apart(torch.tensor([1.0, torch.nan]), one) == apart(torch.inf, one) == float("inf")
    assert (apart(None, one), apart(one, None)) == (1, 2)
    assert apart(one[:0], one[:0]) == apart(None, None) == 0


def test_a_document_is_json() -> None:
    """A difference without limit is null; a test that failed says so."""
    from pipesched.runtime.self_testing import SelfTest

    found = SelfTest("cpu", 0, "2.13.0", (row(), row(gradients=float("inf"))), "1f1b: wrong", "device 0: 0F0")
    content = json.loads(json.dumps(found.document(), allow_nan=False))
    assert (content["format"], content["version"], content["passed"]) == ("pipesched.self_test", 1, False)
    assert (content["failure"], content["plan"]) == ("1f1b: wrong", "device 0: 0F0")
    assert [one["gradients"] for one in content["rows"]] == [1e-10, None]


def test_shared_gpus_are_told() -> None:
    """Where ranks share a GPU their messages do not go by NCCL, and the table says that it is not tested."""
    from pipesched.runtime.self_testing import SelfTest

    for gpus, told in ((0, False), (1, True), (2, False)):
        lines = [*SelfTest("some", gpus, "2.13.0", (row(),)).lines()]
        assert any("NCCL is not tested" in line for line in lines) == told


@pytest.mark.parametrize(
    ("kind", "gpus", "ranks"), [("cpu", 0, (2, 4)), ("cuda", 1, (2,)), ("cuda", 3, (2,)), ("cuda", 8, (2, 4))]
)
def test_usual_numbers_of_ranks(kind: str, gpus: int, ranks: tuple[int, ...]) -> None:
    """Two and four ranks on CPUs, and on as many GPUs; two that share the only GPU."""
    from pipesched.runtime.self_testing import usual_ranks

    assert tuple(usual_ranks(kind, gpus)) == ranks


@pytest.mark.parametrize(
    ("given", "key"),
    [({"device": "cudda"}, "device"), ({"device": "cuda"}, "device"), ({"ranks": 3}, "ranks"), ({"ranks": 0}, "ranks")],
)
def test_bad_arguments(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], key: str) -> None:
    """A device that is unknown or not here, an odd number of ranks, and none are refused by name."""
    import torch

    from pipesched.runtime import self_test

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError) as error:
        self_test(**given)
    assert error.value.key == key
