"""Where the GPU time of a step goes: the parts are those of the estimate, and nothing is left over or counted twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import pipesched
from pipesched.estimation.terms import ATTENTION, COMMUNICATION, LAUNCHES, MESSAGES, PRODUCTS, RECOMPUTE, TRAFFIC, Term
from pipesched.estimation.times import OPERATIONS
from pipesched.tuning.judged import gpu_time
from tests.tuning.spaces import DENSE_FIRST, GPU, LLAMA, Config

SETUP: Config = {
    "model": {**LLAMA, "num_hidden_layers": 8},
    "hardware": {**GPU, "memory": 80},
    "parallel": {"gpus": 8, "tensor": 2, "pipeline": 4},
    "batch": {"sequence": 1024, "global": 16},
}


def parts(algorithm: str = "1f1b", **more: Any) -> tuple[pipesched.Estimate, dict[str, float]]:
    """An estimate, and its parts by their names."""
    estimate = pipesched.estimate(None, algorithm, **{**SETUP, **more})
    return estimate, {part.name: part.share for part in gpu_time(estimate)}


@pytest.mark.parametrize("algorithm", ["1f1b", "zb-v", "dualpipe", "interleaved", "naive", "chimera"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"training": {"recompute": "full"}},
        {"training": {"recompute": {"full": 1}}},
        {"training": {"recompute": "selective", "flash_attention": False}},
        {"model": DENSE_FIRST, "parallel": {"gpus": 16, "tensor": 1, "pipeline": 4, "expert": 4}},
        {"forward": 7},
        {"overlap": 2, "backward": 3},
    ],
    ids=str,
)
def test_parts_sum_up_to_one(algorithm: str, more: Config) -> None:
    """The largest first; what is idle is what the schedule says, up to the rounding of operations to microseconds."""
    estimate, shares = parts(algorithm, **more)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert min(shares.values()) > 0
    whole = estimate.step.time * estimate.problem.devices
    idle = float(sum(estimate.outcome.schedule.idle))
    assert shares.get("idle", 0) == pytest.approx(idle / whole, abs=2e-3)
    assert shares["optimizer"] == pytest.approx(estimate.step.optimizer / estimate.step.time)


def test_side_work_is_a_part_of_its_own() -> None:
    """2 and 3 ms of each microbatch, whether times of passes are derived or given; all else is as it was."""
    side = [{"name": "vision", "forward": 2, "backward": 3}]
    for estimate, shares in (parts(side=side), parts(side=side, forward=7)):
        whole = estimate.step.time * estimate.problem.devices
        assert shares["side work"] * whole == pytest.approx(5 * estimate.problem.microbatches)
        assert shares["idle"] * whole == pytest.approx(float(sum(estimate.outcome.schedule.idle)), rel=2e-3)


def test_recompute_is_a_part_of_its_own() -> None:
    """Whether layers recompute all or some of them; without there is none."""
    assert "recompute" not in parts()[1]
    some, full = (parts(training={"recompute": value})[1]["recompute"] for value in ({"full": 1}, "full"))
    assert 0 < some < full
    assert some == pytest.approx(full / 2, rel=0.2)


def test_a_case_by_hand() -> None:
    """Two devices, 100 ms, 3 microbatches: each kind of term under its name; a pair hides 2 ms of communication."""

    def term(value: float, kind: str) -> Term:
        return Term("", value, "", kind)

    forward = (term(4.0, PRODUCTS), term(2.0, ATTENTION), term(1.0, TRAFFIC), term(0.5, LAUNCHES))
    backward = (term(3.0, RECOMPUTE), term(8.0, PRODUCTS), term(1.0, COMMUNICATION), term(0.5, MESSAGES))
    weight = (term(5.0, PRODUCTS),)
    times = SimpleNamespace(**dict.fromkeys(OPERATIONS, ()))
    times.forward, times.backward_input, times.backward_weight = forward, backward, weight
    item = SimpleNamespace(times=times, time=lambda operation: {"recompute": 2500}[operation])
    pairs = SimpleNamespace(mean={"forward": (4, 6), "backward": (7, 8), "overlap": (10, 12)}, per_unit=1)
    plan = SimpleNamespace(pairs={0: 1}, index=SimpleNamespace(stage_of=lambda number: number))
    made: Any = SimpleNamespace(
        setup=SimpleNamespace(microbatches=3),
        step=SimpleNamespace(time=100.0, communication=6.0, optimizer=4.0),
        problem=SimpleNamespace(devices=2, ticks=pairs, side=(), microbatches=3),
        outcome=SimpleNamespace(schedule=SimpleNamespace(plan=plan)),
        cutter=SimpleNamespace(replaced={}),
        items=SimpleNamespace(each=[item, item]),
        stages=[SimpleNamespace(again=[]), SimpleNamespace(again=[1])],
    )
    assert {part.name: pytest.approx(part.share * 200) for part in gpu_time(made)} == {
        "matrix products": 2 * 3 * (4 + 8 + 5),
        "attention": 2 * 3 * 2,
        "memory traffic": 2 * 3 * 1,
        "kernels and launches": 2 * 3 * 0.5,
        "communication in layers": 2 * 3 * 1.5 - 2,
        "recompute": 2 * 3 * 3 + 3 * 2.5,
        "gradients and parameters": 12,
        "optimizer": 8,
        "idle": 200 - 2 * 3 * 25 - 7.5 - 20 + 2,
    }


@pytest.mark.parametrize("model", [LLAMA, DENSE_FIRST, "gpt2-xl"], ids=["llama", "deepseek", "gpt2"])
def test_each_term_of_an_operation_counts_as_something(model: Any) -> None:
    """As what its name says: a matrix product is nothing else."""
    estimate = pipesched.estimate(
        None, **{**SETUP, "model": model, "parallel": {"gpus": 8, "tensor": 1, "pipeline": 4}}
    )
    terms = [
        term for item in estimate.items.each for operation in OPERATIONS for term in getattr(item.times, operation)
    ]
    known = {PRODUCTS, ATTENTION, TRAFFIC, COMMUNICATION, MESSAGES, LAUNCHES}
    assert {term.kind for term in terms} <= known
    products = {term.name for term in terms if term.kind == PRODUCTS}
    for word in ("communication", "kernel", "softmax", "elementwise", "core", "loss", "wait", "message", "ring"):
        assert not [name for name in products if word in name.split()], word
