"""What is said of an estimate: its interval, its memory, the runs nearest to it, and two estimates side by side."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any

import pytest

from pipesched.estimation.derived import derive
from pipesched.estimation.result import Estimate
from pipesched.estimation.trust.evidence import EvidenceBase, interval
from pipesched.estimation.trust.facts import SHARES
from pipesched.estimation.trust.inside import FACTOR, Judge, weights_of
from pipesched.estimation.trust.residuals import NOISE, START
from pipesched.results.outcome import run as scheduled
from tests.estimation.setups import EFFICIENCY, setup
from tests.estimation.trust.runs import NO_SPREADS, base, published, run

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


def test_without_a_run_the_interval_is_what_was_believed_before() -> None:
    """An empty base expects what is estimated."""
    found = judge(base()).trust(ASKED)
    assert found.time.expected == ASKED.step.time
    assert found.evidence.nearest == ()
    assert found.own == 0


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


def test_what_lies_outside_is_said() -> None:
    """A GPU and a schedule that no published run has are outside; the same with both known is not."""
    assert judge(base()).trust(ASKED).evidence.inside
    other = judge(base()).trust(estimate("hanayo", parallel={"chunks": 2}))
    assert [one.field for one in other.evidence.outside] == ["algorithm"]
    assert not other.evidence.inside


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
