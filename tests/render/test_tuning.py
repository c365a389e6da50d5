"""What a tuning looks like on a screen: the text, letter by letter, and that it fits every width."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

import pipesched
from pipesched.render.space_points import PointsTable
from pipesched.render.tuning import pareto_view, sentence, tuning_table, tuning_view
from pipesched.tuning.result import Doubt, TimeShare, Tuning
from tests.tuning.made import MADE, NOTHING, ROWS, layout, trial

GOLDEN = Path(__file__).parent.parent / "golden"
STEADY = replace(MADE, doubts=tuple(Doubt(share, 0.9, ROWS[0], 0.0) for share in ("gemm", "network")))
WIDE = replace(
    MADE,
    rows=(
        trial(layout(8, 16, 4, 8, context=32, expert=128, expert_tensor=2, recompute="selective"), "interleaved-zb",
              123_456.7, 143.2),
    ),
    parts=(TimeShare("communication of tensor parallelism that nothing hides", 0.999),),
)  # fmt: skip


def text(part: RenderableType, width: int) -> str:
    """What a terminal without colour gets."""
    with (console := Console(width=width, color_system=None, highlight=False)).capture() as capture:
        console.print(part)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


@pytest.mark.parametrize(("form", "width"), [("plain", 80), ("ascii", 80), ("plain", 40)])
def test_text_is_that_of_the_golden_files(form: str, width: int) -> None:
    """The best points, where time goes, what memory forbids, what is in doubt: with letters alone, and narrow too."""
    shown = text(tuning_view(MADE, ascii_only=form == "ascii"), width)
    assert shown == (GOLDEN / f"tune-{form}-{width}.txt").read_text("utf-8")
    assert form != "ascii" or shown.isascii()


def test_nothing_fits() -> None:
    """What misses its memory by least, what would help, and why there is no more."""
    assert (
        text(tuning_view(NOTHING), 80)
        == """\
mine
none of 96 points fits in 24 GB: all proved impossible

What misses its memory by least:
  tensor 8, pipeline 1, 1f1b: 12.3 GB too much
    it fits with recompute full
    it fits with 16 GPUs
  tensor 4, pipeline 2, expert 2, 1f1b: 12 MB too much

Not simulated: 60 do not divide, 36 do not fit.
"""
    )
    assert "12.3 GB too much" in text(tuning_table(NOTHING), 80)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "best of 470,000 points: 812 simulated, the others proved worse or impossible"),
        ({"space": 812}, "best of 812 points: all simulated"),
        ({"space": 1, "simulated": 1}, "best of 1 point: all simulated"),
        (
            {"left": 1234},
            "best so far of 470,000 points: 812 simulated, 1,234 left when the search was stopped, the others proved"
            " worse or impossible",
        ),
        ({"left": 9, "space": 821}, "best so far of 821 points: 812 simulated, 9 left when the search was stopped"),
        ({"rows": ()}, "none of 470,000 points fits in 80 GB: 812 simulated, the others proved impossible"),
        (
            {"rows": (), "left": 9, "capacity": 0.0},
            "none of 470,000 points is known to fit: 812 simulated, 9 left when the search was stopped, the others"
            " proved impossible",
        ),
    ],
)
def test_the_sentence(changes: dict[str, object], said: str) -> None:
    """How many points there were, how many were simulated, and what is known of the others."""
    assert sentence(replace(MADE, **changes)) == said  # type: ignore[arg-type]


def test_doubts() -> None:
    """What would win elsewhere is said; where nothing would, one line says so."""
    assert (
        "If gemm efficiency were 10% lower, tensor 2, pipeline 4, chunks 2, interleaved would win by 1.2%."
        in " ".join(text(tuning_view(MADE), 80).split())
    )
    shown = text(tuning_view(STEADY), 80)
    assert "The same layout stays best when each efficiency is 10% off.\n" in shown
    assert "would win" not in shown


def test_what_memory_forbids_is_said_once() -> None:
    """Layouts that differ in chunks alone are one line where the same is known of them; others have their own."""
    one = MADE.wishes[0]._replace(algorithm="")
    others = [one._replace(layout=one.layout._replace(chunks=2)), one._replace(layout=one.layout._replace(micro=2))]
    shown = text(tuning_view(replace(MADE, wishes=(one, *others))), 100)
    assert "tensor 1, pipeline 4: 3.2 GB too much" in shown
    assert "chunks 2: 3.2 GB" not in shown
    assert "tensor 1, pipeline 4, micro 2: 3.2 GB too much" in shown


def test_columns() -> None:
    """Sizes that are the usual one in all rows have no column; very narrow, a layout is a text."""
    rows = text(PointsTable(ROWS[:2]), 80).splitlines()
    assert rows[1].split()[:4] == ["t", "p", "v", "algorithm"]
    assert rows[2].split() == ["2", "4", "1", "zb-h1", "10,412.3", "best", "52.1%", "5.1%", "61.2", "18.8"]
    assert "b micro" not in rows[-1]
    sizes = {"t8", "p16", "v4", "c32", "e128", "et2", "b8", "selective"}
    assert not sizes - {"selective"} & {*text(PointsTable(WIDE.rows), 64).split()}
    assert sizes <= {*text(PointsTable(WIDE.rows), 58).split()}
    assert text(PointsTable(()), 80).strip() == ""


@pytest.mark.parametrize("width", [20, 33, 60, 80, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """Also of long names and large numbers, and with marks."""
    for made in (MADE, NOTHING, STEADY, WIDE):
        for view in (tuning_view, pareto_view):
            assert max(map(len, text(view(made), width).splitlines())) <= width


def test_it_shows_itself() -> None:
    """In a notebook as on a screen; `Table` has the rows alone."""
    bundle = MADE._repr_mimebundle_()
    assert "best of 470,000 points" in bundle["text/plain"]
    assert "Where the GPU time" in bundle["text/plain"]
    assert "Where the GPU time" not in text(pipesched.Table(MADE), 80)
    assert "interleaved" in text(pipesched.Table(MADE), 80)
    empty = Tuning((), 0, 0, {})
    assert set(empty._repr_mimebundle_()) == {"text/plain", "text/html"}
