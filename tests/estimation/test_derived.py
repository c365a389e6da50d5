"""The problem that follows from a setup: costs, cuts, memory, and what is in flight."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, Estimate, NotApplicable
from pipesched.estimation.derived import derive
from pipesched.estimation.items import GB, Items, Stage
from pipesched.estimation.memory import (
    embedding_memory,
    head_memory,
    layer_memory,
    logits,
    mtp_memory,
    overhead_terms,
    state_bytes,
)
from pipesched.estimation.parameters import layer_flops
from pipesched.estimation.setup import Setup
from pipesched.estimation.terms import total
from pipesched.estimation.times import optimizer_terms
from pipesched.pipeline.problem.placement import named_placement
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.tuning.setup_bounds import most_of_first
from tests.estimation.setups import LLAMA, setup
from tests.examples import at_night_but

FAMILIES = ("1f1b", "naive", "zb-h1", "interleaved", "zb-v", "dualpipe-v", "chimera", "list")


def estimate(given: Setup, algorithm: str = "1f1b") -> Estimate:
    """The estimate of a setup."""
    return Estimate(pipesched.run(derive(given, {}), algorithm))


@pytest.mark.parametrize("algorithm", at_night_but(("zb-h1", "chimera", "list"), FAMILIES))
def test_stages_are_the_sums_of_their_items(algorithm: str) -> None:
    """Whatever a family cuts: each item once, in order; times in ms, memory in GB, the head's logits with it."""
    given = setup(parallel={"chunks": 2})
    found = estimate(given, algorithm)
    problem, items = found.problem, Items(found.setup)
    assert [stage.begin for stage in found.stages] == [0, *(stage.end for stage in found.stages[:-1])]
    assert found.stages[-1].end == len(items)
    for number, stage in enumerate(found.stages):
        held = items.each[stage.begin : stage.end]
        for key in ("forward", "backward_input", "backward_weight"):
            column = getattr(problem.costs, key)
            assert to_fraction(column[number]) == Fraction(sum(item.time(key) for item in held), 1000)
        kept = sum((item.size("activation") for item in held), Fraction(0)) / GB
        assert to_fraction(problem.memory.activation[number]) == kept
        logits = items.logits if stage.end == len(items) else 0
        static = sum((item.states for item in held), Fraction(0)) + logits
        assert to_fraction(problem.memory.static[number]) == static / GB


@pytest.mark.parametrize("algorithm", at_night_but(("chimera",), FAMILIES[:-1]))  # `list` obeys the budget
def test_what_fits_is_the_same_for_the_schedule_and_the_devices(algorithm: str) -> None:
    """The budget of the problem is the GPU's memory less what is fixed, so both say the same of every device."""
    for memory in (12, 20, 80):
        found = estimate(setup(parallel={"chunks": 2}, memory=memory), algorithm)
        over = {number for number, device in enumerate(found.devices) if not device.fits}
        assert over == set(found.outcome.schedule.over_budget)


@pytest.mark.parametrize("memory", [8, 10])
def test_a_cut_fits_where_its_schedule_does(memory: int) -> None:
    """It counts whole bytes, of which five ranks that share the optimizer have parts."""
    found = estimate(setup(parallel={"gpus": 40}, batch={"size": 80}, memory=memory))
    assert any(device.optimizer.denominator > 1 for device in found.devices)
    assert found.fits == (not found.outcome.schedule.over_budget)


def test_memory_of_a_device_adds_up() -> None:
    """1F1B holds as many microbatches as stages are behind; 0.75 GB and 4 % of the rest are fixed."""
    found = estimate(setup())
    for number, device in enumerate(found.devices):
        stage = found.stages[number]
        assert device.activations == (4 - number) * stage.size("activation")
        rest = device.weights + device.gradients + device.optimizer + device.activations + device.logits
        assert device.fixed == 750_000_000 + rest * Fraction(4, 100)
        assert device.total == rest + device.fixed
        assert device.weights == 2 * device.parameters
        assert device.gradients == 4 * device.parameters


def test_the_step_adds_up() -> None:
    """Time is the pipeline, exposed communication and the optimizer; rates follow from it."""
    found = estimate(setup(parallel={"gpus": 32}))
    step = found.step
    assert step.time == pytest.approx(step.pipeline + step.communication + step.optimizer, rel=1e-12)
    assert step.pipeline == found.outcome.schedule.makespan
    assert step.communication > 0
    assert step.optimizer > 0
    tokens = 16 * 4096
    assert step.tokens_per_second_per_gpu == pytest.approx(tokens / (step.time / 1000) / 32, rel=1e-12)
    assert step.mfu == pytest.approx(step.model_tflops_per_gpu / 1000, rel=1e-12)
    assert step.hfu == step.mfu


def test_recompute_counts_in_hfu_and_in_the_input_gradient() -> None:
    """Full recompute keeps the inputs of layers, adds a forward to I, and is a part of HFU only."""
    plain, full = estimate(setup()), estimate(setup(training={"recompute": "full"}))
    half = estimate(setup(training={"recompute": "full", "full_layers": 2}))
    layer = plain.items.each[1]
    for number in range(4):
        three, stages = plain.stages[number], (full.stages[number], half.stages[number])
        assert stages[0].time("backward_input") == pytest.approx(
            three.time("backward_input") + 4 * layer.time("forward"), abs=8
        )
        assert stages[1].time("backward_input") == three.time("backward_input") + 2 * layer.time("forward")
        freed = layer.size("activation") - layer.size("checkpoint")
        assert stages[0].size("activation") == three.size("activation") - 4 * freed
        assert stages[1].size("activation") == three.size("activation") - 2 * freed
    assert plain.step.hfu == plain.step.mfu
    assert full.step.hfu / full.step.mfu == pytest.approx(4 / 3, rel=0.03)
    assert plain.step.hfu / plain.step.mfu < half.step.hfu / half.step.mfu < full.step.hfu / full.step.mfu


DEEPSEEK: dict[str, Any] = {  # a dense layer, then layers of experts, then an MTP layer
    **LLAMA,
    "num_hidden_layers": 8,
    "intermediate_size": 2048,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
}


def test_recompute_of_so_many_layers_is_that_of_the_slowest_of_each_stage() -> None:
    """Layers need not be alike: as many as a stage has are all of them, fewer are the slowest."""
    layout = (2, 2, 2, 2)
    plain, full, most, one = (
        estimate(setup(DEEPSEEK, training={"recompute": recompute, "full_layers": layers, "layout": layout}))
        for recompute, layers in (("none", None), ("full", None), ("full", 100), ("full", 1))
    )
    for number in range(3):  # the last stage has the MTP layer, which is none of its layers
        mine, theirs = most.stages[number], full.stages[number]
        assert mine.size("activation") == theirs.size("activation")
        assert mine.time("backward_input") == pytest.approx(theirs.time("backward_input"), abs=4)
    dense, sparse = plain.items.each[1:3]
    assert dense.size("activation") < sparse.size("activation")
    assert dense.time("forward") < sparse.time("forward")
    for number, layer in ((0, sparse), (1, sparse)):
        mine, theirs = one.stages[number], plain.stages[number]
        assert mine.time("backward_input") == theirs.time("backward_input") + layer.time("forward")
        freed = layer.size("activation") - layer.size("checkpoint")
        assert mine.size("activation") == theirs.size("activation") - freed
    assert sum(term.value for term in most.stages[0].terms("activation")) == most.stages[0].size("activation")


@pytest.mark.parametrize(("width", "slower"), [(65536, True), (256, False)])
def test_a_stage_takes_no_less_with_a_layer_more(width: int, slower: bool) -> None:
    """The cut into stages needs that, also where the layers that are recomputed are far from alike."""
    layers = {"intermediate_size": width, "first_k_dense_replace": 3}
    items = Items(setup({**DEEPSEEK, **layers}, training={"recompute": "full", "full_layers": 2}))
    assert items.is_first_slower == slower
    for begin in range(len(items) - 1):
        for end in range(begin + 2, len(items) + 1):
            whole = Stage(items, begin, end)
            for part in (Stage(items, begin + 1, end), Stage(items, begin, end - 1)):
                assert part.work <= whole.work
                assert part.size("activation") <= whole.size("activation")


def test_recompute_of_an_mtp_layer_counts_in_hfu() -> None:
    """Its forward runs again like that of every other layer; where so many layers of a stage do, it does not."""
    one, two = (
        estimate(setup({**DEEPSEEK, "num_nextn_predict_layers": count}, training={"recompute": "full"}))
        for count in (1, 2)
    )
    model, tokens = one.setup.model, one.setup.tokens_of_step
    each = sum(layer_flops(model, 4096, experts=True))
    assert two.flops_again - one.flops_again == tokens * each
    assert one.flops_again == tokens * (8 * each + sum(layer_flops(model, 4096, experts=False)))
    layers = estimate(setup(DEEPSEEK, training={"recompute": "full", "full_layers": 100}))
    assert layers.flops_again == one.flops_again - tokens * each
    unfused = estimate(setup(DEEPSEEK, training={"recompute": "selective", "flash_attention": False}))
    assert unfused.flops_again == tokens * 9 * layer_flops(model, 4096, experts=True)[1]


def test_recompute_is_an_operation_or_a_cost_never_both() -> None:
    """A setup that recomputes refuses recompute as an operation; one that does not has what it needs."""
    plain = pipesched.run(derive(setup(), {}), "1f1b", recompute="full")
    assert plain.schedule.recomputed
    with pytest.raises(NotApplicable, match=r"training\.recompute"):
        pipesched.run(derive(setup(training={"recompute": "full"}), {}), "1f1b", recompute="full")
    with pytest.raises(NotApplicable, match=r"training\.recompute"):
        pipesched.solve(derive(setup(training={"recompute": "full"}), {}), recompute=True)


def test_what_is_given_counts_instead_of_what_is_derived() -> None:
    """Costs and memory beside a model replace its own; a list holds for its number of stages only."""
    problem = derive(setup(), {"p2p": 7, "budget": 50, "microbatches": 5})
    assert problem.costs.p2p == (7, 7, 7)
    assert problem.memory.budget == (50,) * 4
    assert problem.microbatches == 5
    assert pipesched.run(problem, "zb-v").problem.costs.p2p == (7,) * 7
    listed = derive(setup(), {"forward": [1, 2, 3, 4]})
    assert pipesched.run(listed, "1f1b").problem.costs.forward == (1, 2, 3, 4)
    with pytest.raises(NotApplicable):
        pipesched.run(listed, "zb-v")


def test_a_frontier_tries_budgets_of_many_digits() -> None:
    """Budgets of the frontier are peaks in bytes: exact numbers, for which the stages are cut anew."""
    problem = derive(setup(batch={"size": 4}), {})
    found = pipesched.frontier(problem, time_limit=3)
    budgets = [point.budget for point in found]
    assert len(budgets) > 1
    assert budgets == sorted(budgets)
    exact = replace(problem, memory=replace(problem.memory, budget=(46.54088192,) * 4))
    assert pipesched.run(exact, "1f1b").problem.memory.budget == (46.54088192,) * 4


def test_all_cuts_have_the_same_ticks() -> None:
    """Also where every time is whole: a frontier compares the ticks of cuts for different budgets."""
    whole = dict.fromkeys(("forward", "backward", "recompute", "offload"), 1) | {"p2p": 0}
    for given in ({}, whole):
        assert pipesched.run(derive(setup(), given), "1f1b").problem.ticks.per_unit == 1000


def test_too_many_microbatches_are_the_fault_of_the_batch() -> None:
    """Unless they were given themselves."""
    with pytest.raises(ConfigError, match=r"batch\.global: 4 stages x 9,000,000 microbatches"):
        derive(setup(batch={"size": 9_000_000}), {})
    with pytest.raises(ConfigError, match=r"microbatches: 4 stages x 9,000,000 microbatches"):
        derive(setup(), {"microbatches": 9_000_000})


def test_a_given_layout_is_kept() -> None:
    """A list of layers, or Megatron's text, holds for the stages of the setup, and no other number of them."""
    for layout in ((5, 4, 4, 3), "Et*5|t*4|t*4|t*3L"):
        given = setup(training={"layout": layout})
        found = estimate(given)
        assert [stage.count("layer") for stage in found.stages] == [5, 4, 4, 3]
        assert found.layout.startswith("Et*5|")
        with pytest.raises(NotApplicable, match=r"training\.layout"):
            pipesched.run(derive(given, {}), "zb-v")
    for wrong in ((5, 4, 4, 4), (8, 8), "Et*5|t*4|t*4|t*4L", "Et*16|L|L|L"):
        with pytest.raises(ConfigError, match=r"training\.layout"):
            derive(setup(training={"layout": wrong}), {})


def test_a_stage_without_items_lasts_nothing() -> None:
    """It costs nothing and holds nothing; what stands beside the layers stays where it was."""
    found = estimate(setup(training={"layout": "Et*8||t*8|L"}))
    assert found.layout == "Et*8||t*8|L"
    costs, memory = found.problem.costs, found.problem.memory
    assert [column[1] for column in (costs.forward, costs.backward_input, memory.activation, memory.static)] == [0] * 4
    assert 0 not in [costs.forward[stage] for stage in (0, 2, 3)]


def test_messages_are_those_of_the_stages_that_run() -> None:
    """A family that cuts anew estimates the same whether the setup says its chunks or not."""
    one, two = (estimate(setup(parallel={"chunks": chunks}), "zb-v") for chunks in (1, 2))
    assert one.step == two.step
    assert one.setup.parallel.chunks == 2
    assert estimate(setup(parallel={"chunks": 2})).setup.parallel.chunks == 1


@pytest.mark.parametrize(("algorithm", "pipeline"), [("dualpipe", 1), ("chimera", 1), ("chimera", 3), ("dualpipe", 3)])
def test_an_algorithm_that_needs_even_devices_does_not_apply(algorithm: str, pipeline: int) -> None:
    """It says so; that the stages are cut for it before does not fail in another way."""
    odd = setup({"num_hidden_layers": 12}, parallel={"gpus": 2 * pipeline, "pipeline": pipeline})
    with pytest.raises(NotApplicable, match="needs an even number of devices"):
        pipesched.run(derive(odd, {}), algorithm)


@pytest.mark.parametrize(("dispatcher", "milliseconds"), [("deepep", 1.056), ("alltoall", 4.241), ("allgather", 1.988)])
def test_messages_of_experts_are_those_of_the_dispatcher(dispatcher: str, milliseconds: float) -> None:
    """Qwen3-235B on H100s, tensor 2, expert 16: once to each node, once for each of its 8 experts, or to all ranks."""
    sections: dict[str, Any] = {
        "hardware": "h100-sxm", "parallel": {"gpus": 256, "tensor": 2, "pipeline": 8, "expert": 16},
        "batch": {"sequence": 4096, "global": 1024}, "training": {"dispatcher": dispatcher, "layout": "equal"},
    }  # fmt: skip
    found = pipesched.estimate(None, "1f1b", model="qwen3-235b-a22b", **sections)
    terms = found.cutter.items.each[50].times.forward
    (messages,) = (term for term in terms if term.name == "dispatch and combine")
    assert float(messages.value) == pytest.approx(milliseconds, abs=1e-3)
    with pytest.raises(ConfigError, match="has no effect: llama-3-8b has no experts") as caught:
        pipesched.estimate(None, "1f1b", model="llama-3-8b", **{**sections, "parallel": {"gpus": 64, "pipeline": 4}})
    assert "training.dispatcher" in str(caught.value)


def test_a_text_as_an_override_cuts_a_model() -> None:
    """What `--layout` is given beside a model takes the place of `training.layout`."""
    text = (
        "model: llama-3-8b\nhardware: h100-sxm\nparallel: {gpus: 8, pipeline: 4}\nbatch: {sequence: 4096, global: 16}\n"
    )
    problem = pipesched.load(text, layout="Et*9|t*9||t*14L")
    assert pipesched.hand_over(pipesched.run(problem, "1f1b"), "megatron").split("'")[1] == "Et*9|t*9||t*14L"


SPLIT = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336  # of a layer of the small llama
NORMS = 2 * 4096
KEPT = 4096 * (8 * 4096 // 2 + (4 * 4096 + 4 * 1024 + 6 * 14336) // 2)
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
LATENT = {"q_lora_rank": 512, "kv_lora_rank": 256, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
PLAIN = {"mlp": "plain", "norm": "layer", "bias": "all", "dropout": 0.1}


def test_a_layer() -> None:
    """Its products are divided by two tensor ranks, its norms are not; 2, 4 and 12 bytes a parameter."""
    layer = layer_memory(setup(), experts=False)
    assert total(layer.parameters) == SPLIT // 2 + NORMS
    assert [term.name for term in layer.parameters] == ["split over tensor ranks", "whole on each tensor rank"]
    assert total(layer.weights) == 2 * (SPLIT // 2 + NORMS)
    assert total(layer.gradients) == 4 * (SPLIT // 2 + NORMS)
    assert total(layer.optimizer) == 12 * (SPLIT // 2 + NORMS)
    assert total(layer.activation) == KEPT
    assert total(layer.checkpoint) == 4096 * 2 * 4096 // 2


@pytest.mark.parametrize(
    ("training", "bytes_each"),
    [
        ({}, 6 + Fraction(12, 8)),
        ({"gradients": "bf16"}, 4 + Fraction(12, 8)),
        ({"precision": "fp16"}, 4 + Fraction(16, 8)),
        ({"precision": "fp32"}, 8 + Fraction(8, 8)),
        ({"distributed_optimizer": False}, 18),
        ({"gradients": "bf16", "distributed_optimizer": False}, 16),
        ({"precision": "fp16", "distributed_optimizer": False}, 20),
        ({"precision": "fp32", "distributed_optimizer": False}, 16),
    ],
)
def test_bytes_of_a_parameter(training: dict[str, Any], bytes_each: Fraction) -> None:
    """Over 4 data-parallel and 2 context-parallel ranks, which share a distributed optimizer."""
    given = setup(parallel={"gpus": 64, "context": 2}, training=training)
    layer = layer_memory(given, experts=False)
    states = total((*layer.weights, *layer.gradients, *layer.optimizer))
    assert states == bytes_each * (SPLIT // 2 + NORMS)


def test_experts_share_over_ranks_of_their_own() -> None:
    """8 experts on 4 ranks of 2: 2 x 4 data-parallel / (4 x 1) ranks hold the same; the router is whole."""
    given = setup(EXPERTS, parallel={"gpus": 32, "expert": 4})
    layer = layer_memory(given, experts=True)
    parts = {term.name: term.value for term in layer.parameters}
    assert parts["experts"] == 8 * 3 * 4096 * 14336 // 4
    assert parts["whole on each tensor rank"] == NORMS + 4096 * 8
    optimizer = {term.name: term.value for term in layer.optimizer}
    assert optimizer["experts"] == parts["experts"] * 12 / 2
    assert optimizer["split over tensor ranks"] == parts["split over tensor ranks"] * 12 / 4


def test_activations_of_latent_attention() -> None:
    """Queries and keys of 192, values of 128; what is compressed is split along the sequence."""
    found = total(layer_memory(setup({**LATENT, "num_key_value_heads": 32}), experts=False).activation)
    heads = 2 * 32 * (2 * 192 + 128) + 2 * 32 * 128
    assert found == 4096 * (8 * 4096 + heads + 6 * 14336 + 4 * (512 + 256 + 64)) // 2


@pytest.mark.parametrize(
    ("model", "training", "each"), [({}, {}, 2), (PLAIN, {}, 5), ({}, {"recompute": "selective"}, 0)]
)
def test_scores_without_flash_attention(model: dict[str, Any], training: dict[str, Any], each: int) -> None:
    """2 bytes a score, 5 with dropout, none where they are computed again."""
    fused = layer_memory(setup(model), experts=False)
    not_fused = layer_memory(setup(model, training={"flash_attention": False, **training}), experts=False)
    assert total(not_fused.activation) - total(fused.activation) == 4096 * 32 * 4096 * each // 2


def test_a_gpt_without_sequence_parallelism() -> None:
    """Masks of dropout; what is not split by tensor ranks is whole; a plain MLP keeps 4 bytes of its width."""
    found = layer_memory(setup(PLAIN, parallel={"sequence": False}), experts=False)
    assert total(found.activation) == 4096 * (10 * 4096 + (4 * 4096 + 4 * 1024 + 4 * 14336) // 2)
    biases = {term.name: term.value for term in found.parameters}["whole on each tensor rank"]
    assert biases == 2 * 2 * 4096 + 2 * 4096  # two norms of two vectors, and the biases of two products


def test_ends_of_a_model() -> None:
    """Words are padded and divided; a tied head has a copy of them on another stage, none on the same."""
    words = 32000 * 4096 // 2
    assert total(embedding_memory(setup()).parameters) == words
    assert total(head_memory(setup()).parameters) == words + 4096
    tied = {"tie_word_embeddings": True}
    assert total(head_memory(setup(tied)).parameters) == words + 4096
    assert total(head_memory(setup(tied, parallel={"pipeline": 1})).parameters) == 4096
    assert total(head_memory(setup()).activation) == 4096 * 4 * 4096 // 2
    assert total(embedding_memory(setup()).activation) == 0
    assert total(embedding_memory(setup(PLAIN)).activation) == 4096 * 4096 // 2


def test_an_mtp_layer() -> None:
    """A layer, a product that joins two inputs, three norms, and words where they are on another stage."""
    model = {"num_nextn_predict_layers": 2}
    own, words = (SPLIT + 2 * 4096**2) // 2 + NORMS + 3 * 4096, 32000 * 4096 // 2
    assert total(mtp_memory(setup(model)).parameters) == own + words
    assert total(mtp_memory(setup(model), first=False).parameters) == own
    assert total(mtp_memory(setup(model, parallel={"pipeline": 1})).parameters) == own
    assert total(mtp_memory(setup(model)).activation) == KEPT + 4096 * 8 * 4096 // 2


def test_logits() -> None:
    """6 bytes a word and token, 2 where the loss is fused, and the input where ranks gather it from their parts."""
    gathered = 2 * 4096 * 4096
    assert total(logits(setup(parallel={"sequence": False}))) == 6 * 4096 * 32000 // 2
    assert total(logits(setup())) == 6 * 4096 * 32000 // 2 + gathered
    assert total(logits(setup(training={"fused_loss": True}))) == 2 * 4096 * 32000 // 2 + gathered
    assert [term.name for term in logits(setup())] == ["logits", "gathered input of the head"]


def test_overhead_terms() -> None:
    """The context of a GPU, and a twenty-fifth of the rest."""
    assert [(term.name, term.value) for term in overhead_terms(Fraction(10**10))] == [
        ("context", 750_000_000),
        ("fragmentation", 400_000_000),
    ]


def test_formulas_say_their_values() -> None:
    """Each formula, computed, is the value beside it."""
    given = setup({**EXPERTS, **PLAIN}, parallel={"gpus": 32, "expert": 4}, training={"flash_attention": False})
    layer = layer_memory(given, experts=True)
    for term in (*layer.weights, *layer.optimizer, *layer.activation, *logits(given), *layer.checkpoint):
        assert worked_out(term.formula) == term.value, term


def worked_out(formula: str) -> Fraction:
    """The value of a formula without the words in it."""
    words = formula.replace("(", " ( ").replace(")", " ) ").split()
    kept = [word for word in words if word.isdigit() or word in ("x", "/", "+", "(", ")")]
    text = " ".join(f"Fraction({word})" if word.isdigit() else word.replace("x", "*") for word in kept)
    value: Fraction = eval(text, {"Fraction": Fraction})  # digits and signs only
    return value


@pytest.mark.parametrize(
    ("training", "bytes_of_states"),
    [
        ({"optimizer": "adam"}, 12),
        ({"optimizer": "adam-bf16"}, 8),
        ({"optimizer": "muon"}, 8),
        ({"optimizer": "sgd"}, 8),
        ({"optimizer": "sgd", "precision": "fp32"}, 4),
        ({"optimizer": "adam-bf16", "precision": "fp16"}, 12),
        ({"optimizer": 4}, 4),
        ({"optimizer": 2.5}, Fraction(5, 2)),
    ],
)
def test_states_of_another_optimizer(training: dict[str, Any], bytes_of_states: Fraction) -> None:
    """A 32-bit copy and one or two moments, or as many bytes as are given; its traffic is twice what that changes."""
    plain, other = (setup(training={**training, **more}) for more in ({"optimizer": "adam"}, {}))
    assert state_bytes(other.training) == (*state_bytes(plain.training)[:2], bytes_of_states)
    memories = [layer_memory(one, experts=False) for one in (plain, other)]
    sizes = [total(one.optimizer) for one in memories]
    assert sizes[1] * state_bytes(plain.training).optimizer == sizes[0] * bytes_of_states
    assert memories[0].weights == memories[1].weights
    times = [float(total(optimizer_terms(one, Fraction(10**9), Fraction(0)))) for one in (plain, other)]
    less = 2 * (state_bytes(plain.training).optimizer - bytes_of_states)
    assert times[1] / times[0] == pytest.approx(float(28 - less) / 28)


@pytest.mark.parametrize(
    ("algorithm", "stages", "microbatches", "most"),
    [("1f1b", 4, 64, 4), ("1f1b", 4, 3, 3), ("zb-h2", 4, 64, 7), ("naive", 4, 64, None), ("naive", 4, 8, 8)],
)
def test_the_first_stage_keeps(algorithm: str, stages: int, microbatches: int, most: int | None) -> None:
    """A number that more microbatches do not change, or all of a few; none where it grows with them."""
    assert most_of_first(named_placement("linear", 4, stages), microbatches, algorithm) == most
