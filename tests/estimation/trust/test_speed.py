"""Which of two steps is called faster."""

from __future__ import annotations

from math import exp

import pytest

from pipesched.estimation.trust.evidence import Standing, ratios
from pipesched.estimation.trust.residuals import NOISE, START, ResidualModel
from tests.estimation.trust.runs import EVEN, NO_SPREADS, run


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
