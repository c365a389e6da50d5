"""Items in bins: moves that make the slowest group faster, alike in each form of the kernels."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import Any

import numpy as np
import pytest

from pipesched.core import bin_kernels
from pipesched.core.arrays import kernels_of_bins

M, ITEMS, CAP, ROUNDS = 4, 40, 800, 100


def moves_of(form: Any, seed: int, bins: int, bin_of: Any = None) -> Any:
    """Return what moves items that stand anywhere, or by `bin_of`; half of the seeds have a budget."""
    (kernels, give), random = form, Random(seed)
    waits = [random.sample(range(row), random.randint(0, min(row, 3))) for row in range(3 * M)]
    lags = [(random.choice([0, 2]), random.randrange(M)) for row in waits for _ in row]
    each = [[random.choice([0, 1, 3]), row % M, random.choice([0, 0, 2]), random.randrange(M)] for row in range(3 * M)]
    firsts = np.cumsum([0, *map(len, waits)])
    columns = [[0] * 3 * M, firsts, [*chain(*waits)], *zip(*lags, strict=True), *zip(*each, strict=True)]
    held = map(give, np.zeros((4, bins + 1), int))
    rows = kernels.Rows(M, *held, [give(np.array(column, int)) for column in columns])
    tokens = np.array(sorted((random.randint(1, 60) for _ in range(ITEMS)), reverse=True))
    placed = np.array([*range(bins), *(random.randrange(bins) for _ in range(ITEMS - bins))])
    levels = np.full(M, bin_kernels.FULL / 500.0) * (seed % 2)
    items = [tokens * 3, tokens, tokens, levels, placed if bin_of is None else np.array(bin_of), np.full(bins + 1, CAP)]
    return kernels.Moves(rows, 1.0, list, lambda size: give(np.zeros(size, int)), [*map(give, items)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_moves(seed: int, groups: int) -> None:
    """The slowest group gets faster, no bin empty or too full; what is known is so; all is alike in each form."""
    others, draws = np.arange(ROUNDS) % groups, np.random.default_rng(seed).random(ROUNDS * 64)
    found = list[Any]()
    for form in ((bin_kernels, np.ndarray.tolist), kernels_of_bins()):
        moves = moves_of(form, seed, groups * M)
        lasts = [max(moves.takes)]
        for _ in range(ITEMS):
            slow, fast = int(np.argmax(moves.takes)), int(np.argmin(moves.takes))
            if not moves.give(slow, form[1](np.array([fast], int)[: fast != slow])) and not moves.rearrange(slow):
                moves.trade(slow, fast)
            lasts.append(max(moves.takes))
        known = moves_of(form, seed, groups * M, moves.bin_of)
        assert all([*getattr(moves, one)] == [*getattr(known, one)] for one in ("works", "sizes", "room", "takes"))
        moves.roam(form[1](others), form[1](draws))
        roamed = moves_of(form, seed, groups * M, moves.bin_of)
        assert [*lasts, max(roamed.takes)] == sorted([*lasts, max(roamed.takes)], reverse=True)
        assert lasts[-1] < lasts[0]
        assert min(roamed.room) >= 0 < min(roamed.count[:-1])
        found.append((lasts, [*known.bin_of], [*moves.works], [*roamed.bin_of], [*roamed.takes]))
    assert found[0] == found[1]
