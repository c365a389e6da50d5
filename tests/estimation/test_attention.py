"""Attention and context parallelism against hand counts, and against published steps of rings."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from pipesched.errors import ConfigError
from pipesched.estimation.communication import boundary_time, data_terms, expert_terms
from pipesched.estimation.hardware import Efficiency, GpuModel
from pipesched.estimation.model_reader import preset_model
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup
from pipesched.estimation.terms import Term
from pipesched.estimation.times import CAUSAL, NOT_CAUSAL, context_terms, core_terms, kernel_share
from published_context import NEAR, RING, steps
from published_runs import records_of

MORE: tuple[dict[str, Any], ...] = ({}, {"gpus_per_nic": 2})
SHARES = Efficiency(1, 1, 1, 0.5, 0.5, 0.5, 0.748, 10, 0, 0.5, 0.5)
GPU = GpuModel(name="GPU", tflops=1000, memory=80, bandwidth=4000, pcie=64, nic=50, efficiency=SHARES, nvlink=450)


def a_setup(model: str = "llama-3-70b", *, sequence: int = 8192, micro: int = 1, **parts: Any) -> Setup:
    """Tensor 2 and context 8 at sequences of 8,192 on 16 GPUs of two nodes, with changes."""
    keys = {"gpus": 16, "tensor": 2, "context": 8, "sequence": True} | parts.pop("parallel", {})
    training = TrainingSetup(**parts.pop("training", {}))
    hardware = replace(GPU, **parts)
    return Setup(preset_model(model), hardware, Parallel(**keys), TokenBatch(sequence, micro, 64), training)


def named(given: Setup, operation: str = "forward") -> dict[str, Term]:
    """The terms of attention and of the exchange of keys and values, by name."""
    return {term.name: term for term in (*core_terms(given, operation), *context_terms(given, operation))}


@pytest.mark.parametrize(
    ("keys", "causal", "share"),
    [
        (256, True, 0.55), (512, True, 0.55), (1024, True, 0.75), (8192, True, 0.99), (1 << 20, True, 1.0),
        (1024 * 2**0.5, True, 0.815), (256, False, 0.8), (2048, False, 0.98), (4096, False, 1.0), (16384, False, 1.0),
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
    found = named(a_setup())
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
    found = named(a_setup(), "backward_input")
    step = 2.5 * 1024**2 / 2 * 4 * 8192 / 2 / (1000e12 * 0.5 * 0.8) * 1e3
    merging = 7 * 30 * 1024 * 8192 / 2 / (4000e9 * 0.5) * 1e3
    assert found["merging of partial results"].value == pytest.approx(merging)
    assert found["kernels of merging"].value == pytest.approx(7 * 8 * 0.010)
    message = 8 * 1024 * 1024 / 2 / 37.4e9 * 1e3 + 0.014
    assert found["ring of keys and values"].value == pytest.approx(6 * (message - step) + message)


def test_attention_hides_messages_step_by_step() -> None:
    """At 16,384 tokens a rank a step is longer than its message, so that forward nothing waits; at 1,024 all do."""
    found = named(a_setup(sequence=131072, parallel={"gpus": 16}))
    assert found["ring of keys and values"].value == 0
    assert found["kernels of merging"].value == pytest.approx(0.42)
    assert float(named(a_setup())["ring of keys and values"].value) > 0


def test_sequences_of_a_microbatch_see_their_own_keys_only() -> None:
    """Two of them take twice as long as one, but for kernels and hops."""
    one, two = named(a_setup()), named(a_setup(micro=2))
    for name in ("attention core, first step", "attention core, other steps", "merging of partial results"):
        assert two[name].value == pytest.approx(2 * float(one[name].value))
    assert two["kernels of merging"].value == one["kernels of merging"].value


def test_rings_of_a_node_use_its_links() -> None:
    """Context 4 of tensor 2 is a node: 450 GB/s and 3.4 us a hop; without NVLink PCIe, 5.7 us."""
    inside = a_setup(parallel={"gpus": 8, "context": 4})
    size, step = 4 * 2048 * 1024 / 2, 2048**2 / 2 * 4 * 8192 / 2 * 2.5 / (1000e12 * 0.5 * 0.92) * 1e3
    for given, rate, hop in ((inside, 450e9, 3.4), (replace(inside, hardware=replace(GPU, nvlink=None)), 64e9, 5.7)):
        message = 2 * size / (rate * 0.748) * 1e3 + hop / 1e3
        wait = named(given, "backward_input")["ring of keys and values"].value
        assert wait == pytest.approx(2 * max(0, message - step) + message)


def test_a_ring_has_one_card_and_gathers_have_all() -> None:
    """However many ranks of it a node has: 7 x 2.1 MB at 37.4 GB/s, gathered at four times that, and all exposed."""
    gather = named(a_setup(training={"context": "gather"}))
    assert gather["gather of keys and values"].value == pytest.approx(0.3925 / 4, abs=1e-4)
    assert set(gather) == {"attention core", "gather of keys and values"}
    back = named(a_setup(training={"context": "gather"}), "backward_input")
    assert back["gather and reduce-scatter of keys and values"].value == pytest.approx(0.785 / 4, abs=1e-4)
    whole = 8192 * 1024 / 2 * 4 * 8192 / 2 / (1000e12 * 0.5 * 0.99) * 1e3  # one kernel of the whole sequence
    assert gather["attention core"].value == pytest.approx(whole)


def test_gpus_that_share_a_card_share_its_rate() -> None:
    """Two a card: half for stages, experts and collectives; a ring shares with its tensor ranks only."""
    keys = {"gpus": 16, "tensor": 2, "context": 8}
    one, two = (named(a_setup(parallel=keys, gpus_per_nic=cards)) for cards in (1, 2))
    wait = float(two["ring of keys and values"].value) - float(one["ring of keys and values"].value)
    assert wait == pytest.approx(0.3925, abs=1e-4)
    alone = [a_setup(parallel={"tensor": 1, "context": 16, "sequence": False}, gpus_per_nic=cards) for cards in (1, 2)]
    assert named(alone[0])["ring of keys and values"].value == named(alone[1])["ring of keys and values"].value
    experts = [
        a_setup("mixtral-8x7b", parallel={"gpus": 64, "tensor": 1, "context": 1, "expert": 8}, gpus_per_node=4, **more)
        for more in MORE
    ]
    data = [a_setup(parallel={"gpus": 64, "context": 1}, **more) for more in MORE]
    for pair in (
        [boundary_time(given, across=True) for given in data],
        [data_terms(given, Fraction(10**9), Fraction(0))[0] for given in data],
        [next(iter(expert_terms(given))) for given in experts],
    ):
        assert float(pair[1].value) == pytest.approx(2 * float(pair[0].value))


def test_latent_attention_merges_values_and_passes_keys_of_all_heads() -> None:
    """DeepSeek-V3: 128 heads, values of 128, keys of 192."""
    found = named(a_setup("deepseek-v3"))
    merging = 7 * 20 * 1024 * 128 * 128 / 2 / (4000e9 * 0.5) * 1e3
    assert found["merging of partial results"].value == pytest.approx(merging)
    assert f"{4 * 1024 * 128 * 192 / 2 / 1e6:.6g} MB" in found["ring of keys and values"].formula


def test_without_context_parallelism_nothing_is_exchanged() -> None:
    """And the way of exchange changes nothing."""
    ring, gather = (named(a_setup(parallel={"context": 1}, training={"context": way})) for way in ("ring", "gather"))
    assert set(ring) == {"attention core"}
    assert ring == gather
    with pytest.raises(ConfigError, match="unknown exchange of keys and values 'rings'; did you mean 'ring'"):
        TrainingSetup(context="rings")


def test_unfused_attention_has_steps_of_the_same_rate() -> None:
    """Nothing is known of its short kernels; it computes all scores."""
    found = named(a_setup(training={"flash_attention": False}))
    each = 1024**2 * 4 * 8192 / 2 / (1000e12 * 0.5) * 1e3
    assert found["attention core, first step"].value == pytest.approx(each)
    assert found["attention core, other steps"].value == pytest.approx(7 * each)


def test_published_steps_of_rings() -> None:
    """Beside their attention, on H800 and A100: within a factor of 2.5."""
    rings = [row for row in steps() if row.family == RING]
    assert len(rings) == 6
    for row in rings:
        assert 1 / NEAR <= row.ours / row.published <= NEAR, row
