"""Layers that differ: windows, states, indexers, single blocks; operations, memory, cuts, patterns, messages."""

from __future__ import annotations

import json
from fractions import Fraction
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError
from pipesched.estimation.communication import boundary_time
from pipesched.estimation.derived import derive, read_layout
from pipesched.estimation.huggingface import model_notes, read_model
from pipesched.estimation.items import Items, copies_sent
from pipesched.estimation.model import ModelShape, Seen
from pipesched.estimation.parameters import layer_flops, parameters
from pipesched.estimation.setup_reader import setup_of
from pipesched.pipeline.layers.layout_text import layout_text
from pipesched.results.handover.subject import layout_lines

RECORDS = {
    record["name"]: record["config"]
    for record in json.loads((Path(__file__).parents[1] / "data" / "model_counts.json").read_text())
}
NEMOTRON = "nemotron-3-nano-30b-a3b"
LLAMA: dict[str, Any] = {
    "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256,
}  # fmt: skip


def setup(model: Any, parallel: dict[str, Any] | None = None, sequence: int = 4096, **training: Any) -> Any:
    """A training run of a model on eight GPUs."""
    batch = {"sequence": sequence, "global": 64}
    return setup_of(
        model=model, hardware="h100-sxm", parallel={"gpus": 8, **(parallel or {})}, batch=batch, training=training
    ).setup


@given(st.integers(1, 60), st.integers(0, 70), st.integers(1, 4), st.booleans())
def test_pairs_are_those_that_one_counts(length: int, limit: int, stride: int, chunked: bool) -> None:
    """Pairs of tokens and keys of windows and chunks, counted one by one; of itself a token sees half."""
    size = limit or length
    chunks = [i % size + Fraction(1, 2) for i in range(length)]
    windows = [min(i, size) + (Fraction(1, 2) if i < size else 0) for i in range(length)]
    assert Seen(limit, stride, chunked).pairs(length) == 2 * sum(chunks if chunked else windows) / stride


def flops_of(name: str, layer: int, sequence: int = 4096) -> tuple[int, int]:
    """The operations of products and of the core of a layer of a published model, for a token forward."""
    model = read_model(RECORDS[name])
    found = layer_flops(model.of(layer), sequence, experts=model.has_experts(layer))
    return found.linear, found.core


def test_a_gated_delta_net_has_no_term_in_the_sequence() -> None:
    """Qwen3-Next: its products, 4 M operations in the state whatever the length, and at 4,096 tokens 34 M in a core."""
    model = read_model(RECORDS["qwen3-next-80b-a3b"])
    experts = 2 * 3 * 2048 * (512 * 10 + 512)  # routed and shared
    assert round((flops_of("qwen3-next-80b-a3b", 0)[0] - experts) / 1e6, 1) == round(
        (2 * 2048 * (2 * 16 * 128 + 2 * 32 * 128 + 64) + 2 * 4 * 8192 + 2 * 4096 * 2048) / 1e6, 1
    )
    assert flops_of("qwen3-next-80b-a3b", 0)[1] == flops_of("qwen3-next-80b-a3b", 0, 65536)[1] == 8 * 32 * 128**2
    assert flops_of("qwen3-next-80b-a3b", 3)[1] == 2 * 4096 * 16 * 256
    assert [model.of(layer).heads > 0 for layer in range(8)] == [False, False, False, True] * 2


@pytest.mark.parametrize(
    ("name", "layer", "core"),
    [
        ("gpt-oss-20b", 0, 4 * 64 * 64 * (128 - 128**2 / 8192)),  # a window of 128 of 4,096 keys
        ("gpt-oss-20b", 1, 4 * 64 * 64 * 2048),  # all
        ("llama-4-scout-text", 0, 4 * 40 * 128 * 2048),  # a chunk of 8,192 holds the sequence
        ("nemotron-3-nano-30b-a3b", 0, 7 * 64 * 64 * 128),  # Mamba-2: 7 d_i N
        ("nemotron-3-nano-30b-a3b", 1, 0),  # experts only
        ("lfm2-1.2b", 0, 0),  # a convolution
        ("kimi-linear-default", 0, 8 * 32 * 128**2),  # Kimi delta attention
        ("glm-moe-dsa-default", 5, 2 * 64 * 512 * (2048 - 2048**2 / 8192) + 4128 * 4096),  # selected
    ],
)  # fmt: skip
def test_cores_of_kinds(name: str, layer: int, core: float) -> None:
    """Each kind of layer has the operations of its formula, for a token of a sequence of 4,096."""
    assert isclose(flops_of(name, layer)[1], core, rel_tol=1e-6, abs_tol=0.5)


def test_a_longer_sequence_costs_windows_no_more() -> None:
    """The time of a sliding layer grows with tokens, that of a full one faster, that of a state with tokens."""
    for name, kinds in (("gpt-oss-20b", (0, 1)), ("qwen3-next-80b-a3b", (0, 3))):
        times = {}
        for length in (8192, 65536):
            found = Items(setup(RECORDS[name], {"expert": 8}, length)).each
            times[length] = [sum(float(term.value) for term in found[layer + 1].times.forward) for layer in kinds]
        grown = [long / short for long, short in zip(times[65536], times[8192], strict=True)]
        assert grown[0] < 8.6 < grown[1]


def test_kinds_have_parts_and_memory_of_their_own() -> None:
    """In a trace a state, its convolution and an indexer are named; a layer of one block has half of the norms."""
    items = Items(setup(RECORDS[NEMOTRON], {"expert": 8}))
    terms = [{term.name for term in item.times.forward} for item in items.each[1:8]]
    assert "state of mamba2" in terms[0]
    assert "attention core" not in terms[0]
    assert "attention core" in terms[5]
    assert "MLP up" not in terms[5]
    norms = [next(term for term in item.memory.activation if "norms" in term.name) for item in items.each[1:3]]
    assert [term.value for term in norms] == [4 * 2688 * 4096] * 2
    indexed = Items(setup(RECORDS["glm-moe-dsa-default"], {"expert": 8}, 16384)).each[1]
    assert {"scores of indexer", "kernels of indexer"} <= {term.name for term in indexed.times.forward}


def test_sizes_of_kinds_divide_among_tensor_ranks() -> None:
    """Heads of a state must divide as heads of attention do; the message names them."""
    config = {**RECORDS["qwen3-next-80b-a3b"], "linear_num_key_heads": 6, "linear_num_value_heads": 12}
    with pytest.raises(ConfigError, match="6 heads of gated delta"):
        setup(config, {"tensor": 4})


def test_cuts_are_by_kinds() -> None:
    """The best cut of a hybrid model is no equal one, and its stages hold the times of their layers."""
    run = setup(RECORDS[NEMOTRON], {"pipeline": 4, "expert": 2}, layout="balanced")
    problem = derive(run, {})
    stages = problem.cutter.stages  # type: ignore[union-attr]
    assert sum(stage.count("layer") for stage in stages) == 52
    assert [stage.time("forward") for stage in stages] == [
        sum(item.time("forward") for item in stage.held) for stage in stages
    ]
    assert len({item.time("forward") for item in Items(run).each[1:-1]}) == 3  # M, E and *


@pytest.mark.parametrize("layers", [2, 5])
def test_recompute_of_some_layers_takes_the_slowest(layers: int) -> None:
    """Full recompute of some layers of each stage is of its slowest ones, so a layer more never makes it faster."""
    items = Items(setup(RECORDS[NEMOTRON], {"expert": 2}, recompute={"full": layers}))
    ends = [items.stage(0, end) for end in range(1, len(items) + 1)]
    assert [stage.work for stage in ends] == sorted(stage.work for stage in ends)
    stage = items.stage(1, 12)
    times = [items.each[number].time("recompute") for number in range(1, 12)]
    assert sorted(items.each[number].time("recompute") for number in stage.again) == sorted(times)[-layers:]


def test_patterns_are_read_and_written() -> None:
    """A hybrid model's pattern with | between stages is a layout, and layouts are written so."""
    model = read_model(RECORDS[NEMOTRON])
    assert model.letters == RECORDS[NEMOTRON]["hybrid_override_pattern"]
    text = f"{model.letters[:14]}|{model.letters[14:30]}|{model.letters[30:41]}|{model.letters[41:]}"
    run = setup(RECORDS[NEMOTRON], {"pipeline": 4, "expert": 2}, layout=text)
    stages = read_layout(run, text)
    assert [stage.layers for stage in stages] == [14, 16, 11, 11]
    assert layout_text(model.letters, stages) == text
    assert f"--hybrid-layer-pattern '{text}'" in "\n".join(layout_lines(model.letters, stages, 4))
    with pytest.raises(ConfigError, match=r"must be the pattern of the model with \| between stages: MEMEM"):
        read_layout(run, "ME|MEM")
    listed = read_model({**RECORDS[NEMOTRON], "hybrid_override_pattern": "MEMEM|*E"})
    assert (listed.layers, listed.letters) == (7, "MEMEM*E")


def test_messages_behind_mtp_layers_are_larger() -> None:
    """A stage of an MTP layer alone sends the hidden states of the model and its own: twice as much."""
    config = {**RECORDS["deepseek-v3-default"], "num_hidden_layers": 6}
    run = setup(config, {"pipeline": 4, "expert": 2}, layout="Et*3|t*3|m|L")
    problem = derive(run, {})
    assert copies_sent(problem.cutter.stages) == (1, 1, 2, 2)  # type: ignore[union-attr]
    first, second, last = (float(value) for value in problem.costs.p2p)  # type: ignore[arg-type]
    assert first == second
    assert isclose(last, 2 * second, rel_tol=1e-3)
    assert isclose(float(boundary_time(run, across=False).value), second, abs_tol=1e-3)


def test_streams_of_residuals_are_sent_and_kept() -> None:
    """Hyper-connections run four residuals side by side: each is sent on, and kept as a layer's input."""
    run = setup(RECORDS["deepseek-v4-default"], {"expert": 8})
    plain = setup({**RECORDS["deepseek-v4-default"], "hc_mult": 1}, {"expert": 8})
    assert isclose(float(boundary_time(run, across=True).value), 4 * float(boundary_time(plain, across=True).value))
    assert Items(run).each[1].size("checkpoint") == 4 * Items(plain).each[1].size("checkpoint")


KIMI: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2", "hidden_size": 7168,
    "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64,
    "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1,
    "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "vocab_size": 163840, "num_nextn_predict_layers": 0, "tie_word_embeddings": False,
    "hidden_act": "silu",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["kimi_k2", "kimi_k9"])
def test_architectures_are_believed(kind: str) -> None:
    """Kimi K2 is a DeepSeek-V3: 1026 billion parameters, 32.86 active, and one note that says so."""
    config = {**KIMI, "model_type": kind}
    counts = parameters(read_model(config))
    assert (round(counts.total / 1e9), round(counts.active / 1e9, 2)) == (1026, 32.86)
    assert list(model_notes(config)) == [f"model_type {kind!r} is read as deepseek_v3"]


def test_a_deleted_model_type_is_found_again() -> None:
    """Without model_type a file's architectures count, so a Qwen3-Next is no llama."""
    config = {**RECORDS["qwen3-next-80b-a3b"], "architectures": ["Qwen3NextForCausalLM"]}
    del config["model_type"]
    assert read_model(config) == read_model({**config, "model_type": "qwen3_next"}, "qwen3_next")
    del config["architectures"]
    with pytest.raises(ConfigError, match="unknown kind 'linear_attention' of layer 0"):
        read_model(config)


def test_no_type_is_proposed_for_another() -> None:
    """An unknown type lists what is known; it is never told that it may have meant another one."""
    with pytest.raises(ConfigError) as caught:
        read_model({**LLAMA, "model_type": "qwen3_nexd"})
    assert "did you mean" not in caught.value.message


# What transformers 5.23.0 builds where a file leaves a key out, in billions
SHORT = {
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "intermediate_size": 3072,
    "vocab_size": 151936,
}


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("qwen3_moe", lambda model: model.experts.width, 768),
        ("mixtral", lambda model: model.experts.count, 8),
        ("mixtral", lambda model: model.kv_heads, 8),
        ("qwen3_moe", lambda model: model.kv_heads, 4),
        ("mistral", lambda model: model.kv_heads, 8),
        ("qwen2_moe", lambda model: model.experts.shared, 5632),
        ("deepseek_v3", lambda model: model.experts.dense_layers, 3),
        ("deepseek_v3", lambda model: model.experts.shared, 2048),
        ("deepseek_v3", lambda model: model.latent.query_rank, 1536),
        ("llama", lambda model: model.kv_heads, 16),
    ],
)  # fmt: skip
def test_what_a_file_leaves_out_is_the_types_own(kind: str, field: Any, value: int) -> None:
    """Keys that a file leaves out are those of its type, and a note lists them; null means that there is none."""
    config = {**SHORT, "model_type": kind}
    assert field(read_model(config)) == value
    (note,) = (note for note in model_notes(config) if note.startswith("left out"))
    assert (note == "left out, so as transformers has them: head_dim 64") == (kind == "llama")


def test_null_is_no_default() -> None:
    """A key that is null is not there: keys of all heads, queries that are not compressed."""
    assert read_model({**SHORT, "model_type": "mistral", "num_key_value_heads": None}).kv_heads == 16
    latent = read_model({**SHORT, "model_type": "deepseek_v3", "q_lora_rank": None}).latent
    assert latent is not None
    assert latent.query_rank == 0


def test_experts_that_no_key_names_are_told() -> None:
    """Keys that smell of experts beside a dense model are a note; each name of their number is read."""
    [note] = model_notes({**LLAMA, "moe_hidden_width": 128})
    assert note == "moe_hidden_width: keys of experts, but none were read: all layers are dense"
    named = {**LLAMA, "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 64}
    model: ModelShape = read_model(named)
    assert model.experts is not None
    assert (model.experts.count, model.experts.active) == (8, 2)


def test_a_path_says_what_does_not_count(tmp_path: Path) -> None:
    """Keys of a file that are not known, and parts of other modalities, stand in a note, as those of a mapping do."""
    nested = {"text_config": {**LLAMA, "model_type": "llama", "foo": 1}, "vision_config": {"depth": 3}}
    (tmp_path / "config.json").write_text(json.dumps(nested))
    run = setup_of(
        model=f"{tmp_path}/config.json", hardware="h100-sxm", parallel={"gpus": 1}, batch={"sequence": 128, "global": 1}
    )
    assert "vision_config, foo: not known, not counted" in run.notes
