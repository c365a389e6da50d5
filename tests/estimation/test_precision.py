"""Training in 8 and 4 bits: bytes, times and messages by hand, what stays as it is, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched.errors import ConfigError
from pipesched.estimation.communication import data_terms, expert_terms, tensor_terms
from pipesched.estimation.hardware import LOW, precisions_of
from pipesched.estimation.memory import head_memory, layer_memory, mtp_memory
from pipesched.estimation.setup import Setup
from pipesched.estimation.step import gather_terms
from pipesched.estimation.terms import Term, total
from pipesched.estimation.times import OPERATIONS, Product, head_times, layer_times
from pipesched.estimation.trace import trace
from tests.estimation.setups import setup

HOPPER: dict[str, Any] = {"fp8": 2000}
BLACKWELL: dict[str, Any] = {"fp8": 2000, "mxfp8": 2000, "nvfp4": 4000}
SPLIT = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336  # of a layer of the small llama
NORMS = 2 * 4096
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
BLOCK, FOUR = Fraction(33, 32), Fraction(9, 16)


def low(precision: str, hardware: dict[str, Any] | None = None, **parts: Any) -> Setup:
    """The small llama in a precision."""
    training = {"precision": precision, **parts.pop("training", {})}
    return setup(training=training, **parts, **(BLACKWELL if hardware is None else hardware))


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
    layer, wide = layer_memory(given, experts=False), layer_memory(setup(), experts=False)
    assert total(layer.weights) == weight * SPLIT / 2 + 2 * NORMS
    assert (total(layer.gradients), total(layer.optimizer)) == (total(wide.gradients), total(wide.optimizer))
    assert total(layer.parameters) == total(wide.parameters)
    assert head_memory(given) == head_memory(setup())
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
    given, wide = low(precision), setup()
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
    whole = setup()
    for operation, share in (("forward", 0.75), ("backward_input", 2 / 3)):
        mine, theirs = (total(tensor_terms(one, operation)) for one in (low("fp8"), whole))
        assert float(mine) == pytest.approx(share * float(theirs))
    split = {"tensor": 2, "sequence": False}
    plain = low("fp8", parallel=split), setup(parallel=split)
    assert tensor_terms_of(plain[0]) == tensor_terms_of(plain[1])
    experts: dict[str, Any] = {"model": EXPERTS, "parallel": {"tensor": 1, "pipeline": 1, "expert": 8}}
    wide = total(expert_terms(setup(**experts)))
    for precision, share in (("fp8", 1), ("mxfp8", 1), ("fp8-blockwise", (1 + 33 / 64) / 2)):
        assert float(total(expert_terms(low(precision, **experts)))) == pytest.approx(share * float(wide))
        assert total(expert_terms(low(precision, **experts), "backward_input")) == wide
    data: dict[str, Any] = {"parallel": {"gpus": 64}}
    count, part = Fraction(10**9), Fraction(6 * 10**8)
    before = named(data_terms(setup(**data), count, Fraction(0), part))
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
    given, wide = (one(parallel={"gpus": 64}, training={"shard": "weights"}) for one in (low_fp8, setup))
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
    assert precisions_of(setup().hardware) == ("bf16", "fp16", "fp32")
    assert precisions_of(low("fp8").hardware) == ("bf16", "fp16", "fp32", *LOW)
    with pytest.raises(ConfigError, match=r"test-gpu has no products in fp8; it has bf16, fp16, fp32$") as caught:
        setup(training={"precision": "fp8"})
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


def test_low_runs_of_ones_own() -> None:
    """A run in 8 bits narrows what is asked in 8 bits, and is no error beside bf16."""
    fp8 = {**CONFIG, "training": {"precision": "fp8"}}
    alone = pipesched.estimate(None, **fp8)
    told = pipesched.estimate(None, **fp8, measured=[(fp8, alone.step.time * 1.05)])
    beside = pipesched.estimate(None, **CONFIG, measured=[(fp8, alone.step.time * 1.05)])
    assert alone.trust is not None
    assert told.trust is not None
    assert beside.trust is not None
    assert told.trust.spread < 0.6 * alone.trust.spread
    assert beside.trust.own == 1


def test_a_trace_names_what_few_bits_add() -> None:
    """Its parts sum up, and a rate is one of the peak in this precision."""
    found = pipesched.estimate(None, "1f1b", trust=False, **CONFIG, training={"precision": "fp8"})
    traced = trace(found, "layer.0.forward")
    assert "numbers in few bits" in {part.name for part in traced.parts}
    assert sum(part.value for part in traced.parts) == pytest.approx(traced.value)
    assert "/ 1979 TFLOP/s" in trace(found, "step.mfu").parts[0].formula
