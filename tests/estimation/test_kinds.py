"""Kinds of models and of numbers: experts, latent attention, multi-token prediction, precisions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError
from pipesched.estimation.communication import boundary_time, data_terms, expert_terms, gather_terms, tensor_terms
from pipesched.estimation.derived import derive, read_layout
from pipesched.estimation.hardware import LOW, precisions_of
from pipesched.estimation.huggingface import model_notes, read_model
from pipesched.estimation.items import Items, Stage, copies_sent
from pipesched.estimation.memory import head_memory, layer_memory, mtp_memory
from pipesched.estimation.model import ModelShape, Seen
from pipesched.estimation.parameters import layer_flops, parameters
from pipesched.estimation.setup import Setup
from pipesched.estimation.setup_reader import setup_of
from pipesched.estimation.terms import Term, total
from pipesched.estimation.times import OPERATIONS, Product, head_times, layer_times
from pipesched.pipeline.layers.layout_text import layout_text
from pipesched.results.handover.subject import layout_lines
from tests.estimation.setups import setup as made_setup

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
    return layer_flops(model.of(layer), sequence, experts=model.has_experts(layer))


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
    ends = [Stage(items, 0, end) for end in range(1, len(items) + 1)]
    assert [stage.work for stage in ends] == sorted(stage.work for stage in ends)
    stage = Stage(items, 1, 12)
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


HOPPER: dict[str, Any] = {"fp8": 2000}
BLACKWELL: dict[str, Any] = {"fp8": 2000, "mxfp8": 2000, "nvfp4": 4000}
SPLIT = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336  # of a layer of the small llama
NORMS = 2 * 4096
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
BLOCK, FOUR = Fraction(33, 32), Fraction(9, 16)


def low(precision: str, hardware: dict[str, Any] | None = None, **parts: Any) -> Setup:
    """The small llama in a precision."""
    training = {"precision": precision, **parts.pop("training", {})}
    return made_setup(training=training, **parts, **(BLACKWELL if hardware is None else hardware))


def named(terms: Iterable[Term]) -> dict[str, Term]:
    """Terms by their names."""
    return {term.name: term for term in terms}


@pytest.mark.parametrize(
    ("precision", "hardware", "weight"),
    [
        ("fp8", HOPPER, 2),
        ("fp8", BLACKWELL, 1),
        ("fp8-blockwise", HOPPER, 2 + 2 * BLOCK),
        ("mxfp8", BLACKWELL, 2 * BLOCK),
        ("nvfp4", BLACKWELL, 2 * FOUR),
    ],
)
def test_bytes_of_a_weight(precision: str, hardware: dict[str, Any], weight: Fraction) -> None:
    """Of linear layers and experts, both copies where products take one order; norms and all else as in bf16."""
    given = low(precision, hardware)
    layer, wide = layer_memory(given, experts=False), layer_memory(made_setup(), experts=False)
    assert total(layer.weights) == weight * SPLIT / 2 + 2 * NORMS
    assert (total(layer.gradients), total(layer.optimizer)) == (total(wide.gradients), total(wide.optimizer))
    assert total(layer.parameters) == total(wide.parameters)
    assert head_memory(given) == head_memory(made_setup())
    experts = low(precision, hardware, model=EXPERTS, parallel={"expert": 2})
    held = named(layer_memory(experts, experts=True).weights)
    assert held["experts"].value == weight * 8 * 3 * 4096 * 14336 / 2
    assert held["whole on each tensor rank"].value == 2 * (NORMS + 8 * 4096)


def test_an_embedding_beside_an_mtp_layer_stays_in_16_bits() -> None:
    """The layer and what joins its inputs are in 8 bits, the vocabulary to look up is not."""
    held = named(mtp_memory(low("fp8", model={"num_nextn_predict_layers": 1, "model_type": "llama"})).weights)
    assert held["split over tensor ranks"].value == 2 * 32000 * 4096 / 2


@pytest.mark.parametrize(
    ("precision", "each"), [("fp8", 1), ("fp8-blockwise", BLOCK), ("mxfp8", BLOCK), ("nvfp4", FOUR)]
)
def test_activations(precision: str, each: Fraction) -> None:
    """Inputs of linear layers in few bits; inputs of norms, q, k, v, gate and up in 16; attention's result in both."""
    kept = total(layer_memory(low(precision), experts=False).activation)
    inner = (4 + each) * 4096 + 4 * 1024 + (4 + each) * 14336
    assert kept == 4096 * ((4 + 2 * each) * 4096 + inner) / 2
    again = low(precision, training={"recompute": "full"})
    assert total(layer_memory(again, experts=False).activation) == 4096 * 2 * 4096 / 2


@pytest.mark.parametrize("precision", LOW)
def test_times_of_a_layer(precision: str) -> None:
    """Products at the peak of their precision, core, kernels and head as in bf16; a weight gradient is products."""
    given, wide = low(precision), made_setup()
    layer, before = layer_times(given, experts=False), layer_times(wide, experts=False)
    share = getattr(given.hardware.efficiency, {"fp8-blockwise": "fp8"}.get(precision, precision))
    for operation in OPERATIONS:
        mine, theirs = named(getattr(layer, operation)), named(getattr(before, operation))
        up, size = mine["MLP up"], 2 * 4096 * 4096 * 14336 * 2 / 2
        curve = Product("", size).share(given.peak)  # of a higher peak: less of it
        best = 0.65 if operation == "backward_weight" else 0.6
        assert float(up.value) == pytest.approx(size / (given.peak * best * share * curve) * 1e-9)
        assert f"x {share:g} in {precision}" in up.formula
        for same in {"attention core", "elementwise", "kernels"} & {*theirs}:
            assert mine[same] == theirs[same]
        assert ("numbers in few bits" in mine) == (operation != "backward_weight")
    assert head_times(given) == head_times(wide)


@pytest.mark.parametrize(
    ("precision", "hardware", "moved"),
    [
        ("fp8", HOPPER, 4),
        ("fp8", BLACKWELL, 3),
        ("mxfp8", BLACKWELL, 2 + 2 * BLOCK),
        ("nvfp4", BLACKWELL, 4 + 2 * FOUR),
    ],
)
def test_bytes_that_make_few_bits(precision: str, hardware: dict[str, Any], moved: Fraction) -> None:
    """Read in 16 bits, written in each order: inputs of four linear layers, and the gradients of their results."""
    layer = layer_times(low(precision, hardware), experts=False)
    inputs, results = 2 * 4096 + 4096 + 14336, 2 * 4096 + 4096 + 2 * 1024 + 2 * 14336
    for terms, width in ((layer.forward, inputs), (layer.backward_input, results)):
        found = float(named(terms)["numbers in few bits"].value)
        assert found == pytest.approx(float(moved) * 4096 * width / 2 / (3000e9 * 0.7) * 1e3)


def test_messages() -> None:
    """Gathers before products in few bits, reductions not; dispatch in blocks alone; parameters by recipe."""
    whole = made_setup()
    for operation, share in (("forward", 0.75), ("backward_input", 2 / 3)):
        mine, theirs = (total(tensor_terms(one, operation)) for one in (low("fp8"), whole))
        assert float(mine) == pytest.approx(share * float(theirs))
    split = {"tensor": 2, "sequence": False}
    plain = low("fp8", parallel=split), made_setup(parallel=split)
    assert tensor_terms_of(plain[0]) == tensor_terms_of(plain[1])
    experts: dict[str, Any] = {"model": EXPERTS, "parallel": {"tensor": 1, "pipeline": 1, "expert": 8}}
    wide = total(expert_terms(made_setup(**experts)))
    for precision, share in (("fp8", 1), ("mxfp8", 1), ("fp8-blockwise", (1 + 33 / 64) / 2)):
        assert float(total(expert_terms(low(precision, **experts)))) == pytest.approx(share * float(wide))
        assert total(expert_terms(low(precision, **experts), "backward_input")) == wide
    data: dict[str, Any] = {"parallel": {"gpus": 64}}
    count, part = Fraction(10**9), Fraction(6 * 10**8)
    before = named(data_terms(made_setup(**data), count, Fraction(0), part))
    for precision, each in (("fp8", 1), ("fp8-blockwise", 2), ("mxfp8", 2), ("nvfp4", FOUR)):
        found = named(data_terms(low(precision, **data), count, Fraction(0), part))
        assert found["gradients"] == before["gradients"]
        share = float(4 * 10**8 * 2 + part * each) / 2e9
        assert float(found["parameters"].value) == pytest.approx(share * float(before["parameters"].value))


def tensor_terms_of(given: Setup) -> list[Term]:
    """The messages of tensor ranks in both directions."""
    return [*tensor_terms(given, "forward"), *tensor_terms(given, "backward_input")]


def test_weights_that_ranks_gather_and_hold() -> None:
    """Sharded weights: a gather sends half of the bytes in fp8, and a stage holds what its layers do."""
    given, wide = (one(parallel={"gpus": 64}, training={"shard": "weights"}) for one in (low_fp8, made_setup))
    count = Fraction(10**9)
    whole, half = (float(gather_terms(one, count, Fraction(0), count)[0].value) for one in (wide, given))
    assert half == pytest.approx(whole / 2, rel=2e-2)  # hops take what they took
    found = pipesched.estimate(None, "1f1b", trust=False, **CONFIG, training={"precision": "fp8", "shard": "weights"})
    stage = found.stages[1]
    assert found.problem.memory.weights is not None
    held = stage.size("low") * 2 + (stage.size("parameters") - stage.size("low")) * 2
    assert float(found.problem.memory.weights[1]) == pytest.approx(float(held) / 1e9, rel=1e-6)


def low_fp8(**parts: Any) -> Setup:
    """In fp8 on a GPU whose products take any order."""
    return low("fp8", **parts)


CONFIG: dict[str, Any] = {
    "model": "llama-3-8b",
    "hardware": "h100-sxm",
    "parallel": {"gpus": 16, "pipeline": 4},
    "batch": {"sequence": 4096, "global": 32},
}


def test_each_gpu_has_its_precisions() -> None:
    """By the peaks that it has; another is one refusal that names these."""
    assert precisions_of(made_setup().hardware) == ("bf16", "fp16", "fp32")
    assert precisions_of(low("fp8").hardware) == ("bf16", "fp16", "fp32", *LOW)
    with pytest.raises(ConfigError, match=r"test-gpu has no products in fp8; it has bf16, fp16, fp32$") as caught:
        made_setup(training={"precision": "fp8"})
    assert caught.value.key == "training.precision"
    with pytest.raises(ConfigError, match=r"test-gpu has no products in mxfp8; it has bf16, .*, fp8, fp8-blockwise$"):
        low("mxfp8", HOPPER)


def test_peaks_of_a_gpu_of_ones_own() -> None:
    """`hardware` gives them; without shares the usual ones count, and rates are shares of the peak that is used."""
    numbers = {"tflops": 1000, "memory": 90, "bandwidth": 3000, "nvlink": 400, "fp8": 2000}
    both = [
        pipesched.estimate(None, trust=False, **{**CONFIG, "hardware": numbers, "training": {"precision": name}})
        for name in ("bf16", "fp8")
    ]
    assert both[1].step.time < both[0].step.time
    for found, peak in zip(both, (1000, 2000), strict=True):
        assert found.step.mfu == pytest.approx(found.step.model_tflops_per_gpu / peak)
    slow = {**CONFIG, "hardware": numbers, "training": {"precision": "fp8", "efficiency": {"fp8": 0.2}}}
    assert pipesched.estimate(None, trust=False, **slow).step.time > both[1].step.time
    with pytest.raises(ConfigError, match=r"hardware\.fp8: must be more than 0"):
        pipesched.estimate(None, trust=False, **{**CONFIG, "hardware": {**numbers, "fp8": 0}})
    with pytest.raises(ConfigError, match=r"efficiency\.nvfp4: must be above 0 and at most 1, not 2"):
        pipesched.estimate(None, trust=False, **{**CONFIG, "training": {"efficiency": {"nvfp4": 2}}})


def test_evidence_by_precision() -> None:
    """Intervals in 8 bits rest on runs in 8 bits; bf16 knows none of them; what nobody ran lies outside."""
    few, wide = (pipesched.estimate(None, **CONFIG, training={"precision": name}) for name in ("fp8", "bf16"))
    assert few.trust is not None
    assert wide.trust is not None
    assert any("fp8" in run.run for run in few.trust.evidence.nearest)
    assert not any("fp8" in run.run for run in wide.trust.evidence.nearest)
    blocks = pipesched.estimate(None, **CONFIG, training={"precision": "fp8-blockwise"})
    assert blocks.trust is not None
    assert [one.field for one in blocks.trust.evidence.outside] == ["precision"]
    ratio, back = few.against(wide), wide.against(few)
    assert ratio.faster > 0.99
    assert 0.6 < ratio.expected < 0.85
    assert back.expected == pytest.approx(1 / ratio.expected, rel=1e-9)
