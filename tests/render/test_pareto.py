"""Makespan against memory, drawn: golden texts of the plot with its table, and the marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipesched.comparing.compare import compare
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.render.comparison import marks, pareto
from pipesched.results.comparison import Comparison, pareto_points

Renderer = Callable[..., str]
Golden = Callable[[str, str], None]
NAMES = ["sequential", "naive", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "gis-h", "zb-h1"]
AUTOPIPE: dict[str, Any] = {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10}
ENTRIES = compare(make_problem(**AUTOPIPE, budget=5), NAMES)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_without_colour(draw: Renderer, golden: Golden, width: int) -> None:
    """Eight families under a budget look as in tests/golden."""
    golden(f"pareto-plain-{width}.txt", draw(pareto(pareto_points(ENTRIES), ENTRIES, narrow=width < 80), width))


def test_in_colour(draw: Renderer, golden: Golden) -> None:
    """The frontier is bold, what is dominated dim, what is over the budget red."""
    golden("pareto-colour-80.txt", draw(pareto(pareto_points(ENTRIES), ENTRIES), 80, colour=True))


def test_ascii(draw: Renderer, golden: Golden) -> None:
    """The ASCII twin has no other letters."""
    text = draw(pareto(pareto_points(ENTRIES), ENTRIES, ascii_only=True), 80)
    assert text.isascii()
    golden("pareto-ascii-80.txt", text)


def test_marks_say_what_is_dominated() -> None:
    """A large letter is on the frontier; after the letters come digits, then #."""
    first, other = compare(make_problem(**AUTOPIPE), ["1f1b", "naive"])
    entries = Comparison((first, *[other] * 40))
    found = marks(pareto_points(entries))
    assert "".join(found) == "Abcdefghijklmnopqrstuvwxyz0123456789#####"


def test_nothing_takes_time(draw: Renderer) -> None:
    """All costs zero: one point for all, and no failure."""
    entries = compare(make_problem(devices=2, forward=0, backward=0), ["naive", "1f1b"])
    assert "A+ = A B" in draw(pareto(pareto_points(entries), entries), 80)
