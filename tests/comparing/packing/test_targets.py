"""What a packing aims at: works whose sum stays, and whose slowest rank is nearly the least of the linear program."""

from __future__ import annotations

import numpy as np
import pytest

import pipesched
from pipesched.comparing.packing.bins import shape_of, targets
from pipesched.comparing.packing.timing import positions_of

WHOLE = 1 << 32
LEAST = {(2, 2): 1.46667, (4, 8): 1.273848, (4, 16): 1.108539, (8, 16): 1.315607}  # by a linear program; even: more


@pytest.mark.parametrize(("devices", "microbatches"), LEAST)
def test_near_the_least_of_all_works(devices: int, microbatches: int) -> None:
    """1F1B of f 1 and B 2 comes within 2 % of the least makespan of any works, from the even ones' (P-1)/M more."""
    problem = pipesched.make_problem(devices=devices, microbatches=microbatches, forward=1, backward=2)
    positions = positions_of(problem, "1f1b")
    works = shape_of(positions, WHOLE, 100)[0]
    assert works.sum() == pytest.approx(WHOLE, rel=1e-8)
    length = positions.makespans(works[:, None])[0] / (3 * WHOLE)
    least = LEAST[devices, microbatches]
    assert least * (1 - 1e-5) <= length <= 1.02 * least < 1 + (devices - 1) / microbatches


def test_places_for_a_long_document() -> None:
    """A long document is best fed when the pipeline is full, and worst as the first or the last."""
    problem = pipesched.make_problem(devices=4, microbatches=12, forward=1, backward=2)
    places = shape_of(positions_of(problem, "1f1b"), WHOLE, 40)[1].tolist()
    assert sorted(places) == [*range(12)]
    assert {0, 1, 11}.isdisjoint(places[:6])
    assert 0 in places[-3:]


def test_long_documents_stay() -> None:
    """A rank with a long document gets less of all else, so that ranks take the same."""
    problem = pipesched.make_problem(devices=4, microbatches=8, forward=1, backward=2)
    positions = positions_of(problem, "1f1b")
    least = np.zeros((8, 3), dtype=np.int64)
    least[4, 1] = WHOLE // 10
    start = np.maximum(np.full((8, 3), WHOLE // 24), least)
    works = targets(positions, start, least, WHOLE, 60)
    assert works.sum() == pytest.approx(WHOLE, rel=1e-8)
    assert (works >= least).all()
    assert works[:, 1].sum() < works[:, 0].sum()
    makespans = positions.makespans(works)
    assert makespans.max() < positions.makespans(start * WHOLE // start.sum()).max()
    assert makespans.max() - makespans.min() < 0.05 * makespans.max()
