"""Which runs share which effect of the covariance of residuals, by hand, one effect at a time."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched.estimation.trust.facts import FIELDS, SHARES, ComparedRun
from pipesched.estimation.trust.residuals import BY_KIND, NOISE, START, covariance
from tests.estimation.trust.runs import NO_SPREADS, run

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


def test_walk_of_tokens() -> None:
    """Tokens of a microbatch on a rank count from 256: 512 and 2,048 share one doubling."""
    spreads = {**NO_SPREADS, "tokens": 0.1}
    few, many, fewest = (run(sequence=tokens, context=1) for tokens in (512, 2048, 128))
    assert covariance(few, many, spreads) == pytest.approx(0.01)
    assert covariance(fewest, many, spreads) == 0


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
