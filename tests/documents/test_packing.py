"""The document of a packing, and the config of a rank."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

import pipesched
from pipesched.documents.comparison import packing_document, rank_config
from pipesched.errors import ConfigError
from tests.packings import GOLDEN

TWO = pipesched.make_problem(devices=2, forward=1, backward=2, budget=3)
PACKING = pipesched.pack(GOLDEN, ranks=2, cap=12, microbatches=2, problem=TWO, attention=0.5)
EVERYTHING = pipesched.make_problem(
    devices=2, stages=4, forward=[1, 2, 1, 1.5], backward_input=1.5, backward_weight=0.7, p2p=0.25, speed=[1, 0.8],
    links={"size": 1, "inside": 0, "between": 0.3}, offload=2, activation=0.3, retain=0.5, static=0.1, budget=4,
    name="mine", time_unit="ms", lanes="pair",
)  # fmt: skip


def test_document() -> None:
    """Every key is there, and JSON holds it."""
    first, second, third = PACKING.baselines
    assert packing_document(PACKING) == {
        "format": "pipesched.packing", "version": 1, "documents": 8, "tokens": 40, "ranks": 2, "cap": 12,
        "microbatches": 2, "algorithm": "1f1b", "makespan": 5.600693, "bound": PACKING.bound, "gap": PACKING.gap,
        "covers": "2 microbatches a rank, with backwards whole, stages where they are",
            "exact": True, "fits": True, "makespans": [5.600693, 5.392362],
        "assignment": [[[0, 7], [3, 5]], [[1, 4], [2, 6]]], "work": [[0.753472, 0.517361], [0.684028, 0.53125]],
        "baselines": [
            {"rule": "first-fit", "fits": True, "makespan": first.makespan, "most_tokens": 12},
            {"rule": "karmarkar-karp", "fits": True, "makespan": second.makespan, "most_tokens": second.most_tokens},
            {"rule": "verl", "fits": True, "makespan": third.makespan, "most_tokens": third.most_tokens},
        ],
    }  # fmt: skip
    assert json.loads(json.dumps(packing_document(PACKING))) == packing_document(PACKING)


def test_written() -> None:
    """A file holds the document; the format is written, not read back."""
    with pytest.raises(ConfigError, match=r"pipesched\.schedule"):
        pipesched.read(io.StringIO(json.dumps(packing_document(PACKING))))


@pytest.mark.parametrize("problem", [TWO, EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "interleaved"])
def test_configs_of_ranks(problem: Any, algorithm: str) -> None:
    """The config of a rank, by default the slowest, is an ordinary one whose schedule takes what the rank takes."""
    packing = pipesched.pack(
        GOLDEN, ranks=2, cap=12, microbatches=2, problem=problem, attention=0.3, algorithm=algorithm
    )
    for rank in (None, 0, 1):
        text = rank_config(packing, rank)
        loaded = pipesched.load(text)
        made = pipesched.run(loaded, algorithm)
        assert made.schedule.makespan == packing.makespans[packing.slowest if rank is None else rank]
        assert f"algorithm: {algorithm}\n" in text
    with pytest.raises(ConfigError):
        rank_config(packing, 2)
