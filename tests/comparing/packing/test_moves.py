"""Moves of documents: what is kept of bins stays true, and the slowest rank only gets shorter."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import pipesched
from pipesched.comparing.packing.bins import Bins, DocumentSizes
from pipesched.comparing.packing.search import improve, roam
from pipesched.comparing.packing.timing import positions_of
from pipesched.core.arrays import Ints

M, CAP = 4, 800


def made(seed: int, ranks: int) -> tuple[Bins, int]:
    """Return bins in which documents stand anywhere, and how often what ranks take was asked for."""
    random, positions = Random(seed), positions_of(pipesched.make_problem(devices=3, microbatches=M), "1f1b")
    tokens = np.array(sorted((random.randint(1, 60) for _ in range(40)), reverse=True))
    filled: list[list[int]] = [[number] for number in range(ranks * M)]
    for document in range(ranks * M, 40):
        filled[random.randrange(ranks * M)].append(document)

    def taking(works: Ints, sizes: Ints) -> Ints:
        assert works.shape == sizes.shape
        return positions.makespans(works)

    return Bins(DocumentSizes(tokens * 3, tokens, tokens), filled, M, CAP, taking), len(tokens)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_bins_stay_true(seed: int, ranks: int) -> None:
    """After moves every document is in one bin, none is empty or too full, and what is known of bins is so."""
    bins, count = made(seed, ranks)
    before = int(bins.takes.max())
    improve(bins, 40, 100)
    assert int(bins.takes.max()) < before
    known = Bins(bins.documents, bins.members, M, CAP, bins.taking)
    assert sorted(document for members in bins.members for document in members) == [*range(count)]
    assert all(bins.members)
    assert bins.room.min() >= 0
    for held in ("work", "size", "room", "count", "takes"):
        assert (getattr(bins, held) == getattr(known, held)).all(), held


def test_steps_are_counted() -> None:
    """No step changes nothing, and more steps never end with a longer slowest rank."""
    longest = []
    for steps in (0, 1, 4, 40):
        bins, _ = made(3, 4)
        improve(bins, steps, 100)
        longest.append(int(bins.takes.max()))
    assert longest == sorted(longest, reverse=True)
    assert longest[0] > longest[-1]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_exchanges_at_random_keep_the_best(ranks: int) -> None:
    """Of what comes by the members of the best are kept, none of them too full: never longer, often shorter."""
    gained = 0
    for seed in range(8):
        bins, _ = made(seed, ranks)
        improve(bins, 40, 100)
        before = int(bins.takes.max())
        roam(bins, 100, 16)
        known = Bins(bins.documents, bins.members, M, CAP, bins.taking)
        assert int(known.takes.max()) <= before
        assert known.room.min() >= 0
        gained += int(known.takes.max()) < before
    assert gained >= (0 if ranks == 1 else 4)
