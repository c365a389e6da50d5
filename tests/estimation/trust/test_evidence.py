"""The evidence that the package has: its runs, its rates, and a model that is the one of these runs."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import numpy as np
import pytest

import pipesched.estimation.trust
from pipesched.errors import ConfigError
from pipesched.estimation.trust.evidence import FILE, base_of, evidence_base
from pipesched.estimation.trust.facts import KINDS, SHARES
from pipesched.estimation.trust.residuals import NOISE, START, covariance
from tests.estimation.trust.runs import base, published, run
from trust_evidence import NAMES, SOURCES
from trust_fit import FARTHEST, NAMES as SPREADS, START_LOGARITHMS, maximize, score_of

CONTENT = json.loads((Path(pipesched.estimation.trust.__file__).parent / FILE).read_text(encoding="utf-8"))


def test_rates() -> None:
    """64 sequences of 4,096 on 64 GPUs in 1,024 ms are 4,000 tokens a second and GPU; ours is a tenth faster."""
    one = published("a", run(), published=1024, estimated=1024 / 1.1)
    assert one.rate == pytest.approx(4000)
    assert one.estimated_rate == pytest.approx(4400)
    assert one.residual == pytest.approx(log(1.1))


def test_sources() -> None:
    """Sources are named once; another name is told which there are."""
    known = base(published("a", run("us")), published("b", run("them")), published("c", run("us")))
    assert known.sources == ("us", "them")
    assert known.require_source("them", "like") == "them"
    with pytest.raises(ConfigError, match="us, them") as caught:
        known.require_source("theirs", "like")
    assert caught.value.key == "like"


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
    here = np.array([log(evidence_base().model.spreads[name]) for name in SPREADS])
    score = score_of(evidence_base().runs)
    value, slope = score(here)
    assert np.max(np.abs(slope)) < 2e-3
    for step in 0.03 * np.eye(len(here)):
        assert max(score(here + step)[0], score(here - step)[0]) < value


@pytest.mark.nightly
@pytest.mark.slow
def test_stored_spreads_are_found_again() -> None:
    """From where the search starts it comes to the stored spreads."""
    found = np.exp(maximize(score_of(evidence_base().runs), START_LOGARITHMS))
    assert np.allclose(found, [evidence_base().model.spreads[name] for name in SPREADS], rtol=1e-3)


def test_own_runs_stand_beside() -> None:
    """The base of a document is that of the package; a run more leaves it as it was."""
    model = base_of(CONTENT).model
    assert model == evidence_base().model
    more = model.with_runs([(run("yours"), 0.1)])
    assert len(more.runs) == len(model.runs) + 1
    assert model == evidence_base().model
