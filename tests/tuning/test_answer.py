"""What is said of a finished search: finalists, evidence, near misses, and where the GPU time goes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

import pipesched
from pipesched import Parallelism, SpacePoint
from pipesched.estimation.setup import Setup
from pipesched.estimation.terms import ATTENTION, COMMUNICATION, LAUNCHES, MESSAGES, PRODUCTS, RECOMPUTE, TRAFFIC, Term
from pipesched.estimation.times import OPERATIONS
from pipesched.estimation.trust.facts import KINDS, facts_of, shape_of
from pipesched.estimation.trust.inside import fields_outside, what_to_measure
from pipesched.estimation.trust.residuals import NOISE, START, ResidualModel
from pipesched.tuning import tune as tuning_module
from pipesched.tuning.judged import (
    FACTORS,
    UNCERTAIN,
    Finished,
    finish,
    gpu_time,
    others,
    tied,
    unmeasured,
    with_behind,
)
from pipesched.tuning.prune import facts_of_point, measured_part
from pipesched.tuning.result import NearMiss
from pipesched.tuning.space import read_space
from pipesched.tuning.trial import TrialTask
from pipesched.tuning.tune import LARGEST_SHARE, MOST_NEAR_MISSES, nearest_misses
from tests.estimation.setups import setup
from tests.examples import at_night_but
from tests.tuning.made import MADE, ROWS, layout, run_of, trial, trusted
from tests.tuning.spaces import DENSE_FIRST, GPU, LLAMA, SPACE, Config, enumerated, fastest, is_sure
from tests.tuning.test_family_bounds import simulated

SMALL: Config = {"num_hidden_layers": 4, "hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 5632}


def finished(made: Setup, algorithm: str, seconds: float) -> Finished:
    """What becomes of a setup under an algorithm as a finalist."""
    parallel = made.parallel
    layout = Parallelism(parallel.tensor, parallel.pipeline, parallel.chunks, 1, 1, 1, made.batch.micro, "none")
    done = finish(TrialTask(SpacePoint(layout, algorithm), made, {}), seconds)
    assert done is not None
    return done


def test_solve_improves_gpipe() -> None:
    """All forwards before all backwards is never the best order; without seconds nothing is solved."""
    made = setup(SMALL, parallel={"pipeline": 4, "tensor": 1, "gpus": 4}, batch={"size": 6})
    assert finished(made, "naive", 1.0).solved is not None
    assert finished(made, "naive", 0.0).solved is None


def test_solve_offloads_where_there_is_a_link_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked without and with offload for a GPU with a link, each for half of the time."""
    from pipesched.solver import solve as module

    asked: list[tuple[bool, float]] = []

    def noted(request: Any) -> Any:
        asked.append((request.offload, request.time_limit))
        raise pipesched.NoSchedule("nothing")

    monkeypatch.setattr(module, "solve_request", noted)
    made = setup(SMALL, parallel={"pipeline": 4, "tensor": 1, "gpus": 4}, batch={"size": 6})
    assert finished(made, "1f1b", 4.0).solved is None
    assert [offload for offload, _ in asked] == [False, True]
    assert [seconds for _, seconds in asked] == [2, 2]


def test_rates_on_other_hardware_are_those_of_estimates_with_the_same_stages() -> None:
    """Each share of the hardware 10 % lower and higher, to the last bit; none above 1."""
    made = setup(parallel={"pipeline": 4, "tensor": 2, "chunks": 2}, batch={"size": 12})
    for algorithm in ("interleaved", "zb-v", "1f1b"):
        done = finished(made, algorithm, 0.0)
        chunks = done.estimate.problem.stages // 4
        pinned = replace(
            made,
            parallel=replace(made.parallel, chunks=chunks),
            training=replace(made.training, layout=done.estimate.layout),
        )
        hardware = others(made.hardware)
        assert len(done.rates) == len(hardware) == len(UNCERTAIN) * len(FACTORS)
        for rate, other in zip(done.rates, hardware, strict=True):
            again = simulated(replace(pinned, hardware=other), algorithm)
            assert again is not None
            if algorithm != "zb-v":  # its order follows from the times
                assert rate == again.step.tokens_per_second_per_gpu
            assert rate == pytest.approx(again.step.tokens_per_second_per_gpu, rel=0.02)
        own = done.estimate.step.tokens_per_second_per_gpu
        for slower, faster in zip(done.rates[::2], done.rates[1::2], strict=True):
            assert slower <= own <= faster
        assert done.rates[0] < own < done.rates[1]


def test_no_share_is_above_one() -> None:
    """What is near 1 cannot be 10 % higher."""
    made = setup()
    high = replace(made.hardware, efficiency=replace(made.hardware.efficiency, memory=0.95, network=1.0))
    found = others(high)
    assert max(one.efficiency.memory for one in found) == 1
    assert {one.efficiency.network for one in found} == {0.9, 1.0}
    changed = [one for one in found if one.efficiency.gemm_forward != high.efficiency.gemm_forward]
    assert [one.efficiency.gemm_weight for one in changed] == [
        pytest.approx(high.efficiency.gemm_weight * factor) for factor in FACTORS
    ]


def test_the_rows_of_a_search_with_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solved rows stand among the others, faster than the best row of their layout; all rows fit, best first."""
    monkeypatch.setattr(tuning_module, "SOLVE_SECONDS", 0.5)
    config: Config = {**SPACE, "model": {**LLAMA, "num_hidden_layers": 4}, "batch": {"sequence": 1024, "global": 8},
                      "parallel": {"gpus": 8, "tensor": 2, "pipeline": 4, "chunks": 1, "context": 1, "expert": 1},
                      "hardware": {**GPU, "memory": 80}}  # fmt: skip
    tuning = pipesched.tune(None, ["naive", "1f1b", "solve"], **config)
    ranks = [row.rank for row in tuning]
    assert ranks == sorted(ranks)
    assert all(row.fits for row in tuning)
    solved = [row for row in tuning if row.point.algorithm == "solve"]
    assert solved
    for row in solved:
        rates = [one.rate for one in tuning if one.point.layout == row.point.layout and one is not row]
        assert row.rate > max(rates)
    plain = pipesched.tune(None, ["naive", "1f1b"], **config)
    alone = [replace(row, behind=None) for row in plain]
    assert [replace(row, behind=None) for row in tuning if row not in solved] == alone
    assert all(row.trust is not None and row.trust.evidence.outside == plain[0].trust.evidence.outside
               for row in solved if plain[0].trust)  # fmt: skip
    assert tuning.simulated == plain.simulated
    assert tuning.space == plain.space
    found = pipesched.estimate(tuning.config)
    assert found.layout == tuning.rows[0].layout
    assert found.step == next(row.step for row in plain if row.point.layout == tuning.rows[0].point.layout)


ALGORITHMS = ["1f1b", "interleaved", "zb-v", "dualpipe-v"]
CONFIG: Config = {  # context 4 at 512 tokens a rank lies far outside, whatever was measured; so does dualpipe-v
    "model": {**LLAMA, "num_hidden_layers": 8},
    "hardware": {"preset": "a100-80gb-sxm", "memory": 8},
    "parallel": {"gpus": 8, "tensor": [1, 2], "pipeline": [1, 2, 4], "chunks": [1, 2], "context": [1, 4]},
    "batch": {"sequence": 2048, "global": 16, "micro": [1, 2]},
}


@cache
def found(**more: Any) -> pipesched.Tuning:
    """The search of the small space."""
    return pipesched.tune(None, ALGORITHMS, top=100, **CONFIG, **more)


@cache
def every() -> list[tuple[Any, bool]]:
    """Each point with an estimate, and whether it lies inside."""
    return [
        (one, not fields_outside(facts_of(one.estimate.setup, one.algorithm)))
        for one in enumerated(CONFIG, ALGORITHMS)
        if one.estimate is not None
    ]


@pytest.mark.nightly
@pytest.mark.slow
def test_the_best_inside_is_the_best_of_all_points_inside() -> None:
    """Each estimated by itself; all points are counted, and no row lies outside."""
    tuning = found()
    assert tuning.best is not None
    inside = [one.estimate for one, is_inside in every() if is_inside and one.estimate.fits]
    assert fastest(tuning).rate == max(one.step.tokens_per_second_per_gpu for one in inside if is_sure(one))
    assert tuning.space == tuning.simulated + sum(tuning.pruned.values())
    assert tuning.pruned["evidence"] > 0
    assert not tuning.is_widened
    assert all(row.trust is not None and row.trust.evidence.inside for row in tuning)


@pytest.mark.nightly
@pytest.mark.slow
def test_what_is_faster_outside() -> None:
    """At most three, one a layout, each faster by its estimate than the first row; the best of all is the first."""
    tuning, free = found(), found(beyond=True)
    assert tuning.best is not None
    assert free.best is not None
    assert len(tuning.beyond) <= 3
    assert (free.best.rate > tuning.best.rate) == bool(tuning.beyond)
    for one in tuning.beyond:
        assert one.trial.rate > tuning.best.rate
        assert one.outside
        assert one.measure.startswith("a step of this model ")
        assert one.trial.trust is not None
        assert one.trial.trust.evidence.outside == one.outside
        assert one.trial.behind is not None
    if tuning.beyond:
        assert tuning.beyond[0].trial.point == free.best.point


@pytest.mark.nightly
def test_where_nothing_inside_fits_all_is_searched() -> None:
    """On a GPU that nobody measured: as with `beyond`, and the answer says so."""
    config = {**CONFIG, "hardware": {"preset": "a100-40gb-sxm", "memory": 8}}
    tuning, free = (pipesched.tune(None, ALGORITHMS[:2], beyond=beyond, **config) for beyond in (False, True))
    assert tuning.space == tuning.simulated + sum(tuning.pruned.values())
    assert [row.point for row in tuning] == [row.point for row in free]
    assert (tuning.pruned, tuning.is_widened, free.is_widened) == (free.pruned, True, False)
    assert tuning.pruned["evidence"] == 0
    assert tuning.beyond == ()


@pytest.mark.slow
@pytest.mark.nightly
def test_a_point_is_inside_exactly_if_its_estimate_is() -> None:
    """Of all layouts with all algorithms, before anything of them is known but their sizes."""
    space = read_space(None, CONFIG, ALGORITHMS)
    inside = measured_part(space)
    seen = set()
    for place, name in product(space.layouts(), space.algorithms):
        try:
            batch = {**CONFIG["batch"], "micro": place.micro}
            config = {**CONFIG, "parallel": {"gpus": 8, **place.parallel}, "batch": batch}
            estimate = pipesched.estimate(None, name, trust=False, **config)
        except pipesched.PipeschedError:
            continue
        facts = facts_of(estimate.setup, name)
        assert facts_of_point(space, place, name) == facts
        assert (name in inside(place)) == (not fields_outside(facts))
        seen.add(name in inside(place))
    assert seen == {True, False}


def test_rows_that_cannot_be_told_apart() -> None:
    """The leading rows of which none is slower with 90 %; what nobody knows ends them."""
    assert tied(ROWS) == MADE.tied == 3
    assert tied(()) == 0
    assert tied(ROWS[:1]) == 1
    assert tied([ROWS[0], replace(ROWS[1], behind=None), ROWS[2]]) == 1
    same = with_behind([trusted(trial(layout(2, 4, chunks), "interleaved", 1000.0, 60.0)) for chunks in (2, 3, 4)])
    assert tied(same) == 3
    assert same[0].behind is None
    assert [one.behind.faster for one in same[1:] if one.behind] == [pytest.approx(0.5)] * 2


def test_what_to_measure_first() -> None:
    """The example of two layouts that was computed by hand; none where it does not matter."""
    spreads = {**dict.fromkeys(START, 0.0), **{f"source.{kind}": 0.06 for kind in KINDS}, "tensor": 0.02, NOISE: 0.01}
    base = ResidualModel(spreads, dict.fromkeys(KINDS, 1.0))
    known = [(run_of(layout(8, 1), "1f1b", "1"), 0.05), (run_of(layout(4, 1), "1f1b", "1"), 0.03)]
    model = base.with_runs([*known, (run_of(layout(8, 1), "1f1b", "2"), -0.04)])
    runs = [run_of(layout(2, 1), "1f1b"), run_of(layout(8, 1), "1f1b")]
    asked = what_to_measure(model, runs, [1000.0, 1010.0])
    assert asked is not None
    assert asked.layouts == (0, 1)
    assert asked.gain == pytest.approx(0.000964, abs=1e-6)
    assert what_to_measure(model, runs, [1000.0, 2000.0]) is None
    assert what_to_measure(model, runs[:1], [1000.0]) is None


def test_own_runs_order_the_rows() -> None:
    """By what is expected then: a layout that ran much slower than estimated is no longer the first."""
    small: Config = {**CONFIG, "parallel": {"gpus": 8, "tensor": [1, 2], "pipeline": 2, "chunks": 1, "context": 1}}
    before = pipesched.tune(None, ["1f1b"], **small)
    first = before.best
    assert first is not None
    assert first.step is not None
    own = {**CONFIG, "parallel": {"gpus": 8, **first.point.layout.parallel},
           "batch": {**CONFIG["batch"], "micro": first.point.layout.micro}}  # fmt: skip
    after = pipesched.tune(None, ["1f1b"], measured=[(own, 2 * first.step.time)], **small)
    assert after.best is not None
    rates = [row.trust.tokens_per_second_per_gpu.expected for row in after if row.trust]
    assert rates == sorted(rates, reverse=True)
    assert all(row.trust is not None and row.trust.own == 1 for row in after)
    assert rates[0] < before[0].rate
    assert any("spreads off" in note for note in after.notes)


def test_published_runs_of_a_model() -> None:
    """Those of the same model and GPU, with their own estimates; others are not listed."""
    tuning = pipesched.tune(
        None, ["1f1b"], model="llama-3-70b", hardware="h100-sxm",
        parallel={"gpus": 256, "tensor": 8, "pipeline": [1, 4], "chunks": 1, "context": 1},
        batch={"sequence": 8192, "global": 256}, training={"recompute": ["none", "full"]},
    )  # fmt: skip
    assert tuning.best is not None
    assert 1 <= len(tuning.published) <= 8
    model = shape_of(tuning.estimate.setup.model) if tuning.estimate else ""
    assert {(one.compared.facts.model, one.compared.facts.gpu) for one in tuning.published} == {(model, "h100-sxm")}


def test_a_first_row_above_all_published_runs() -> None:
    """Only if the low end of its rate is above each of them on as many GPUs."""
    assert not MADE.is_above_published
    low = MADE.published[1]
    assert not replace(MADE, published=(low, MADE.published[0])).is_above_published
    assert replace(MADE, published=(low,)).is_above_published
    assert not replace(MADE, published=()).is_above_published
    facts = low.compared.facts._replace(gpus=16)
    assert not replace(MADE, published=(low._replace(compared=replace(low.compared, facts=facts)),)).is_above_published


def test_what_would_have_to_be_measured() -> None:
    """A sentence with the fields that lie outside, and the nearest run."""
    space = read_space(None, {**CONFIG, "parallel": {"gpus": 8, "context": 4}}, ALGORITHMS)
    one = unmeasured(space, trusted(trial(layout(2, 1, context=4), "1f1b", 9.0, 4.0)))
    assert "context" in {field.field for field in one.outside}
    assert "with context 4 at 512 tokens a rank" in one.measure
    assert one.measure.endswith("; nearest: theirs-0")


WISHED = ["1f1b", "zb-h1", "interleaved", "zb-v"]


def tuned(memory: float) -> pipesched.Tuning:
    """A small space on GPUs of so many GB."""
    config: Config = {**SPACE, "model": {**LLAMA, "num_hidden_layers": 8}, "hardware": {**GPU, "memory": memory}}
    return pipesched.tune(None, WISHED, **config)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("memory", "count"), [(2.4, 1), (2.5, 1), (3, 1), (4.5, 1), (8, 0)])
def test_a_near_miss_is_what_estimates_say(memory: float, count: int) -> None:
    """GB too much are those of its estimate, at most a tenth of the GPU; the rate is that with ample memory."""
    tuning = tuned(memory)
    assert tuning.best is not None
    assert len(tuning.near_misses) >= count
    assert count or not tuning.near_misses
    for one in tuning.near_misses:
        config: Config = {
            **SPACE,
            "parallel": {"gpus": 8, **one.layout.parallel},
            "batch": {**SPACE["batch"], "micro": one.layout.micro},
            "training": {"recompute": one.layout.recompute_value},
        }
        short = pipesched.estimate(None, one.algorithm, **{**config, "hardware": {**GPU, "memory": memory}})
        over = max(float(device.total - device.budget) for device in short.devices) / 1e9
        assert one.over == pytest.approx(over)
        assert 0 < one.over <= LARGEST_SHARE * memory
        ample = pipesched.estimate(None, one.algorithm, **{**config, "hardware": {**GPU, "memory": 1000}})
        assert one.most == pytest.approx(ample.step.tokens_per_second_per_gpu)
        assert one.most > tuning.best.rate


def test_the_nearest_misses() -> None:
    """None is slower than the best; of a layout in other chunks there is one; what misses least is first."""
    rate = ROWS[0].rate
    slow = NearMiss(layout(1, 2), "1f1b", 0.1, rate)
    near, far = (NearMiss(layout(1, 4, chunks), "zb-v", over, rate + 1) for chunks, over in ((2, 0.5), (3, 0.7)))
    others = [NearMiss(layout(2, 2, micro=micro), "1f1b", 1.0 + micro, rate + 5) for micro in (1, 2, 4)]
    assert nearest_misses([*others, far, slow, near], ROWS[0]) == (near, *others[: MOST_NEAR_MISSES - 1])


@pytest.mark.slow
def test_no_near_misses_once_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points are not estimated for it then, and the answer is there."""
    monkeypatch.setattr(tuning_module, "near_miss", lambda *_, **__: pytest.fail("a near miss is estimated"))
    assert pipesched.tune(None, WISHED, time_limit=1e-9, **SPACE).near_misses == ()


SETUP: Config = {
    "model": {**LLAMA, "num_hidden_layers": 8},
    "hardware": {**GPU, "memory": 80},
    "parallel": {"gpus": 8, "tensor": 2, "pipeline": 4},
    "batch": {"sequence": 1024, "global": 16},
}


def parts(algorithm: str = "1f1b", **more: Any) -> tuple[pipesched.Estimate, dict[str, float]]:
    """An estimate, and its parts by their names."""
    estimate = pipesched.estimate(None, algorithm, **{**SETUP, **more})
    return estimate, {part.name: part.share for part in gpu_time(estimate)}


@pytest.mark.parametrize("algorithm", at_night_but(["dualpipe"], ["1f1b", "zb-v", "dualpipe", "interleaved"]))
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"training": {"recompute": "full"}},
        {"training": {"recompute": {"full": 1}}},
        {"training": {"recompute": "selective", "flash_attention": False}},
        {"model": DENSE_FIRST, "parallel": {"gpus": 16, "tensor": 1, "pipeline": 4, "expert": 4}},
        {"forward": 7},
        {"overlap": 2, "backward": 3},
    ],
    ids=str,
)
def test_parts_sum_up_to_one(algorithm: str, more: Config) -> None:
    """The largest first; what is idle is what the schedule says, up to the rounding of operations to microseconds."""
    estimate, shares = parts(algorithm, **more)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert min(shares.values()) > 0
    whole = estimate.step.time * estimate.problem.devices
    idle = float(sum(estimate.outcome.schedule.idle))
    assert shares.get("idle", 0) == pytest.approx(idle / whole, abs=2e-3)
    assert shares["optimizer"] == pytest.approx(estimate.step.optimizer / estimate.step.time)


def test_side_work_is_a_part_of_its_own() -> None:
    """2 and 3 ms of each microbatch, whether times of passes are derived or given; all else is as it was."""
    side, few = [{"name": "vision", "forward": 2, "backward": 3}], {"sequence": 1024, "global": 8}
    for estimate, shares in (parts(side=side, batch=few), parts(side=side, batch=few, forward=7)):
        whole = estimate.step.time * estimate.problem.devices
        assert shares["side work"] * whole == pytest.approx(5 * estimate.problem.microbatches)
        assert shares["idle"] * whole == pytest.approx(float(sum(estimate.outcome.schedule.idle)), rel=2e-3)


def test_a_case_by_hand() -> None:
    """Two devices, 100 ms, 3 microbatches: each kind of term under its name; a pair hides 2 ms of communication."""

    def term(value: float, kind: str) -> Term:
        return Term("", value, "", kind)

    forward = (term(4.0, PRODUCTS), term(2.0, ATTENTION), term(1.0, TRAFFIC), term(0.5, LAUNCHES))
    backward = (term(3.0, RECOMPUTE), term(8.0, PRODUCTS), term(1.0, COMMUNICATION), term(0.5, MESSAGES))
    weight = (term(5.0, PRODUCTS),)
    times = SimpleNamespace(**dict.fromkeys(OPERATIONS, ()))
    times.forward, times.backward_input, times.backward_weight = forward, backward, weight
    item = SimpleNamespace(times=times, time=lambda operation: {"recompute": 2500}[operation])
    pairs = SimpleNamespace(mean={"forward": (4, 6), "backward": (7, 8), "overlap": (10, 12)}, per_unit=1)
    plan = SimpleNamespace(pairs={0: 1}, index=SimpleNamespace(stage_of=lambda number: number))
    made: Any = SimpleNamespace(
        setup=SimpleNamespace(microbatches=3),
        step=SimpleNamespace(time=100.0, communication=6.0, optimizer=4.0),
        problem=SimpleNamespace(devices=2, ticks=pairs, side=(), microbatches=3),
        outcome=SimpleNamespace(schedule=SimpleNamespace(plan=plan)),
        cutter=SimpleNamespace(replaced={}),
        items=SimpleNamespace(each=[item, item]),
        stages=[SimpleNamespace(again=[]), SimpleNamespace(again=[1])],
    )
    assert {part.name: pytest.approx(part.share * 200) for part in gpu_time(made)} == {
        "matrix products": 2 * 3 * (4 + 8 + 5),
        "attention": 2 * 3 * 2,
        "memory traffic": 2 * 3 * 1,
        "kernels and launches": 2 * 3 * 0.5,
        "communication in layers": 2 * 3 * 1.5 - 2,
        "recompute": 2 * 3 * 3 + 3 * 2.5,
        "gradients and parameters": 12,
        "optimizer": 8,
        "idle": 200 - 2 * 3 * 25 - 7.5 - 20 + 2,
    }


@pytest.mark.parametrize("model", [LLAMA, DENSE_FIRST, "gpt2-xl"], ids=["llama", "deepseek", "gpt2"])
def test_each_term_of_an_operation_counts_as_something(model: Any) -> None:
    """As what its name says: a matrix product is nothing else."""
    estimate = pipesched.estimate(
        None, **{**SETUP, "model": model, "parallel": {"gpus": 8, "tensor": 1, "pipeline": 4}}
    )
    terms = [
        term for item in estimate.items.each for operation in OPERATIONS for term in getattr(item.times, operation)
    ]
    known = {PRODUCTS, ATTENTION, TRAFFIC, COMMUNICATION, MESSAGES, LAUNCHES}
    assert {term.kind for term in terms} <= known
    products = {term.name for term in terms if term.kind == PRODUCTS}
    for word in ("communication", "kernel", "softmax", "elementwise", "core", "loss", "wait", "message", "ring"):
        assert not [name for name in products if word in name.split()], word
