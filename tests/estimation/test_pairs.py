"""Pairs F&B of experts: pieces of stages, their least length, and what schedules gain by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import pipesched
from pipesched.estimation.derived import derive
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.items import NETWORK, OWNERS, backward_pieces, forward_pieces, partner
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import Setup, TrainingSetup
from pipesched.estimation.terms import AGAIN
from pipesched.estimation.times import layer_times
from pipesched.estimation.trace import trace
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.costs import in_one
from pipesched.pipeline.problem.quantities import to_fraction
from tests.estimation.setups import setup

EXPERTS: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 14,
    "num_key_value_heads": 32,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 2,
    "num_nextn_predict_layers": 1,
}
FULL: dict[str, Any] = {"recompute": "full"}
SELECTIVE: dict[str, Any] = {"recompute": "selective", "flash_attention": False}
PAIRED = ("dualpipe", "dualpipe-v", "1f1b-overlap", "interleaved-overlap")


def of_experts(expert: int = 8, training: dict[str, Any] | None = None, **parallel: int) -> Setup:
    """A model with experts, whose attention is whole, on 32 GPUs."""
    sizes = {"gpus": 32, "tensor": 1, "pipeline": 4, "chunks": 2, "expert": expert, **parallel}
    return setup(EXPERTS, parallel=sizes, batch={"size": 128}, training=training)


def estimate(given: Setup, algorithm: str, **replaced: Any) -> Estimate:
    """The estimate of a setup, with numbers that count instead of its own."""
    return Estimate(pipesched.run(derive(given, replaced), algorithm))


@pytest.mark.parametrize("algorithm", PAIRED)
@pytest.mark.parametrize(
    "training", [{}, FULL, {**FULL, "full_layers": 1}, {"recompute": "selective", "flash_attention": False}]
)
def test_pieces_are_the_forward_and_the_backward_of_a_stage(algorithm: str, training: dict[str, Any]) -> None:
    """They sum up exactly, recompute included; experts have pieces on the network, the head and the embedding none."""
    found = estimate(of_experts(training=training), algorithm)
    for stage in found.stages:
        forward, backward = forward_pieces(stage), backward_pieces(stage)
        assert sum(piece.time for piece in forward) == stage.time("forward")
        assert sum(piece.time for piece in backward) == stage.time("backward_input") + stage.time("backward_weight")
    for item in found.items.each:
        network = [piece.name for piece in item.pieces.forward if piece.machine == NETWORK]
        assert bool(network) == (item.kind in ("layer", "mtp") and len(item.pieces.forward) > 1)
        assert network in ([], ["dispatch", "combine"])


def test_pieces_stand_in_the_order_of_a_layer() -> None:
    """Forward by the layer, backward turned round, each weight gradient behind its input gradient."""
    layer = estimate(of_experts(), "1f1b").items.each[5].pieces
    assert [piece.name for piece in layer.forward] == ["attention", "dispatch", "experts", "combine"]
    assert [piece.name for piece in layer.backward] == [
        "gradient of combine", "gradient of experts", "weights of experts", "gradient of dispatch",
        "gradient of attention", "weights of attention",
    ]  # fmt: skip


def test_terms_that_have_owners_exist() -> None:
    """A term that is renamed would silently count as attention."""
    given = of_experts(tensor=2, expert_tensor=2, expert=4)
    found = [term.name for item in estimate(given, "1f1b").items.each for term in item.times.forward]
    low = replace(given, hardware=preset_hardware("h100-sxm"), training=TrainingSetup("fp8"))
    found += [term.name for term in layer_times(low, experts=True).forward]
    assert {name for name in OWNERS if not name.startswith(AGAIN)} - {*found} <= {"waits for the host"}


@pytest.mark.parametrize("algorithm", PAIRED)
@pytest.mark.parametrize("training", [{}, FULL])
def test_a_pair_hides_the_network_of_experts(algorithm: str, training: dict[str, Any]) -> None:
    """It lasts no less than either operation and than what both compute, and is shorter than both; so is the step."""
    given = of_experts(training=training)
    found = estimate(given, algorithm)
    costs = found.problem.costs
    assert costs.overlap is not None
    for number, stage in enumerate(found.stages):
        other = partner(found.stages, found.problem.settled_placement, number)
        forward, backward = forward_pieces(stage), backward_pieces(found.stages[other])
        whole = sum(piece.time for piece in (*forward, *backward))
        network = sum(piece.time for piece in (*forward, *backward) if piece.machine == NETWORK)
        pair = int(to_fraction(costs.overlap[number]) * 1000)
        assert max(stage.time("forward"), whole - stage.time("forward"), whole - network) <= pair <= whole
        traced = trace(found, f"stage.{number}.overlap")
        assert traced.value == pytest.approx(pair / 1000)
        assert sum(part.value for part in traced.parts if not part.depth) == pytest.approx(traced.value)
    plain = estimate(of_experts(expert=1, training=training), algorithm)
    assert plain.problem.costs.overlap is None
    partners = [partner(found.stages, found.problem.settled_placement, number) for number in range(len(found.stages))]
    pairs = ((costs.forward[number], costs.backward[other]) for number, other in enumerate(partners))
    parts = [sum(map(float, in_one(pair))) for pair in pairs]
    plain_costs = replace(costs, overlap=tuple(map(to_fraction, map(str, parts))))
    in_turn = schedule_plan(replace(found.problem, costs=plain_costs), found.outcome.schedule.plan)
    assert found.outcome.schedule.makespan < in_turn.makespan


def test_who_meets_whom() -> None:
    """On a V and from both ends the other stage of the device; round and round the one of the longest pair."""
    for algorithm in ("dualpipe", "dualpipe-v", "interleaved-overlap"):
        found = estimate(of_experts(), algorithm)
        plan = found.outcome.schedule.plan
        met: dict[int, set[int]] = {}
        for forward, backward in plan.pairs.items():
            met.setdefault(plan.index.stage_of(forward), set()).add(plan.index.stage_of(backward))
        placement = found.problem.settled_placement
        for stage, others in met.items():
            if algorithm == "interleaved-overlap":
                assert others <= {*placement.stages_on(placement.devices[stage])}
            else:
                assert others == {partner(found.stages, placement, stage)}


@pytest.mark.parametrize("key", ["forward", "backward", "overlap"])
def test_times_that_are_given_leave_pairs_alone(key: str) -> None:
    """The pieces are of derived times, so with other times a pair takes the sum of its parts, or what is given."""
    costs = estimate(of_experts(), "dualpipe-v", **{key: 7}).problem.costs
    assert costs.overlap == ((7,) * 8 if key == "overlap" else None)


def test_a_dense_model_has_no_overlap() -> None:
    """Nothing is said of pairs, and a trace says why."""
    found = estimate(setup(), "1f1b-overlap")
    assert found.problem.costs.overlap is None
    with pytest.raises(pipesched.ConfigError, match="the sum of their parts"):
        trace(found, "stage.0.overlap")
