"""How sure an estimate is: residuals, their covariance, facts, evidence, and what lies inside."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp, log, log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import pipesched.estimation.trust
from pipesched import Estimate
from pipesched.estimation.derived import derive
from pipesched.estimation.model_reader import HARDWARE, preset_names
from pipesched.estimation.trust.evidence import FILE, EvidenceBase, Standing, evidence_base, interval, ratios
from pipesched.estimation.trust.facts import (
    FIELDS,
    GPU_FAMILIES,
    KINDS,
    SHARES,
    ComparedRun,
    RunFacts,
    facts_of,
    schedule_of,
    shape_of,
)
from pipesched.estimation.trust.inside import FACTOR, Judge, MeasuredRange, fields_outside, weights_of
from pipesched.estimation.trust.residuals import BY_KIND, NOISE, START, ResidualModel, bordered, covariance
from pipesched.results.run import run as scheduled
from tests.estimation.runs import EVEN, FACTS, NO_SPREADS, base, published, run
from tests.estimation.setups import EFFICIENCY, setup
from tests.examples import examples
from trust_evidence import NAMES, SOURCES
from trust_fit import FARTHEST, NAMES as SPREAD_NAMES, score_of

SPREADS = {**NO_SPREADS, **{f"source.{kind}": 0.06 for kind in KINDS}, "tensor": 0.02, NOISE: 0.01}
PLAIN: dict[str, Any] = {"pipeline": 1, "chunks": 1, "context": 1}


def example() -> ResidualModel:
    """Two runs of one source, and one of another."""
    known = [(run("1", tensor=8, **PLAIN), 0.05), (run("1", tensor=4, **PLAIN), 0.03)]
    return ResidualModel(SPREADS, EVEN).with_runs([*known, (run("2", tensor=8, **PLAIN), -0.04)])


X, Y = (run("yours", tensor=tensor, **PLAIN) for tensor in (2, 8))


@pytest.mark.parametrize(
    ("own", "x", "y", "ratio", "faster"),
    [
        ([], [920.52, 998.66, 1083.42], [937.16, 1019.67, 1109.43], [0.9481, 0.9794, 1.0117], 0.7946),
        (
            [(Y, log(1100 / 1010))],
            [1035.80, 1068.56, 1102.36],
            [1078.47, 1098.08, 1118.04],
            [0.9428, 0.9731, 1.0044],
            0.8651,
        ),
    ],
    ids=["no own runs", "y measured"],
)
def test_worked_example(
    own: list[tuple[ComparedRun, float]], x: list[float], y: list[float], ratio: list[float], faster: float
) -> None:
    """Two estimates of 1000 and 1010 ms that differ in tensor, without own runs and with one: each number by hand."""
    model, times = example().with_runs(own), [1000, 1010]
    found = model.posterior([X, Y])
    for number, expected in enumerate((x, y)):
        assert interval(times[number], found.means[number], found.spread(number)) == pytest.approx(expected, rel=1e-5)
    answer = ratios(model, [X, Y], times)[1]
    assert answer == pytest.approx((*ratio, faster), abs=5e-5)
    assert not answer.is_decided


RUNS = st.builds(
    run,
    source=st.sampled_from("abc"),
    version=st.sampled_from("12"),
    weights=st.fixed_dictionaries({"core": st.floats(0, 0.5), "network": st.floats(-0.1, 0.3)}),
    experts=st.sampled_from([0, 8]),
    gpu=st.sampled_from(["a100-80gb-sxm", "h100-sxm", "h200-sxm", "gb200"]),
    model=st.sampled_from("mn"),
    tensor=st.sampled_from([1, 2, 8]),
    context=st.sampled_from([1, 4, 32]),
    recompute=st.sampled_from(["none", "full"]),
)


@examples(15)
@given(
    st.lists(st.tuples(RUNS, st.floats(-0.3, 0.3)), max_size=7),
    st.lists(RUNS, min_size=1, max_size=3),
    st.floats(0.003, 0.1),
)
def test_posterior_is_that_of_numpy(
    known: list[tuple[ComparedRun, float]], asked: list[ComparedRun], noise: float
) -> None:
    """Random runs, some of them twice: means and covariance by the formula of a Gaussian process."""
    spreads = {**START, NOISE: noise}
    found = ResidualModel(spreads, EVEN).with_runs(known).posterior(asked)
    runs = [*(one for one, _ in known), *asked]
    every = np.array([[covariance(one, other, spreads) for other in runs] for one in runs]) + noise**2 * np.eye(
        len(runs)
    )
    n = len(known)
    solved = every[n:, :n] @ np.linalg.inv(every[:n, :n])
    assert np.allclose(found.means, solved @ np.array([residual for _, residual in known]), atol=1e-9)
    assert np.allclose(found.covariance, every[n:, n:] - solved @ every[:n, n:], atol=1e-9)


@examples(15)
@given(st.lists(st.floats(-2, 2), min_size=16, max_size=16), st.integers(1, 4))
def test_bordered_is_the_inverse(numbers: list[float], size: int) -> None:
    """A matrix grown by a row and a column at a time has the inverse that numpy finds."""
    root = np.array(numbers).reshape(4, 4)[:size]
    matrix = root @ root.T + 0.1 * np.eye(size)
    inverse: list[list[float]] = []
    for number in range(size):
        inverse = bordered(inverse, matrix[number, :number].tolist(), matrix[number, number])
    assert np.allclose(inverse, np.linalg.inv(matrix), atol=1e-7)


OTHER_SOURCE: dict[str, Any] = {"source": "them"}
A100: dict[str, Any] = {"gpu": "a100-80gb-sxm"}
H200: dict[str, Any] = {"gpu": "h200-sxm"}
GB200: dict[str, Any] = {"gpu": "gb200"}
LAYOUT: dict[str, Any] = {
    **dict.fromkeys(("tensor", "pipeline", "context", "expert", "expert_tensor"), 8),
    **{"micro": 2, "recompute": "full", "tensor_overlap": True, "split": False},
}
SHARED: dict[str, list[dict[str, Any]]] = {  # an effect: changes of the other run that keep it
    "gpu": [OTHER_SOURCE, H200, {"model": "m"}, LAYOUT],
    "source.dense": [{"version": "later"}, {"model": "m"}, H200, GB200, LAYOUT],
    "source_and_model.dense": [LAYOUT, {"gpus": 8}, {"algorithm": "1f1b"}],
    "layout.dense": [{"gpus": 8}, {"sequence": 8192}, {"chunks": 4}, {"algorithm": "1f1b"}],
    "model": [OTHER_SOURCE, H200, {"model": "m"}, LAYOUT],
    "schedule": [OTHER_SOURCE, A100, {"experts": 8}],
    "recompute": [OTHER_SOURCE, A100, {"experts": 8}],
}
NOT_SHARED: dict[str, list[dict[str, Any]]] = {  # and those that end it
    "gpu": [A100, GB200, {"experts": 8}],
    "source.dense": [OTHER_SOURCE],
    "source_and_model.dense": [OTHER_SOURCE, {"version": "later"}, {"model": "m"}, H200],
    "layout.dense": [OTHER_SOURCE, {"version": "later"}, {"model": "m"}, H200, *({k: v} for k, v in LAYOUT.items())],
    "model": [A100, GB200, {"hidden": 8192}, {"experts": 8}, {"latent": True}],
    "schedule": [{"algorithm": "1f1b"}],
    "recompute": [{"recompute": "full"}],
}


@pytest.mark.parametrize("effect", SHARED)
def test_who_shares_an_effect(effect: str) -> None:
    """The variance of an effect is common to runs that agree in what it is of, and to no others."""
    spreads = {**NO_SPREADS, effect: 0.3}
    assert covariance(run(), run(), spreads) == pytest.approx(0.09)
    for change in SHARED[effect]:
        assert covariance(run(), run(**change), spreads) == pytest.approx(0.09), change
    for change in NOT_SHARED[effect]:
        assert covariance(run(), run(**change), spreads) == 0, change


@pytest.mark.parametrize("effect", ["source", "source_and_model", "layout"])
def test_kinds_of_one_source(effect: str) -> None:
    """A source moves its runs of two kinds by as much as each kind has: the product of two spreads."""
    spreads = {**NO_SPREADS, f"{effect}.dense": 0.2, f"{effect}.experts": 0.5, f"{effect}.a100": 0.7}
    assert covariance(run(), run(experts=8), spreads) == pytest.approx(0.1)
    assert covariance(run(experts=8), run(experts=8), spreads) == pytest.approx(0.25)
    assert covariance(run(**A100), run(**A100), spreads) == pytest.approx(0.49)


def sized(field: str, size: int, **changes: Any) -> ComparedRun:
    """A run whose field has a size."""
    return run(**{field: size, **changes})


@pytest.mark.parametrize("field", FIELDS[:-1])
def test_walk_of_a_size(field: str) -> None:
    """Runs share the doublings that both have: four times and 16 times share two of them, once shares none."""
    spreads = {**NO_SPREADS, field: 0.1}
    four, more, one = (sized(field, size) for size in (4, 16, 1))
    assert covariance(four, more, spreads) == pytest.approx(0.02)
    assert covariance(more, more, spreads) == pytest.approx(0.04)
    assert covariance(more, one, spreads) == 0
    assert covariance(four, sized(field, 16, source="them", experts=8, gpu="gb200"), spreads) == pytest.approx(0.02)


@pytest.mark.parametrize("share", SHARES)
def test_shares(share: str) -> None:
    """A share moves two runs of a family of GPUs as much as the steps of both go with it, whatever else they are."""
    spreads = {**NO_SPREADS, share: 0.2}
    one = run(weights={share: 0.5})
    assert covariance(one, run("them", weights={share: 0.25}, experts=8, **H200), spreads) == pytest.approx(0.005)
    assert covariance(one, run(weights={share: 0.25}, **GB200), spreads) == 0
    assert covariance(one, run(), spreads) == 0


def test_what_only_one_source_has() -> None:
    """Without what is a source's own, three effects are gone; noise is no part of any covariance."""
    for effect in BY_KIND:
        spreads = {**NO_SPREADS, f"{effect}.dense": 0.3}
        assert covariance(run(), run(), spreads) > 0
        assert covariance(run(), run(), spreads, own=False) == 0
    assert covariance(run(), run(), {**NO_SPREADS, NOISE: 0.3}) == 0
    twice = covariance(run(), run("them", "them"), START)
    assert covariance(run(), run("them"), START, own=False) == pytest.approx(twice)


CONTENT = json.loads((Path(pipesched.estimation.trust.__file__).parent / FILE).read_text(encoding="utf-8"))


def test_rates() -> None:
    """64 sequences of 4,096 on 64 GPUs in 1,024 ms are 4,000 tokens a second and GPU; ours is a tenth faster."""
    one = published("a", run(), published=1024, estimated=1024 / 1.1)
    assert one.rate == pytest.approx(4000)
    assert one.estimated_rate == pytest.approx(4400)
    assert one.residual == pytest.approx(log(1.1))


def test_packaged_runs() -> None:
    """Each run has a name of its own, a place where it was published and a known source; what is set aside is none."""
    found = evidence_base()
    assert len({one.run for one in found.runs}) == len(found.runs) >= 76
    assert {*found.sources} <= {SOURCES.get(name, name) for name in NAMES}
    assert all(one.url and one.title and one.rate > 0 for one in found.runs)
    assert not {one.run for one in found.runs} & {*CONTENT["aside"]}
    assert {*found.model.factors} == {*KINDS}
    assert min(found.model.factors.values()) >= 1
    assert max(found.model.factors.values()) <= FARTHEST / 1.2816
    assert found.memory.low < found.memory.expected < found.memory.high
    assert {*found.model.spreads} == {*START}


def test_weights_of_a_step_are_shares() -> None:
    """A step grows with the hardware's shares as parts of a whole do: none with more than all of it."""
    for one in evidence_base().runs:
        assert len(one.compared.weights) == len(SHARES)
        assert all(-0.25 < weight < 1 for weight in one.compared.weights), one.run


def test_stored_inverse() -> None:
    """The stored matrix is the inverse of the covariance of the stored runs, noise on the diagonal."""
    model = evidence_base().model
    every = np.array([[covariance(one, other, model.spreads) for other in model.runs] for one in model.runs])
    every += model.spreads[NOISE] ** 2 * np.eye(len(every))
    assert np.allclose(every @ np.array(model.inverse), np.eye(len(every)), atol=1e-6)


@pytest.mark.nightly
def test_stored_spreads_are_the_likeliest() -> None:
    """At the stored spreads the likelihood is flat, and a step of 3 % of any one lowers it."""
    here = np.array([log(evidence_base().model.spreads[name]) for name in SPREAD_NAMES])
    score = score_of(evidence_base().runs)
    value, slope = score(here)
    assert np.max(np.abs(slope)) < 2e-3
    for step in 0.03 * np.eye(len(here)):
        assert max(score(here + step)[0], score(here - step)[0]) < value


EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2, "model_type": "mixtral"}


def test_every_data_centre_preset_has_a_family() -> None:
    """Of the package's GPUs only those with neither NVLink nor published runs are families of their own."""
    names = {name: FACTS._replace(gpu=name).family for name in preset_names(HARDWARE)}
    assert {name for name, family in names.items() if family == name} == {"l40s", "rtx-4090"}
    assert {*names.values()} - {"l40s", "rtx-4090"} <= {*GPU_FAMILIES.values(), "MI"}


@pytest.mark.parametrize(
    ("gpu", "experts", "kind"), [("a100-80gb-sxm", 8, "experts"), ("h100-sxm", 0, "dense"), ("mi300x", 0, "dense")]
)
def test_kind(gpu: str, experts: int, kind: str) -> None:
    """Experts are a kind on every GPU; dense models on an A100 are another."""
    assert FACTS._replace(gpu=gpu, experts=experts).kind == kind


def test_octaves() -> None:
    """Sizes count by their doublings; tokens of a microbatch on a rank from 256 on, and never below."""
    octaves = dict(zip(FIELDS, run(tensor=8, pipeline=1, gpus=96).octaves, strict=True))
    assert octaves == pytest.approx(
        {"tensor": 3, "pipeline": 0, "chunks": 1, "context": 1, "expert": 0, "gpus": log2(96), "tokens": 3}
    )
    assert run(sequence=4096, context=32).octaves[-1] == 0  # 128 tokens
    assert run(sequence=4096, context=2, micro=4).octaves[-1] == 5


@pytest.mark.parametrize(("asked", "one"), [("zb-h1", "zb"), ("zb-auto", "zb"), ("zb-v", "zb-v"), ("1f1b", "1f1b")])
def test_schedules_that_are_one(asked: str, one: str) -> None:
    """Zero Bubble's schedules of one stage a device are one algorithm, whatever their memory."""
    assert schedule_of(asked) == one


def test_facts_of_a_setup() -> None:
    """Each fact is that of the setup; sequence parallelism counts where tensor ranks share sequences."""
    given = setup(training={"recompute": "full"}, batch={"micro": 2})
    facts = facts_of(given, "zb-auto")
    assert facts == FACTS._replace(
        model=shape_of(given.model), gpu="test-gpu", gpus=8, chunks=1, context=1, micro=2, recompute="full",
        algorithm="zb",
    )  # fmt: skip
    assert not facts_of(setup(parallel={"tensor": 1}), "1f1b").split
    assert [facts_of(setup(training={"shard": level}), "1f1b").shard for level in ("none", None)] == ["none", ""]
    assert facts_of(setup(EXPERTS), "1f1b").experts == 8


def test_a_shape_is_one_whatever_the_words() -> None:
    """Another vocabulary is the same model; another width of layers is not."""
    one, words, wide = (shape_of(setup(m).model) for m in ({}, {"vocab_size": 128256}, {"intermediate_size": 16384}))
    assert one == words != wide
    assert shape_of(setup(EXPERTS).model) not in (one, wide)


DENSE = FACTS._replace(tensor=1, pipeline=1, chunks=1, context=1, algorithm="1f1b")
MIXTURE = DENSE._replace(experts=8, gpu="gb200", hidden=2048)
INSIDE_RUNS = [
    DENSE,
    DENSE._replace(gpus=512, tensor=8, pipeline=8, chunks=2, hidden=16384, algorithm="interleaved"),
    DENSE._replace(gpu="h200-sxm", tensor=2, pipeline=4, algorithm="zb", sequence=512, shard="none"),
    DENSE._replace(context=2, sequence=8192, shard="optimizer"),
    DENSE._replace(gpus=64, algorithm="v-half"),  # on one rank no schedule is measured
    MIXTURE._replace(gpus=128, tensor=2, pipeline=2, chunks=6, expert=64, expert_tensor=2, algorithm="dualpipe"),
    MIXTURE._replace(context=16, sequence=131072, shard="weights"),
]
PIPELINED = {"pipeline": 2, "chunks": 1}
RULES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [  # a field, what lies inside, and what just does not
    ("hardware", {"gpu": "h200-sxm"}, {"gpu": "gb200"}),
    ("gpus", {"gpus": 1024}, {"gpus": 1025}),
    ("tensor", {"tensor": 8}, {"tensor": 9}),
    ("tensor", {"hidden": 4096}, {"hidden": 4097}),
    ("tensor", {"hidden": 16384, "tensor": 4}, {"hidden": 16384, "tensor": 2}),
    ("pipeline", {"pipeline": 16}, {"pipeline": 17}),
    ("chunks", {"pipeline": 4, "chunks": 8}, {"pipeline": 4, "chunks": 9}),
    ("context", {"context": 2, "sequence": 4096}, {"context": 2, "sequence": 4094}),
    ("context", {"context": 2, "sequence": 1 << 20}, {"context": 4, "sequence": 8192}),
    ("context", {"context": 4, "sequence": 16384}, {"context": 17, "sequence": 1 << 20}),
    ("expert", {"expert": 1}, {"expert": 2}),
    ("expert_tensor", {"expert_tensor": 1}, {"expert_tensor": 2}),
    ("micro", {"sequence": 256}, {"sequence": 255}),
    ("micro", {"sequence": 128, "micro": 2}, {"sequence": 128}),
    ("micro", {"tensor": 4, "sequence": 1024}, {"tensor": 4, "sequence": 1023}),
    ("algorithm", {**PIPELINED, "algorithm": "zb"}, {**PIPELINED, "algorithm": "dualpipe"}),
    ("algorithm", {"algorithm": "v-half"}, {**PIPELINED, "algorithm": "v-half"}),
    ("shard", {"shard": "none"}, {"shard": "weights"}),
    ("shard", {"shard": "optimizer"}, {"shard": "gradients"}),
]
RULES_OF_MIXTURES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("hardware", {"gpu": "gb200"}, {"gpu": "h100-sxm"}),
    ("gpus", {"gpus": 256}, {"gpus": 512}),
    ("micro", {"tensor": 2}, {"tensor": 2, "sequence": 4095}),  # 2,048 a tensor rank
    ("pipeline", {"pipeline": 4}, {"pipeline": 8}),
    ("expert", {"expert": 64}, {"expert": 128}),
    ("expert_tensor", {"expert_tensor": 2}, {"expert_tensor": 4}),
    ("micro", {"sequence": 2048}, {"sequence": 2047}),
    ("algorithm", {**PIPELINED, "algorithm": "dualpipe"}, {**PIPELINED, "algorithm": "zb"}),
    ("shard", {"shard": "weights"}, {"shard": "none"}),
]


def outside(facts: RunFacts) -> list[str]:
    """The fields of a run that lie outside the list."""
    return [one.field for one in MeasuredRange(INSIDE_RUNS, experts=bool(facts.experts)).outside(facts)]


@pytest.mark.parametrize(("field", "inside", "beyond"), RULES)
def test_dense(field: str, inside: dict[str, Any], beyond: dict[str, Any]) -> None:
    """Dense models are held against dense runs, rings of attention against all."""
    assert outside(DENSE._replace(**inside)) == []
    assert outside(DENSE._replace(**beyond)) == [field]


@pytest.mark.parametrize(("field", "inside", "beyond"), RULES_OF_MIXTURES)
def test_mixtures(field: str, inside: dict[str, Any], beyond: dict[str, Any]) -> None:
    """Models with experts are held against such runs alone."""
    assert outside(MIXTURE._replace(**inside)) == []
    assert outside(MIXTURE._replace(**beyond)) == [field]


def test_what_was_measured_is_said() -> None:
    """A field that lies outside names its value, and what was measured; several come in the order of a config."""
    facts = DENSE._replace(gpu="gb200", gpus=2048, tensor=16, context=4, sequence=4096, algorithm="hanayo", pipeline=32)
    assert [*MeasuredRange(INSIDE_RUNS, experts=False).outside(facts)] == [
        ("hardware", "gb200", "such models on h100-sxm, h200-sxm"),
        ("gpus", 2048, "at most 512"),
        ("tensor", 16, "at most 8"),
        ("pipeline", 32, "at most 8"),
        ("context", 4, "2 at 4,096 tokens a rank, 16 at 8,192 tokens a rank"),
        ("micro", 1, "at least 256 for such a hidden size, not 64 tokens of a microbatch per tensor rank"),
        ("algorithm", "hanayo", "1f1b, interleaved, zb"),
    ]
    wide = MeasuredRange(INSIDE_RUNS, experts=False).outside(DENSE._replace(hidden=16384, tensor=2))
    assert [*wide] == [("tensor", 2, "at most 4,096, not 8,192 of the hidden size on a rank")]
    few = MeasuredRange(INSIDE_RUNS, experts=False).outside(DENSE._replace(sequence=100))
    assert [*few] == [("micro", 1, "at least 512, not 100 tokens of a microbatch on a rank")]
    no_ring = MeasuredRange([DENSE], experts=False).outside(DENSE._replace(context=2, micro=2))
    assert [*no_ring] == [("context", 2, "none")]


def test_what_was_published_lies_inside() -> None:
    """Each run of the package is evidence for itself."""
    for one in evidence_base().runs:
        assert fields_outside(one.compared.facts) == (), one.run


@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-80gb-sxm"])
@pytest.mark.parametrize("hidden", [4096, 5120])
def test_little_work_of_a_microbatch_lies_outside(gpu: str, hidden: int) -> None:
    """1,024 tokens over tensor 4: eager frameworks take four times the interval then, and no run here is like that."""
    shape: dict[str, Any] = {"hidden": hidden, "context": 1, "algorithm": "1f1b"}
    facts = DENSE._replace(gpu=gpu, tensor=4, sequence=1024, **shape)
    assert [one.field for one in fields_outside(facts)] == ["micro"]
    assert fields_outside(facts._replace(sequence=4096)) == ()


ON_H100: dict[str, Any] = {"name": "h100-sxm"}


def estimate(algorithm: str = "1f1b", **changes: Any) -> Estimate:
    """The small llama on 8 H100, with changes."""
    return Estimate(scheduled(derive(setup(**ON_H100, **changes), {}), algorithm))


ASKED = estimate()


def judge(known: EvidenceBase, **changes: Any) -> Judge:
    """A judge by the runs of a base."""
    return Judge(known, known.model, **changes)


def test_interval_is_the_posterior_of_a_new_source() -> None:
    """What is expected moves with a published run on this GPU; the factor of the kind makes the interval wider."""
    known = base(published("a", run("them"), published=1100))
    posterior = known.model.posterior([judge(known).run_of(ASKED)])
    found = judge(known).trust(ASKED)
    assert found.time == interval(ASKED.step.time, posterior.means[0], posterior.spread(0))
    assert found.time.low < ASKED.step.time < found.time.expected < found.time.high
    assert found.spread == pytest.approx(posterior.spread(0))
    wide = replace(known.model, factors={**known.model.factors, "dense": 1.5})
    assert Judge(known, wide).trust(ASKED).spread == pytest.approx(1.5 * found.spread)
    assert Judge(known, wide).trust(ASKED).time.expected == pytest.approx(found.time.expected)


def test_memory() -> None:
    """All of the fullest device but what is fixed is scaled; it fits for sure if the upper end does."""
    known = base()
    fullest = max(ASKED.devices, key=lambda device: device.total)
    fixed, rest = float(fullest.fixed) / 1e9, float(fullest.total - fullest.fixed) / 1e9
    found = judge(known).trust(ASKED)
    assert found.memory == pytest.approx((fixed + 0.9 * rest, fixed + rest, fixed + 1.2 * rest))
    high = found.memory.high
    for memory, sure in ((high + 0.01, True), (high - 0.01, False)):
        asked = estimate(memory=memory)
        assert asked.fits
        assert judge(known).trust(asked).sure == sure


def test_nearest_runs() -> None:
    """The three that are least apart, each layout once, with their rates and how far our rates are off."""
    facts = judge(base()).run_of(ASKED).facts._asdict()
    runs = [
        published("far", run("a", **{**facts, "context": 16})),
        published("same", run("b", **facts), published=1100),
        published("twice", run("c", **{**facts, "gpus": 16})),
        published("near", run("d", **{**facts, "tensor": 4})),
        published("farther", run("e", **{**facts, "gpu": "gb200"})),
        published("less far", run("f", **{**facts, "tensor": 8})),
    ]
    found = judge(base(*runs, spreads={**START, **dict.fromkeys(SHARES, 0.0)})).trust(ASKED).evidence.nearest
    assert [(one.run, one.source) for one in found] == [("same", "b"), ("near", "d"), ("less far", "f")]
    assert [one.apart for one in found] == pytest.approx([0, START["tensor"], START["tensor"] * 2**0.5])
    assert found[0].url == "https://same"
    assert found[0].error == pytest.approx(0.1)
    assert found[0].tokens_per_second_per_gpu == pytest.approx(64 * 4096 / 8 / 1.1)


def test_like_a_source() -> None:
    """The effect of a known source counts, in a version that no run has: what its model or its layout had does not."""
    spreads = {**NO_SPREADS, NOISE: 0.01, "source.dense": 0.1, "source_and_model.dense": 0.1, "layout.dense": 0.1}
    facts = judge(base()).run_of(ASKED).facts._asdict()
    known = base(published("a", run("them", **facts), published=1000 * exp(0.3)), spreads=spreads)
    stranger, like = judge(known).trust(ASKED), judge(known, like="them").trust(ASKED)
    assert stranger.time.expected == pytest.approx(ASKED.step.time)
    assert log(like.time.expected / ASKED.step.time) == pytest.approx(0.3 * 0.01 / 0.0301)
    assert like.spread < stranger.spread
    assert (like.like, stranger.like) == ("them", None)


def test_own_runs() -> None:
    """Runs of one's own move the estimate and are counted; those of the base stay as they were."""
    known = base()
    own = Judge(known, known.model.with_runs([(judge(known).run_of(ASKED), 0.1)]), 1)
    found = own.trust(ASKED)
    assert 0.08 < log(found.time.expected / ASKED.step.time) < 0.1
    assert found.spread < judge(known).trust(ASKED).spread / 2
    assert found.own == 1


def test_weight_of_a_share() -> None:
    """A share at nine tenths of itself, estimated from the start, lengthens the step by the power that is stored."""
    weights = dict(zip(SHARES, weights_of(ASKED), strict=True))
    for share in ("core", "memory", "network", "kernel"):
        less = replace(EFFICIENCY, **{share: FACTOR * getattr(EFFICIENCY, share)})
        longer = estimate(efficiency=less).step.time / ASKED.step.time
        assert longer == pytest.approx((1 / FACTOR) ** weights[share], rel=1e-6), share
    assert 0 < weights["memory"] < 1


def test_decided_with_nine_in_ten() -> None:
    """Runs that differ by noise alone, of 1 % each: 1.7 % decide nothing, 1.9 % do, either way round."""
    model = ResidualModel({**NO_SPREADS, NOISE: 0.01}, EVEN)
    for gain, decided in ((0.017, False), (0.019, True)):
        for sign in (-1, 1):
            first, second = ratios(model, [run(), run()], [1000, 1000 * exp(sign * gain)])
            assert second.is_decided == decided
            assert first == (1, 1, 1, 0.5)


def test_two_are_of_one_source() -> None:
    """Whoever ran the other one, it is compared as if the first had: what a source has cancels."""
    model = ResidualModel({**START, NOISE: 0.001}, EVEN)
    one, same, other = (Standing(run(source, tensor=4), 1000, model) for source in ("us", "us", "them"))
    assert one.against(other) == pytest.approx(one.against(same))
    assert one.against(other).high < 1.003
