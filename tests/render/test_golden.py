"""Charts, plots and tables look as in tests/golden, in letters, in ASCII and in colour."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import RenderableType

from pipesched import Gantt, compare, make_problem
from pipesched.render.comparison import pareto, sweep_view
from pipesched.render.hardware import UnitChart
from pipesched.render.scatter import Scatter
from pipesched.results.comparison import pareto_points
from tests.render import test_fold as fold, test_gantt as gantt, test_step as step, test_units_chart as units
from tests.render.conftest import Golden, draw
from tests.render.test_scatter import EXAMPLE
from tests.render.test_sweep import swept
from tests.stepped import forwards, sized, sliced

PARETO = compare(
    make_problem(devices=4, stages=8, microbatches=8, forward=5, backward=10, budget=5),
    ["sequential", "naive", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "gis-h", "zb-h1"],
)
SWEEP = swept(values=range(8, 97, 8))
DRAWN: dict[
    str, tuple[str, Callable[[bool, int], RenderableType]]
] = {  # forms with widths; what is drawn in ASCII or not
    "1f1b": ("plain-60 plain-120 colour-80", lambda _, __: Gantt(gantt.scheduled("1f1b"))),
    "interleaved": (
        "ascii-60 ascii-80 ascii-120 ascii-200",
        lambda ascii_only, _: Gantt(gantt.scheduled("interleaved", budget=5), ascii_only=ascii_only),
    ),
    "fold-1f1b": ("plain-80 colour-80", lambda _, __: Gantt(fold.scheduled("1f1b"))),
    "fold-zb-h1": ("plain-80", lambda _, __: Gantt(fold.scheduled("zb-h1"))),
    "fold-interleaved": (
        "ascii-80",  # with memory, whose strips are folded too
        lambda ascii_only, _: Gantt(fold.scheduled("interleaved", stages=16, budget=12), ascii_only=ascii_only),
    ),
    "transfers": ("colour-80", lambda _, __: Gantt(step.saving())),
    "transfers-device": ("ascii-60 ascii-100", lambda ascii_only, _: Gantt(step.saving(), ascii_only=ascii_only)),
    "sized": ("plain-80 plain-160 colour-160", lambda _, __: Gantt(sized())),
    "forwards": ("plain-80 plain-160 colour-160", lambda _, __: Gantt(forwards(2, 4, kv=0.25))),
    "sliced": (
        "plain-80 plain-160 colour-160 ascii-80",  # the last with memory
        lambda ascii_only, _: (
            Gantt(sliced(2, 4, kv=0.25, budget=2), ascii_only=True) if ascii_only else Gantt(sliced())
        ),
    ),
    "pareto": (
        "plain-60 plain-80 plain-120 colour-80 ascii-80",
        lambda ascii_only, width: pareto(pareto_points(PARETO), PARETO, ascii_only=ascii_only, narrow=width < 80),
    ),
    "scatter": (
        "plain-40 plain-80 plain-120 ascii-80",
        lambda ascii_only, _: Scatter(**{**vars(EXAMPLE), "ascii_only": ascii_only}),
    ),
    "sweep": (
        "plain-80 plain-120 ascii-60 ascii-80",
        lambda ascii_only, _: sweep_view(SWEEP, "utilization", ascii_only=ascii_only),
    ),
    "sweep-over-budget": ("colour-80", lambda _, __: sweep_view(swept(budget=4), "memory")),
    "hls-article": (
        "plain-60 plain-80 plain-120 ascii-80 colour-80",
        lambda ascii_only, _: UnitChart(units.article(), ascii_only=ascii_only),
    ),
    "hls-hal-loop": ("plain-80 colour-80", lambda _, __: UnitChart(units.hal_loop())),
    "hls-ewf": ("plain-40 plain-80 plain-120", lambda _, __: UnitChart(units.ewf())),
}


@pytest.mark.parametrize(
    ("name", "form", "width"),
    [(name, *form.split("-")) for name, (forms, _) in DRAWN.items() for form in forms.split()],
)
def test_as_in_the_golden_file(golden: Golden, name: str, form: str, width: str) -> None:
    """Escape codes and all; ASCII has no other letters."""
    text = draw(DRAWN[name][1](form == "ascii", int(width)), int(width), colour=form == "colour")
    assert form != "ascii" or text.isascii()
    golden(f"{name}-{form}-{width}.txt", text)
