"""Times of operations: terms, attention, pairs, and published steps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

import pipesched
from pipesched import Estimate, schedule_plan
from pipesched.estimation.communication import (
    boundary_time,
    data_terms,
    expert_terms,
    is_across,
    message_terms,
    tensor_terms,
)
from pipesched.estimation.derived import derive
from pipesched.estimation.hardware import Efficiency, GpuModel
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.items import NETWORK, OWNERS, backward_pieces, forward_pieces, partner
from pipesched.estimation.model_reader import preset_model
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup
from pipesched.estimation.terms import AGAIN, Term, total
from pipesched.estimation.times import (
    CAUSAL,
    NOT_CAUSAL,
    OPERATIONS,
    Product,
    context_terms,
    core_flops,
    core_terms,
    embedding_times,
    head_times,
    kernel_share,
    layer_products,
    layer_times,
    mtp_times,
    optimizer_terms,
)
from pipesched.estimation.trace import trace
from pipesched.pipeline.problem.costs import in_one
from pipesched.pipeline.problem.quantities import to_fraction
from published_context import NEAR as NEAR_CONTEXT, RING, steps
from published_runs import DENSE, MOE, PARTS, Run, left_out, published_runs, records, records_of
from published_times import Compared, compare, ratios, summary
from tests.estimation.setups import setup
from tests.examples import at_night_but
from validate_estimate import FITTED, misses

ALL = Efficiency(1, 1, 1, 1, 1, 1, 1, 0, 0, 0.5, 0.5)
BILLION = Fraction(10**9)
GPU = GpuModel(name="GPU", tflops=312, memory=80, bandwidth=2000, pcie=32, nic=25, efficiency=ALL, nvlink=300)


def a_setup(model: str = "gpt-3-175b", **parts: Any) -> Setup:
    """A setup on a GPU that reaches all its numbers; `parts` change its layout, batch and training."""
    keys = {"gpus": 8, "tensor": 8} | parts.pop("parallel", {})
    training = {"flash_attention": False} | parts.pop("training", {})
    hardware = parts.pop("hardware", GPU)
    data = keys["gpus"] // (keys["tensor"] * keys.get("pipeline", 1) * keys.get("context", 1))
    batch = TokenBatch(2048, 4, 4 * data)
    return Setup(preset_model(model), hardware, Parallel(**keys), batch, TrainingSetup(**training))


def named(terms: Iterable[Term]) -> dict[str, float]:
    """The terms by name."""
    return {term.name: float(term.value) for term in terms}


def test_a_layer_by_hand() -> None:
    """GPT-3's on 8 tensor ranks, 4 sequences of 2,048: 24 n h^2 of products, 4 n s h of scores, and bytes."""
    given = a_setup()
    n, h, s, t = 4 * 2048, 12288, 2048, 8
    assert sum(product.flops for product in layer_products(given, experts=False)) == 24 * n * h**2 / t
    forward = named(layer_times(given, experts=False).forward)
    assert forward["attention core"] == pytest.approx(4 * n * s * h / t / 312e12 * 1e3)
    assert forward["elementwise"] == pytest.approx(n * (20 * h + 16 * h / t) / 2000e9 * 1e3)
    assert forward["softmax of attention"] == pytest.approx(8 * n * s * 96 / t / 2000e9 * 1e3)
    assert forward["tensor-parallel communication"] == pytest.approx(2 * 2 * (2 * n * h) * 7 / 8 / 300e9 * 1e3)


def test_sequence_parallelism_gathers_inputs_again() -> None:
    """As much forward as all-reduces, and half as much more backward; overlap exposes a share."""
    plain, sequence = a_setup(), a_setup(parallel={"sequence": True})
    for operation, more in (("forward", 1.0), ("backward_input", 1.5)):
        one, other = (float(total(tensor_terms(given, operation))) for given in (plain, sequence))
        assert other == pytest.approx(more * one)
    hidden = a_setup(training={"tensor_overlap": True})
    assert total(tensor_terms(hidden, "forward")) == pytest.approx(total(tensor_terms(plain, "forward")) / 2)


def test_fused_attention_computes_half_of_the_scores() -> None:
    """Forward half, backward 2.5 times that; a quarter more with dropout."""
    whole, fused = a_setup(), a_setup(training={"flash_attention": True})
    assert core_flops(fused) == core_flops(whole) / 2
    times = layer_times(fused, experts=False)
    forward, backward = (named(terms)["attention core"] for terms in (times.forward, times.backward_input))
    assert backward == pytest.approx(2.5 * forward)
    drawn = replace(fused, model=replace(fused.model, dropout=True))
    assert named(layer_times(drawn, experts=False).forward)["attention core"] == pytest.approx(1.25 * forward)


def test_recompute() -> None:
    """Full: all of a forward again. Selective: the scores, where attention is not fused."""
    none = layer_times(a_setup(), experts=False)
    full = layer_times(a_setup(training={"recompute": "full"}), experts=False)
    assert total(full.backward_input) == pytest.approx(float(total(none.backward_input)) + float(total(none.forward)))
    selective = layer_times(a_setup(training={"recompute": "selective"}), experts=False)
    again = {name for name in named(selective.backward_input) if name.startswith("again")}
    assert again == {"again: attention core", "again: softmax of attention"}


def test_products_need_a_size() -> None:
    """The curve of an A100; a GPU three times as fast needs products three times as large."""
    assert Product("", 16e9).share(312) == pytest.approx(0.9)
    assert Product("", 8.5e9).share(312) == pytest.approx(0.75)
    assert Product("", 48e9).share(936) == pytest.approx(0.9)
    assert Product("", 1e15).share(312) == pytest.approx(0.99)


def test_a_token_goes_once_to_each_node() -> None:
    """Experts on 32 ranks, 8 a node, 8 of them active: to 3 (1 - (3/4)^8) other nodes, not to 7.75 ranks."""
    given = a_setup("qwen3-235b-a22b", parallel={"gpus": 32, "tensor": 1, "expert": 32})
    (term,) = expert_terms(given)
    copies = 3 * (1 - 0.75**8)
    assert term.value == pytest.approx(2 * 2 * given.tokens * 4096 * copies / 25e9 * 1e3)
    rack = replace(given, hardware=replace(GPU, nvlink_gpus=72))
    (inside,) = expert_terms(rack)
    assert inside.value == pytest.approx(2 * 2 * given.tokens * 4096 * 31 * (1 - (31 / 32) ** 8) / 300e9 * 1e3)


@pytest.mark.parametrize(("gpus", "each"), [(32, 72), (256, 64), (148, 37), (4 * 71, 71)])
def test_one_rule_says_what_a_rack_joins(gpus: int, each: int) -> None:
    """Racks of 72 have equal parts of a run: for messages between stages, for tokens of experts, for collectives."""
    hardware, batch = replace(GPU, nvlink_gpus=72, gpus_per_node=4), TokenBatch(4096, 1, gpus)
    given = a_setup("qwen3-30b-a3b", parallel={"gpus": gpus, "tensor": 1, "pipeline": 2}, hardware=hardware)
    given = replace(given, batch=batch)
    assert given.neighbours == each


def test_stages_of_a_rack_hold_their_experts() -> None:
    """Of 256 GPUs in 4 racks, devices of 64 and of 32: tokens stay in a rack, and messages cross where devices do."""
    hardware = replace(GPU, nvlink_gpus=72, gpus_per_node=4)
    for pipeline, expert, across in ((4, 64, [True] * 3), (8, 32, [False, True] * 3 + [False])):
        parallel = {"gpus": 256, "tensor": 1, "pipeline": pipeline, "expert": expert}
        given = a_setup("qwen3-235b-a22b", parallel=parallel, hardware=hardware)
        assert [is_across(given, device, device + 1) for device in range(pipeline - 1)] == across
        (term,) = expert_terms(given)
        assert "link in the node" in term.formula


def test_experts_spare_the_tensor_communication_of_an_mlp() -> None:
    """Half of it, but where all tokens run a shared expert; tensor ranks of an expert gather and reduce."""
    given = a_setup("qwen3-235b-a22b", parallel={"gpus": 8, "tensor": 4, "expert": 8, "sequence": True})
    whole, half = (total(tensor_terms(given, "forward", experts=experts)) for experts in (False, True))
    assert half == pytest.approx(float(whole) / 2)
    shared = a_setup("deepseek-v3", parallel={"gpus": 8, "tensor": 4, "expert": 8, "sequence": True})
    assert total(tensor_terms(shared, "forward", experts=True)) == total(tensor_terms(shared, "forward"))
    split = a_setup("mixtral-8x7b", parallel={"gpus": 8, "tensor": 4, "expert": 2, "expert_tensor": 2})
    names = [term.name for term in expert_terms(split)]
    assert names == ["dispatch and combine", "tensor-parallel communication of experts"]


def test_a_layer_of_small_experts_waits_for_its_host() -> None:
    """However few its tokens are: 230, 300 and 100 launches of 15 us."""
    given = replace(a_setup("qwen3-30b-a3b", parallel={"tensor": 1, "expert": 8}), batch=TokenBatch(16, 1, 8))
    times = layer_times(given, experts=True)
    assert [float(total(getattr(times, key))) for key in OPERATIONS] == pytest.approx([3.45, 4.5, 1.5])


def test_messages_between_stages() -> None:
    """On their way by bytes; each layer has its share of what they hold up GPUs, all layers that of all stages."""
    slow = replace(GPU, efficiency=replace(ALL, latency=0.3))
    given = a_setup(parallel={"gpus": 32, "tensor": 4, "pipeline": 8, "chunks": 2}, hardware=slow)
    whole = 2 * given.tokens * 12288
    assert boundary_time(given, across=True).value == pytest.approx(whole / 25e9 * 1e3)
    assert boundary_time(given, across=False).value == pytest.approx(whole / 300e9 * 1e3)
    assert total(message_terms(given)) * 96 == pytest.approx(0.3 * 16)
    assert not [*message_terms(a_setup(hardware=slow))]


def test_once_a_step() -> None:
    """Gradients in 32 bits and parameters in 16, half exposed, over all cards of a node; 28 bytes of Adam."""
    given = a_setup(parallel={"gpus": 32, "tensor": 2})
    gradients, parameters = data_terms(given, BILLION, Fraction(0))
    assert gradients.value == pytest.approx(4 * 15 / 16 / (25 * 4) * 1e3 / 2)
    assert parameters.value == pytest.approx(2 * 15 / 16 / (25 * 4) * 1e3 / 2)
    (adam,) = optimizer_terms(given, BILLION, Fraction(0))
    assert adam.value == pytest.approx(28 / 16 / 2000 * 1e3)
    whole = replace(given, training=replace(given.training, distributed_optimizer=False))
    (both,) = data_terms(whole, BILLION, Fraction(0))
    assert both.value == pytest.approx(8 * 15 / 16 / (25 * 4) * 1e3 / 2)
    assert optimizer_terms(whole, BILLION, Fraction(0))[0].value == pytest.approx(28 / 2000 * 1e3)


def formula_value(formula: str) -> float:
    """The milliseconds of a formula: its numbers without their units, which are all of one scale but microseconds."""
    text = re.sub(r"network of \d+ ranks,|, at least 0", "", formula).replace(" x ", " * ")
    text = re.sub(r"([\d.]+) us", r"\1 * 1e-3", text)
    text = re.sub(r"(?!max\b)\b[A-Za-z/]*[A-Za-z](?<!\de)[A-Za-z/]*", "", text)
    return max(float(eval(text)), 0.0)


@pytest.mark.parametrize(
    ("model", "parallel", "training"),
    [
        ("gpt-3-175b", {"gpus": 64, "tensor": 8, "pipeline": 4, "chunks": 2}, {"recompute": "selective"}),
        ("llama-3-70b", {"gpus": 64, "tensor": 4, "context": 4, "sequence": True}, {"flash_attention": True}),
        ("llama-3-8b", {"gpus": 64, "tensor": 2, "context": 16}, {"flash_attention": True, "recompute": "full"}),
        ("llama-3-8b", {"gpus": 64, "tensor": 2, "context": 16}, {"flash_attention": True, "context": "gather"}),
        ("mixtral-8x22b", {"gpus": 64, "tensor": 2, "expert": 8, "expert_tensor": 2}, {"recompute": "full"}),
        ("deepseek-v3", {"gpus": 64, "tensor": 2, "expert": 32, "pipeline": 1}, {"flash_attention": True}),
    ],
)
@pytest.mark.parametrize("gpu", ["a100-80gb-sxm", "h100-sxm", "gb200"])
def test_formulas_give_their_values(model: str, parallel: dict[str, Any], training: dict[str, Any], gpu: str) -> None:
    """Of every term of every item, to the digits that they print."""
    given = a_setup(model, parallel=parallel, training=training, hardware=preset_hardware(gpu))
    items = [layer_times(given, experts=given.model.experts is not None), head_times(given), embedding_times(given)]
    items += [mtp_times(given)] if given.model.mtp else []
    terms = [term for times in items for operation in OPERATIONS for term in getattr(times, operation)]
    many = replace(given.batch, size=72 * given.batch.size)  # GB200s have 72 neighbours
    wide = replace(given, parallel=replace(given.parallel, gpus=72 * given.parallel.gpus), batch=many)
    terms += [*data_terms(given, BILLION, BILLION / 10), *data_terms(wide, BILLION, BILLION / 10)]
    terms += [*optimizer_terms(given, BILLION, BILLION / 10)]
    for term in terms:
        assert formula_value(term.formula) == pytest.approx(float(term.value), rel=6e-3, abs=2e-3), term


RUNS = published_runs()


@cache
def judged(kind: str) -> tuple[list[Run], list[Compared]]:
    """The published runs of a kind, beside ours."""
    runs = [run for run in RUNS if run.kind == kind]
    return runs, list(compare(runs))


@pytest.mark.parametrize("kind", [DENSE, MOE])
@pytest.mark.slow
def test_published_steps(kind: str) -> None:
    """Dense on A100 and H100: median 7 %, 90th percentile 15 %. Mixtures of experts: each within 20 %."""
    runs, rows = judged(kind)
    assert not misses(kind, runs, rows)
    assert kind == DENSE or all(abs(row.error) <= 0.2 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", FITTED)
def test_published_steps_of_each_gpu(gpu: str) -> None:
    """The same goal for dense models on either."""
    runs, rows = judged(DENSE)
    errors = [row.error for run, row in zip(runs, rows, strict=True) if run.setup.hardware.name == gpu]
    found = summary(gpu, errors)
    assert (found.median <= 0.07, found.ninetieth <= 0.15) == (True, True)


def test_published_parts() -> None:
    """F, I and W of stages on an A100, and a layer's forward and backward: within 8 %."""
    _, rows = judged(PARTS)
    assert max(abs(row.error) for row in rows if not row.name.endswith("p2p")) <= 0.08


def test_ratios_between_schedules() -> None:
    """The smallest configurations of Zero Bubble's table 4: interleaved, ZB-1p and ZB-2p over 1F1B."""
    found = list(ratios(compare(run for run in RUNS if run.name.startswith(("zb-t4-1.5B", "zb-t4-6.2B")))))
    assert len(found) == 9
    assert max(abs(row.error) for row in found) <= 0.042


def test_every_record_is_compared_or_left_out() -> None:
    """Each with a reason."""
    skipped = left_out()
    assert len(RUNS) + len(skipped) == len(records()) + 73 == 310
    assert all(run.reason for run in skipped)


MORE: tuple[dict[str, Any], ...] = ({}, {"gpus_per_nic": 2})
SHARES = Efficiency(1, 1, 1, 0.5, 0.5, 0.5, 0.748, 10, 0, 0.5, 0.5)
ATTENTION_GPU = GpuModel(
    name="GPU", tflops=1000, memory=80, bandwidth=4000, pcie=64, nic=50, efficiency=SHARES, nvlink=450
)


def long_setup(model: str = "llama-3-70b", *, sequence: int = 8192, micro: int = 1, **parts: Any) -> Setup:
    """Tensor 2 and context 8 at sequences of 8,192 on 16 GPUs of two nodes, with changes."""
    keys = {"gpus": 16, "tensor": 2, "context": 8, "sequence": True} | parts.pop("parallel", {})
    training = TrainingSetup(**parts.pop("training", {}))
    hardware = replace(ATTENTION_GPU, **parts)
    return Setup(preset_model(model), hardware, Parallel(**keys), TokenBatch(sequence, micro, 64), training)


def attention_terms(given: Setup, operation: str = "forward") -> dict[str, Term]:
    """The terms of attention and of the exchange of keys and values, by name."""
    return {term.name: term for term in (*core_terms(given, operation), *context_terms(given, operation))}


@pytest.mark.parametrize(
    ("keys", "causal", "share"),
    [
        (256, True, 0.55), (1024, True, 0.75), (1 << 20, True, 1.0), (1024 * 2**0.5, True, 0.815), (2048, False, 0.98),
        (512 * 2**0.5, False, 0.86),
    ],
)  # fmt: skip
def test_short_kernels_are_slower(keys: float, causal: bool, share: float) -> None:
    """The tables, linear in octaves between their rows, and their ends beyond them."""
    assert kernel_share(keys, causal=causal) == pytest.approx(share)


@pytest.mark.parametrize(("table", "causal"), [(CAUSAL, True), (NOT_CAUSAL, False)])
def test_shares_of_short_kernels_are_means_of_published_ones(
    table: tuple[tuple[int, float], ...], causal: bool
) -> None:
    """Of three libraries, each over its rate at 16,384 keys: within 0.03."""
    (record,) = [r for r in records_of("measured_attention.json") if r["what"] == "forward" and r["causal"] == causal]
    for keys, share in table:
        place = record["sequence"].index(keys)
        rates = [each[place] / each[-1] for each in record["tflops"].values()]
        assert share == pytest.approx(sum(rates) / len(rates), abs=0.03)


def test_a_ring_by_hand() -> None:
    """Llama-3-70B, 1,024 tokens a rank: 8 kernels, 7 mergings, 7 messages over one card each, as published ones run."""
    found = attention_terms(long_setup())
    flops = 1024**2 / 2 * 4 * 8192 / 2  # a step computes n^2 / 2 scores a head
    assert found["attention core, first step"].value == pytest.approx(flops / (1000e12 * 0.5 * 0.75) * 1e3)
    step = flops / (1000e12 * 0.5 * 0.8) * 1e3  # 512 keys, all of them
    assert found["attention core, other steps"].value == pytest.approx(7 * step)
    merging = 7 * 20 * 1024 * 8192 / 2 / (4000e9 * 0.5) * 1e3
    assert found["merging of partial results"].value == pytest.approx(merging)
    assert found["kernels of merging"].value == pytest.approx(7 * 6 * 0.010)
    message = 4 * 1024 * 1024 / 2 / 37.4e9 * 1e3
    assert 7 * message == pytest.approx(0.393, abs=5e-4)  # 14.68 MB a layer
    assert found["ring of keys and values"].value == pytest.approx(7 * (message + 0.014 - step))


def test_a_ring_back_by_hand() -> None:
    """Attention 2.5 times, 30 bytes a merged number, 8 kernels, messages twice as long, and the last one whole."""
    found = attention_terms(long_setup(), "backward_input")
    step = 2.5 * 1024**2 / 2 * 4 * 8192 / 2 / (1000e12 * 0.5 * 0.8) * 1e3
    merging = 7 * 30 * 1024 * 8192 / 2 / (4000e9 * 0.5) * 1e3
    assert found["merging of partial results"].value == pytest.approx(merging)
    assert found["kernels of merging"].value == pytest.approx(7 * 8 * 0.010)
    message = 8 * 1024 * 1024 / 2 / 37.4e9 * 1e3 + 0.014
    assert found["ring of keys and values"].value == pytest.approx(6 * (message - step) + message)


def test_attention_hides_messages_step_by_step() -> None:
    """At 16,384 tokens a rank a step is longer than its message, so that forward nothing waits; at 1,024 all do."""
    found = attention_terms(long_setup(sequence=131072, parallel={"gpus": 16}))
    assert found["ring of keys and values"].value == 0
    assert found["kernels of merging"].value == pytest.approx(0.42)
    assert float(attention_terms(long_setup())["ring of keys and values"].value) > 0


def test_a_ring_has_one_card_and_gathers_have_all() -> None:
    """However many ranks of it a node has: 7 x 2.1 MB at 37.4 GB/s, gathered at four times that, and all exposed."""
    gather = attention_terms(long_setup(training={"context": "gather"}))
    assert gather["gather of keys and values"].value == pytest.approx(0.3925 / 4, abs=1e-4)
    assert set(gather) == {"attention core", "gather of keys and values"}
    back = attention_terms(long_setup(training={"context": "gather"}), "backward_input")
    assert back["gather and reduce-scatter of keys and values"].value == pytest.approx(0.785 / 4, abs=1e-4)
    whole = 8192 * 1024 / 2 * 4 * 8192 / 2 / (1000e12 * 0.5 * 0.99) * 1e3  # one kernel of the whole sequence
    assert gather["attention core"].value == pytest.approx(whole)


def test_gpus_that_share_a_card_share_its_rate() -> None:
    """Two a card: half for stages, experts and collectives; a ring shares with its tensor ranks only."""
    keys = {"gpus": 16, "tensor": 2, "context": 8}
    one, two = (attention_terms(long_setup(parallel=keys, gpus_per_nic=cards)) for cards in (1, 2))
    wait = float(two["ring of keys and values"].value) - float(one["ring of keys and values"].value)
    assert wait == pytest.approx(0.3925, abs=1e-4)
    alone = [
        long_setup(parallel={"tensor": 1, "context": 16, "sequence": False}, gpus_per_nic=cards) for cards in (1, 2)
    ]
    assert (
        attention_terms(alone[0])["ring of keys and values"].value
        == attention_terms(alone[1])["ring of keys and values"].value
    )
    experts = [
        long_setup(
            "mixtral-8x7b", parallel={"gpus": 64, "tensor": 1, "context": 1, "expert": 8}, gpus_per_node=4, **more
        )
        for more in MORE
    ]
    data = [long_setup(parallel={"gpus": 64, "context": 1}, **more) for more in MORE]
    for pair in (
        [boundary_time(given, across=True) for given in data],
        [data_terms(given, Fraction(10**9), Fraction(0))[0] for given in data],
        [next(iter(expert_terms(given))) for given in experts],
    ):
        assert float(pair[1].value) == pytest.approx(2 * float(pair[0].value))


def test_latent_attention_merges_values_and_passes_keys_of_all_heads() -> None:
    """DeepSeek-V3: 128 heads, values of 128, keys of 192."""
    found = attention_terms(long_setup("deepseek-v3"))
    merging = 7 * 20 * 1024 * 128 * 128 / 2 / (4000e9 * 0.5) * 1e3
    assert found["merging of partial results"].value == pytest.approx(merging)
    assert f"{4 * 1024 * 128 * 192 / 2 / 1e6:.6g} MB" in found["ring of keys and values"].formula


def test_published_steps_of_rings() -> None:
    """Beside their attention, on H800 and A100: within a factor of 2.5."""
    rings = [row for row in steps() if row.family == RING]
    assert len(rings) == 6
    for row in rings:
        assert 1 / NEAR_CONTEXT <= row.ours / row.published <= NEAR_CONTEXT, row


EXPERTS: dict[str, Any] = {
    "model_type": "deepseek_v3", "num_hidden_layers": 14, "num_key_value_heads": 32, "kv_lora_rank": 256,
    "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "n_routed_experts": 16, "n_shared_experts": 1,
    "num_experts_per_tok": 4, "moe_intermediate_size": 2048, "first_k_dense_replace": 2,
    "num_nextn_predict_layers": 1,
}  # fmt: skip
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


@pytest.mark.parametrize("algorithm", at_night_but(PAIRED[1:2], PAIRED))
@pytest.mark.parametrize("training", [{**FULL, "full_layers": 1}, pytest.param(SELECTIVE, marks=pytest.mark.nightly)])
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


@pytest.mark.parametrize("algorithm", at_night_but(PAIRED[1:2], PAIRED))
@pytest.mark.parametrize("training", [pytest.param({}, marks=pytest.mark.nightly), FULL])
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
