"""The tables of a packing, to the letter: ranks, other rules and what is wrong with them, and the bound."""

from __future__ import annotations

from typing import Any

import pytest

import pipesched
from tests.comparing.packings import GOLDEN as PUBLISHED
from tests.render.conftest import Golden, draw

TWO = pipesched.make_problem(devices=2, forward=1, backward=2, time_unit="ms")


def shown(**given: Any) -> list[str]:
    """Return the lines of a packing's tables, 80 columns wide; arguments are those of one rank of two microbatches."""
    usual = {"ranks": 1, "microbatches": 2, "cap": 10, "problem": TWO}
    packing = pipesched.pack(**{**usual, **given})
    return [line.rstrip() for line in draw(pipesched.Table(packing), 80).splitlines()]


def test_best_of_all(golden: Golden) -> None:
    """The published packing, with the proof that no other is shorter."""
    golden("packing.txt", "\n".join(shown(lengths=PUBLISHED, ranks=2, cap=12, attention=0.5)) + "\n")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"lengths": [5, 1, 1, 1], "ranks": 2, "cap": 9},
            "first-fit             5.33333  +54.8%  3 of 4 microbatches empty",
        ),
        ({"lengths": [5, 4, 3, 3, 3, 2]}, "first-fit                              1 document left over"),
        (
            {"lengths": [7, 7, 2, 2, 2, 2, 2], "cap": 9, "microbatches": 3},
            "karmarkar-karp        11.3333   +9.7%  10 tokens in a microbatch",
        ),
        (
            {"lengths": [5, 4, 2], "cap": 20, "algorithm": "dualpipe"},
            "first-fit                              1 of 2 microbatches empty; dualpipe has",
        ),
    ],
)
def test_what_does_not_fit(given: dict[str, Any], line: str) -> None:
    """A packing by another rule says why it is none."""
    assert line in shown(**given)


def test_over_budget() -> None:
    """Where nothing keeps the budget, each packing says so, and this one by how much and where."""
    lines = shown(lengths=[5, 4, 3, 3, 3, 2], problem=pipesched.make_problem(devices=2, budget=0.1))
    assert "this one               9          over budget, as all that were found: rank 0," in lines
    assert any("device 0 holds 2 of 0.1 microbatch: over" in line for line in lines)
    assert "verl                   9   +0.0%  over budget" in lines


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (None, "cut 5, 0 of 5 layers: the best of all 5, for microbatches that are alike"),
        ("balanced", "cut 4, 1 of 5 layers: balanced"),
        ([3, 2], "cut 3, 2 of 5 layers: given"),
    ],
)
def test_the_cut_is_said(layout: Any, said: str) -> None:
    """How layers are cut, and what is known of that, stands below the bound, which is about it."""
    problem = pipesched.make_problem(devices=2, layers=5, layer={"forward": 1}, last={"forward": 3}, layout=layout)
    lines = shown(lengths=PUBLISHED[4:], problem=problem)
    assert said in lines
    assert "2 microbatches a rank on this cut, with" in " ".join(lines)
