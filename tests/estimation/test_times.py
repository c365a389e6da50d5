"""Times of layers against hand counts, against published ones, and every formula against its value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from pipesched.estimation.communication import (
    boundary_time,
    data_terms,
    expert_terms,
    is_across,
    message_terms,
    tensor_terms,
)
from pipesched.estimation.hardware import Efficiency, GpuModel
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.model_reader import preset_model
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup
from pipesched.estimation.terms import Term, total
from pipesched.estimation.times import (
    OPERATIONS,
    Product,
    core_flops,
    embedding_times,
    head_times,
    layer_products,
    layer_times,
    mtp_times,
    optimizer_terms,
)
from published_runs import DENSE, MOE, PARTS, RATIOS, Run, left_out, published_runs, records
from published_times import Compared, compare, ratios, summary
from validate_estimate import FITTED, MOST, NEAR, WORST, misses

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


@pytest.mark.parametrize(
    ("gpus", "each"), [(32, 72), (64, 64), (256, 64), (288, 72), (96, 48), (148, 37), (4 * 71, 71)]
)
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


@pytest.mark.parametrize(("gpus", "slower"), [(248, 1.0), (256, 0.6), (512, 0.6)])
def test_a_gather_over_many_nodes_is_slower(gpus: int, slower: float) -> None:
    """From 32 nodes on parameters are gathered at 0.6 of the rate; the reduction of gradients stays."""
    gradients, parameters = data_terms(a_setup(parallel={"gpus": gpus, "tensor": 4}), BILLION, Fraction(0))
    rest = (gpus / 4 - 1) / (gpus / 4) / (25 * 2) * 1e3 / 2
    assert gradients.value == pytest.approx(4 * rest)
    assert parameters.value == pytest.approx(2 * rest / slower)


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


@pytest.mark.nightly
def test_all_ratios_between_schedules() -> None:
    """Four of five within 4 %, all within 6 %."""
    found = list(ratios(judged(RATIOS)[1]))
    assert len(found) == 30
    assert sum(abs(row.error) <= NEAR for row in found) >= MOST * len(found)
    assert max(abs(row.error) for row in found) <= WORST


def test_every_record_is_compared_or_left_out() -> None:
    """Each with a reason."""
    skipped = left_out()
    assert len(RUNS) + len(skipped) == len(records()) + 73 == 310
    assert all(run.reason for run in skipped)
