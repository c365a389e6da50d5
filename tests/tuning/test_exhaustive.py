"""The best point of a small space is the best of all its points, each estimated by itself."""

from __future__ import annotations

from functools import cache

import pytest

import pipesched
from pipesched import Trial
from pipesched.results.trainers import TRAINERS, families_of, takes
from pipesched.tuning import search
from tests.examples import at_night_but
from tests.tuning.spaces import (
    DENSE_FIRST,
    EXPERTS,
    GPU,
    LLAMA,
    Config,
    Found,
    enumerated,
    fastest,
    held,
    is_sure,
    margin,
    small_space,
)

pytestmark = pytest.mark.slow
SEEDS = (0, 1, 2, 3, 5, 6, 7, 8, 9, 11)


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best so far counts at once, so that even of small spaces most points are left out by bounds."""
    monkeypatch.setattr(search, "AHEAD", 1)


def best_of(found: list[Found]) -> tuple[float, float, float] | None:
    """The step time, the rate and the memory of the fastest point that surely fits, of equal ones what holds least.

    Where none does, of all that fit the one with the most room where all is as large as it may be.
    """
    fitting = [one.estimate for one in found if one.estimate is not None and one.estimate.fits]
    sure = [one for one in fitting if is_sure(one)]
    if fitting and not sure:
        most = max(map(margin, fitting))
        fitting = [one for one in fitting if margin(one) == most]
    fitting = sure or fitting
    if not fitting:
        return None
    best = min(fitting, key=lambda estimate: (-estimate.step.tokens_per_second_per_gpu, held(estimate)))
    return best.step.time, best.step.tokens_per_second_per_gpu, held(best)


def hold_against_all_points(config: Config, algorithms: list[str]) -> pipesched.Tuning:
    """Every point is counted once, the first row is the best of them, and each row is what `estimate` says of it."""
    tuning = pipesched.tune(None, algorithms, top=1000, **config)
    every = list(enumerated(config, algorithms))
    assert tuning.space == len(every)
    assert tuning.space == tuning.simulated + sum(tuning.pruned.values())
    assert (tuning.left, tuning.is_complete) == (0, True)
    first = best_row(tuning)
    assert best_of(every) == (None if first is None else (first.step and first.step.time, first.rate, first.memory))
    estimates = {(one.sizes, one.algorithm): one.estimate for one in every}
    for row in tuning:
        estimate = estimates[tuple(row.point.layout), row.point.algorithm]
        assert estimate is not None
        assert (estimate.step, held(estimate), estimate.fits, estimate.layout) == (
            row.step, row.memory, True, row.layout,
        )  # fmt: skip
    known = [estimates[tuple(row.point.layout), row.point.algorithm] for row in tuning]
    assert [row.sure for row in tuning] == [one is not None and is_sure(one) for one in known]
    places = [not row.sure for row in tuning[int(bool(tuning) and not tuning[0].sure) :]]
    assert places == sorted(places)
    return tuning


def best_row(tuning: pipesched.Tuning) -> Trial | None:
    """The fastest row of those that surely fit; where none does the first one."""
    return None if tuning.best is None else fastest(tuning) if tuning.best.sure else tuning.best


@pytest.mark.parametrize("seed", at_night_but(SEEDS[1:2], SEEDS))
def test_the_best_of_a_random_space_is_the_best_of_all_its_points(seed: int) -> None:
    """Models with and without experts, with and without enough memory: step, rate and memory, to the last bit."""
    small(seed)


@cache
def small(seed: int) -> pipesched.Tuning:
    """The answer for a random space, held against all points once."""
    return hold_against_all_points(*small_space(seed))


@pytest.mark.nightly
def test_every_reason_leaves_out_points_of_these_spaces() -> None:
    """So that the test above says something about each of the four, with memory and without."""
    found = [small(seed) for seed in SEEDS]
    for reason in ("divisibility", "memory", "bound", "dominance"):
        assert sum(tuning.pruned[reason] > 0 for tuning in found) >= 2, reason
    assert sum(bool(tuning.rows) for tuning in found) >= 7


@pytest.mark.nightly
@pytest.mark.parametrize("layout", [[3, 3, 2, 2], "Et*2|t*3|t*3|t*2,mL"])
def test_a_given_cut_into_stages(layout: str | list[int]) -> None:
    """Layers that the config assigns to stages leave only the layouts with so many stages."""
    config: Config = {
        "model": {**DENSE_FIRST, "num_hidden_layers": 10},
        "hardware": {**GPU, "memory": 12},
        "parallel": {"gpus": 8, "tensor": [1, 2], "pipeline": [2, 4], "chunks": [1, 2], "context": 1, "expert": [1, 2]},
        "batch": {"sequence": 1024, "global": 16, "micro": [1, 2]},
        "training": {"layout": layout},
    }
    tuning = hold_against_all_points(config, ["1f1b", "interleaved", "zb-v"])
    assert {row.point.layout.pipeline * row.point.layout.chunks for row in tuning} == {4}


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["ring", "gather"])
def test_context_parallelism_over_nodes(way: str) -> None:
    """Rings inside nodes of two GPUs, which share a network card, and over several; and gathers."""
    config: Config = {
        "model": {**LLAMA, "num_hidden_layers": 6},
        "hardware": {**GPU, "memory": 8, "gpus_per_node": 2, "gpus_per_nic": 2},
        "parallel": {"gpus": 8, "tensor": [1, 2], "pipeline": [1, 2], "chunks": [1, 2], "context": [1, 2, 4]},
        "batch": {"sequence": 4096, "global": 8, "micro": [1, 2]},
        "training": {"context": way},
    }
    tuning = hold_against_all_points(config, ["1f1b", "interleaved", "zb-v", "zb-h1"])
    assert len({row.point.layout.context for row in tuning}) > 1


@pytest.mark.parametrize("given", [{"p2p": 3}, {"budget": [4] * 4}, {"forward": 7}])
@pytest.mark.nightly
def test_numbers_of_the_config_count_instead(given: Config) -> None:
    """Times and memory that stand in the config replace derived ones, and no bound on these leaves out a point."""
    config: Config = {
        "model": {**DENSE_FIRST, "num_hidden_layers": 6},
        "hardware": {**GPU, "memory": 12},
        "parallel": {"gpus": 8, "tensor": [1, 2], "pipeline": 4, "chunks": [1, 2], "context": 1, "expert": 1},
        "batch": {"sequence": 1024, "global": 16, "micro": [1, 2]},
        **given,
    }
    tuning = hold_against_all_points(config, ["1f1b", "interleaved", "zb-v", "zb-h1", "hanayo"])
    assert tuning.pruned["bound"] == 0


def test_selective_recompute_counts_where_attention_is_not_fused() -> None:
    """There it saves the scores, so it is no twin of none, and the best of a space that holds none of them without."""
    config: Config = {
        "model": {**LLAMA, "num_hidden_layers": 4},
        "hardware": {**GPU, "memory": 4.8},
        "parallel": {"gpus": 2, "tensor": 1, "pipeline": 2, "chunks": 1, "context": 1},
        "batch": {"sequence": 2048, "global": 8, "micro": [1, 2]},
        "training": {"recompute": ["none", "selective", "full"], "flash_attention": False},
    }
    tuning = hold_against_all_points(config, ["1f1b", "zb-h1"])
    assert tuning.best is not None
    assert tuning.best.point.layout.recompute == "selective"
    assert tuning.pruned["dominance"] == 0


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.nightly
def test_only_what_a_trainer_takes(trainer: str) -> None:
    """The first row is the best of all points that it does not refuse; refused ones count as not divisible."""
    config: Config = {
        "model": {**LLAMA, "num_hidden_layers": 6},
        "hardware": {**GPU, "memory": 6},
        "parallel": {"gpus": 8, "tensor": [1, 2], "pipeline": [2, 4], "chunks": [1, 2], "context": [1, 2]},
        "batch": {"sequence": 1024, "global": 8, "micro": [1, 2]},
    }
    algorithms = ["1f1b", "interleaved", "zb-h1", "hanayo", "dualpipe", "eager-1f1b"]
    if trainer == "maxtext":  # the only one that it takes
        algorithms = ["naive", "looped-bfs"]
    tuning = pipesched.tune(None, algorithms, only=trainer, top=1000, **config)
    tried = families_of(trainer, algorithms)
    every = list(enumerated(config, tried))
    assert tuning.space == len(every) == tuning.simulated + sum(tuning.pruned.values())
    taken = [one for one in every if one.estimate is not None and takes(one.estimate.outcome, trainer)]
    first = best_row(tuning)
    assert best_of(taken) == (None if first is None else (first.step and first.step.time, first.rate, first.memory))
    assert len(taken) > 1
    estimates = {(one.sizes, one.algorithm): one.estimate for one in taken}
    for row in tuning:
        estimate = estimates[tuple(row.point.layout), row.point.algorithm]
        assert estimate is not None
        assert row.runs_in == [name for name in TRAINERS if takes(estimate.outcome, name)]
    assert tuning.pruned["divisibility"] >= len([one for one in every if one.estimate is None])


@pytest.mark.parametrize("memory", [3, 4.5, 5.5, 8, 12])
@pytest.mark.parametrize("base", [LLAMA, EXPERTS])
@pytest.mark.nightly
def test_levels_of_sharding_and_their_ranks(base: Config, memory: float) -> None:
    """Gathers, reductions and optimizers are operations of the schedules, and no bound leaves out the best of them."""
    config: Config = {
        "model": {**base, "num_hidden_layers": 6, "vocab_size": 64000},
        "hardware": {**GPU, "memory": memory, "gpus_per_node": 4},
        "parallel": {
            "gpus": 16, "tensor": [1, 2], "pipeline": [2, 4], "chunks": [1, 2], "context": 1,
            "expert": 1 if base is LLAMA else [1, 4], "shard_ranks": [2, 8, 4],
        },
        "batch": {"sequence": 1024, "global": 32, "micro": 1},
        "training": {"shard": ["weights", "none", "gradients", "optimizer"]},
    }  # fmt: skip
    tuning = hold_against_all_points(config, ["1f1b", "interleaved", "zb-h1", "dualpipe"])
    assert len({row.point.layout.shard for row in tuning}) > int(base is LLAMA)  # bounds may leave one with experts
    assert min(tuning.pruned[reason] for reason in ("divisibility", "bound", "dominance")) > 0
