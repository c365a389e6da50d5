"""Parameters, operations and states beside those that Megatron-LM's own formulas give for 30 setups.

Where its counting of a rank differs from ours: it leaves out the norms of queries and keys, and positions; it divides
latent down-projections and their norms by the tensor ranks, which hold them whole; it averages layers and the final
norm over the stages; and its distributed optimizer forgets that context-parallel ranks share as well.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipesched.estimation.memory import ItemMemory, embedding_memory, head_memory, layer_memory
from pipesched.estimation.model import Experts, Latent, ModelShape
from pipesched.estimation.parameters import parameters, training_flops
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup
from pipesched.estimation.terms import total
from tests.estimation.setups import GPU

DATA = Path(__file__).parent.parent / "data" / "megatron_memory.json"
RUNS = {run["id"]: run for run in json.loads(DATA.read_text(encoding="utf-8"))["records"]}
CONTEXT, LATENT = "mm30", "mm51"  # the run with context parallelism, and the one with latent attention


def model_of(given: dict[str, Any], name: str) -> ModelShape:
    """The model of a run."""
    heads, frequency = given["num_attention_heads"], given["moe_layer_freq"]
    experts = latent = None
    if given["num_experts"]:
        shared, dense = given["moe_shared_expert_intermediate_size"] or 0, 0
        if isinstance(frequency, list):
            dense = frequency.index(1)
        width, active = given["moe_ffn_hidden_size"], given["moe_router_topk"]
        experts = Experts(given["num_experts"], active, width, shared, dense)
    if given["multi_latent_attention"]:
        keys = ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")
        latent = Latent(*(given[key] for key in keys))
    return ModelShape(
        name=name,
        layers=given["num_layers"],
        hidden=given["hidden_size"],
        heads=heads,
        kv_heads=given["num_query_groups"] if given["group_query_attention"] else heads,
        head=given["kv_channels"],
        ffn=given["ffn_hidden_size"],
        vocabulary=given["vocab_size"],
        mlp="gated" if given["swiglu"] else "plain",
        norm="rms" if given["normalization"] == "RMSNorm" else "layer",
        tied=not given["untie_embeddings_and_output_weights"],
        qk_norm=name.startswith("qwen3"),
        experts=experts,
        latent=latent,
    )


def setup_of(run: dict[str, Any]) -> Setup:
    """The setup of a run."""
    model, layout = model_of(run["model_args"], run["model"]), run["layout"]
    parallel = Parallel(
        layout["world_size"],
        tensor=layout["tensor_model_parallel_size"],
        pipeline=layout["pipeline_model_parallel_size"],
        context=layout["context_parallel_size"],
        expert=layout["expert_model_parallel_size"],
        expert_tensor=layout["expert_tensor_parallel_size"] if model.experts else 1,
        sequence=layout["sequence_parallel"],
    )
    batch = TokenBatch(layout["seq_length"], layout["micro_batch_size"], layout["global_batch_size"])
    return Setup(model, GPU, parallel, batch, TrainingSetup(distributed_optimizer=layout["use_distributed_optimizer"]))


def states(setup: Setup) -> Fraction:
    """Weights, gradients and optimizer of the first stage, with layers and the final norm averaged over stages."""
    model, stages = setup.model, setup.parallel.pipeline
    layers = [layer_memory(setup, experts=model.has_experts(layer)) for layer in range(model.layers)]
    head = head_memory(setup)
    norm = held(head._replace(**{key: getattr(head, key)[1:] for key in ("weights", "gradients", "optimizer")}))
    words = held(embedding_memory(setup)) + (held(head) - norm if stages == 1 else 0)
    return (sum(map(held, layers), norm)) / stages + words


def held(item: ItemMemory) -> Fraction:
    """The bytes of the states of an item."""
    return Fraction(total((*item.weights, *item.gradients, *item.optimizer)))


def bytes_each(setup: Setup) -> Fraction:
    """The bytes of a parameter's states as Megatron counts them."""
    return 6 + Fraction(12, setup.parallel.data) if setup.training.distributed_optimizer else Fraction(18)


@pytest.mark.parametrize("name", RUNS)
def test_parameters_and_operations(name: str) -> None:
    """All 30 runs; parameters as they print them, in billions with two digits."""
    setup, output = setup_of(RUNS[name]), RUNS[name]["output"]
    found = parameters(setup.model, setup.parallel.tensor)
    assert setup.padded_vocabulary == RUNS[name]["layout"]["padded_vocab_size"]
    assert found.total == pytest.approx(output["total_params_B"] * 1e9, rel=1e-3, abs=0.006e9)
    assert found.active == pytest.approx(output["active_params_B"] * 1e9, rel=1e-3, abs=0.006e9)
    operations = training_flops(setup.model, setup.batch.sequence, setup.tokens_of_step, setup.parallel.tensor)
    assert operations == pytest.approx(output["flops_per_iteration"], rel=1e-9)


@pytest.mark.parametrize("name", [name for name in RUNS if name not in (CONTEXT, LATENT)])
def test_states(name: str) -> None:
    """Weights, gradients and optimizer, every byte: theirs and the norms of queries and keys."""
    setup = setup_of(RUNS[name])
    left_out = 2 * setup.model.head * setup.model.layers if setup.model.qk_norm else 0
    theirs = RUNS[name]["output"]["weight_and_optimizer_bytes"]
    assert round(states(setup) - bytes_each(setup) * left_out / setup.parallel.pipeline) == theirs


def test_context_parallel_ranks_share_the_optimizer() -> None:
    """12 bytes a parameter over data x context ranks; Megatron's formula divides by the data-parallel ranks alone."""
    setup, theirs = setup_of(RUNS[CONTEXT]), RUNS[CONTEXT]["output"]["weight_and_optimizer_bytes"]
    ours = 6 + Fraction(12, setup.parallel.data * setup.parallel.context)
    assert round(states(setup) / ours * bytes_each(setup)) == theirs


def test_latent_down_projections_are_whole() -> None:
    """And their norms; Megatron's formula divides both by the tensor ranks."""
    setup, theirs = setup_of(RUNS[LATENT]), RUNS[LATENT]["output"]["weight_and_optimizer_bytes"]
    latent = setup.model.latent
    assert latent is not None
    ranks = latent.query_rank + latent.key_value_rank
    down = setup.model.hidden * (ranks + latent.rope) + ranks
    more = Fraction(down * setup.model.layers, 2) / setup.parallel.pipeline
    assert states(setup) - more * bytes_each(setup) == theirs
    assert states(setup) == pytest.approx(theirs, rel=0.015)


def test_all_scores_count_where_they_are_asked_for() -> None:
    """Attention between words twice: what is added is that of causal attention, 3 x 2 x s q a token and layer."""
    setup = setup_of(RUNS["mm00"])
    sizes = (setup.model, setup.batch.sequence, setup.tokens_of_step)
    more = training_flops(*sizes, whole=True) - training_flops(*sizes)
    assert more == 3 * setup.tokens_of_step * 32 * 2 * 4096 * 4096
