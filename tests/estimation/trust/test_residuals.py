"""What runs say of others: the worked example, and the same by numpy."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pipesched.estimation.trust.evidence import interval, ratios
from pipesched.estimation.trust.facts import KINDS, ComparedRun
from pipesched.estimation.trust.residuals import NOISE, START, ResidualModel, bordered, covariance
from tests.estimation.trust.runs import EVEN, NO_SPREADS, run

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


@settings(max_examples=15)
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


@settings(max_examples=15)
@given(st.lists(st.floats(-2, 2), min_size=16, max_size=16), st.integers(1, 4))
def test_bordered_is_the_inverse(numbers: list[float], size: int) -> None:
    """A matrix grown by a row and a column at a time has the inverse that numpy finds."""
    root = np.array(numbers).reshape(4, 4)[:size]
    matrix = root @ root.T + 0.1 * np.eye(size)
    inverse: list[list[float]] = []
    for number in range(size):
        inverse = bordered(inverse, matrix[number, :number].tolist(), matrix[number, number])
    assert np.allclose(inverse, np.linalg.inv(matrix), atol=1e-7)


def test_own_runs_are_shrunk() -> None:
    """A run of one's own moves what is expected of another part of the way to it, more with a second one."""
    once = example().with_runs([(Y, 0.2)])
    twice = once.with_runs([(Y, 0.2)])
    before, after, later = (model.posterior([X]) for model in (example(), once, twice))
    assert before.means[0] < after.means[0] < later.means[0] < 0.2
    assert before.spread(0) > after.spread(0) > later.spread(0)


def test_order_of_runs_does_not_count() -> None:
    """The same runs the other way round say the same."""
    known = [*zip(example().runs, example().residuals, strict=True)]
    turned = ResidualModel(SPREADS, EVEN).with_runs(reversed(known)).posterior([X, Y])
    assert np.allclose(turned.means, example().posterior([X, Y]).means)
    assert np.allclose(turned.covariance, example().posterior([X, Y]).covariance)
