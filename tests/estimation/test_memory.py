"""States and activations of items, by numbers worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pipesched.estimation.memory import (
    embedding_memory,
    fixed,
    head_memory,
    layer_memory,
    logits,
    mtp_memory,
    state_bytes,
)
from pipesched.estimation.terms import total
from pipesched.estimation.times import optimizer_terms
from tests.estimation.setups import setup

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


def test_activations_of_experts() -> None:
    """The MLP of the active ones, and words that are sent there and back."""
    layer = layer_memory(setup(EXPERTS), experts=True)
    assert total(layer.activation) == KEPT + 4096 * (6 * 14336 + 4 * 4096 * 2) // 2


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


def test_full_recompute_keeps_inputs() -> None:
    """Of all layers where their number is open."""
    given = setup(training={"recompute": "full"})
    layer = layer_memory(given, experts=False)
    assert layer.activation == layer.checkpoint
    some = layer_memory(setup(training={"recompute": "full", "full_layers": 1}), experts=False)
    assert total(some.activation) == KEPT


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


def test_fixed() -> None:
    """The context of a GPU, and a twenty-fifth of the rest."""
    assert [(term.name, term.value) for term in fixed(Fraction(10**10))] == [
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
