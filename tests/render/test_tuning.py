"""What a tuning looks like on a screen: the text, letter by letter, and that it fits every width."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.console import RenderableType

import pipesched
from pipesched import Trial, Tuning
from pipesched.render.estimate import gpus_text, heading
from pipesched.render.scene import numbers_text
from pipesched.render.tuning import PointsTable, marks, pareto_view, point_lines, sentence, tuning_table, tuning_view
from pipesched.tuning.result import TimeShare
from tests.render.conftest import Golden, draw
from tests.tuning.made import MADE, NOTHING, PARETO, ROWS, SETUP, layout, trial, trusted

WIDE = replace(
    MADE,
    rows=(
        trial(layout(8, 16, 4, 8, context=32, expert=128, expert_tensor=2, recompute="selective"), "interleaved-zb",
              123_456.7, 143.2),
    ),
    parts=(TimeShare("communication of tensor parallelism that nothing hides", 0.999),),
)  # fmt: skip


ROWS_ALONE = tuple(replace(row, trust=None, behind=None) for row in ROWS)


def text(part: RenderableType, width: int) -> str:
    """What a terminal without colour gets, without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in draw(part, width).splitlines()) + "\n"


@pytest.mark.parametrize(
    ("name", "made", "view", "forms"),
    [
        ("tune", MADE, tuning_view, "plain-80 ascii-80 plain-40"),
        ("tune-nothing", NOTHING, tuning_view, "plain-80"),
        ("tune-pareto", MADE, pareto_view, "ascii-80"),
    ],
)
def test_as_in_the_golden_files(golden: Golden, name: str, made: Tuning, view: Any, forms: str) -> None:
    """The best points, where time goes, what memory forbids, and speed over memory with its letters."""
    for form, width in (form.split("-") for form in forms.split()):
        shown = text(view(made, ascii_only=form == "ascii"), int(width))
        assert form != "ascii" or shown.isascii()
        golden(f"{name}-{form}-{width}.txt", shown)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            "best of 410,000 points searched (of 470,000): 812 simulated, the others proved worse or impossible; not"
            " searched: 60,000 unlike all that was measured",
        ),
        ({"space": 1, "simulated": 1}, "best of 1 point: all simulated"),
        (
            {"pruned": {}, "is_widened": True},
            "No layout that fits resembles a measured run, so every layout was searched; best of 470,000 points: 812"
            " simulated, the others proved worse or impossible",
        ),
        (
            {"left": 9, "space": 821, "pruned": {}},
            "best so far of 812 points searched (of 821): 812 simulated; not searched: 9 when the search was stopped",
        ),
        (
            {"rows": (), "left": 9, "capacity": 0.0},
            "none of 409,991 points searched (of 470,000) is known to fit: 812 simulated, the others proved impossible;"
            " not searched: 60,000 unlike all that was measured, 9 when the search was stopped",
        ),
    ],
)
def test_the_sentence(changes: dict[str, object], said: str) -> None:
    """How many points there were, how many were simulated, and what is known of the others."""
    assert sentence(replace(MADE, **changes)) == said  # type: ignore[arg-type]


def folded_rows() -> tuple[Trial, ...]:
    """Six rows of three layouts: one in other chunks and under other algorithms, one twice."""
    place = layout(2, 4, 6)
    others = [trial(place._replace(chunks=chunks), "interleaved", 990.0 - chunks, 60.0) for chunks in (3, 2)]
    return (
        trial(place, "interleaved", 1000.0, 60.0),
        trial(layout(4, 2), "1f1b", 995.0, 60.0),
        *others,
        trial(layout(4, 2, expert_tensor=2), "1f1b", 980.0, 70.0),
        trial(place._replace(chunks=2), "zb-v", 970.0, 60.0),
    )


def test_rows_of_a_layout_are_one_line() -> None:
    """The best of them with the numbers of all; below it the others. `expert_tensor` is a layout of its own."""
    rows = folded_rows()
    plain = replace(MADE, rows=rows, tied=0)
    lines = text(tuning_view(plain), 80).splitlines()[4:11]
    assert [line.split()[:2] for line in lines[2:]] == [
        ["1,", "3-4,"], ["other", "chunks"], ["2", "4"], ["5", "4"], ["t", "tensor,"],
    ]  # fmt: skip
    assert lines[2].startswith("1, 3-4, 6  2  4  6   1  interleaved   1,000.0   best")
    assert lines[3] == "  other chunks 3, 2; schedules zb-v (chunks 2): to -3.0%"
    every = text(tuning_view(plain, all_rows=True), 80)
    assert [line.split()[0] for line in every.splitlines()[6:12] if line[0].isdigit()] == ["1", "2", "3", "4", "5", "6"]
    assert "  other chunks" not in every + text(pareto_view(replace(MADE, rows=rows, pareto=rows)), 80)
    assert text(pipesched.Table(replace(MADE, rows=rows)), 80).count("interleaved") == 3


@pytest.mark.parametrize(
    ("numbers", "said"), [([1], "1"), ([1, 2, 3], "1-3"), ([2, 5], "2, 5"), ([1, 3, 4, 9, 10, 11], "1, 3-4, 9-11")]
)
def test_numbers_of_a_line(numbers: list[int], said: str) -> None:
    """Those that follow each other are a range."""
    assert numbers_text(numbers) == said


def test_what_has_nothing_to_spare_may_not_fit() -> None:
    """A row that may hold more than the GPU has is marked, on every table; one that surely fits is not."""
    memories = [trusted(trial(layout(2, 4), "1f1b", 9.0, memory)) for memory in (78.0, 78.1, 80.0, 80.1)]
    assert [one.may_not_fit for one in memories] == [False, True, True, False]
    assert [one.sure for one in memories] == [True, False, False, False]
    for shown in (tuning_view(MADE), tuning_table(MADE), pareto_view(replace(MADE, pareto=ROWS))):
        assert text(shown, 80).count("\n  may not fit\n") == 1


def test_what_a_config_replaces_of_a_preset_is_in_the_heading() -> None:
    """Numbers that are not the preset's, and shares; none where a config says the same as the preset."""
    for hardware, training, said in (
        ({"nvlink": 200, "pcie": 64}, {}, "8 h100-sxm with nvlink 200"),
        ({"nic": 12.5, "nvlink": 200}, {"efficiency": {"network": 0.5}}, "8 h100-sxm with nic 12.5, nvlink 200, own"),
        ({}, {}, "8 h100-sxm"),
    ):
        found = pipesched.estimate(SETUP, hardware={"preset": "h100-sxm", **hardware}, training=training)
        first = text(tuning_view(replace(MADE, estimate=found)), 160).splitlines()[0]
        assert first.startswith(f"llama-3-8b on {said}"), first
        assert first.endswith("own efficiency") == bool(training)
        assert heading(found).startswith(f"{first}: tensor 2, ")
    bare = SETUP.replace("h100-sxm", "{tflops: 9, memory: 80, bandwidth: 7}")
    assert gpus_text(pipesched.estimate(bare).setup) == "8 GPU"


def test_columns() -> None:
    """Sizes that are the usual one in all rows have no column; very narrow, a layout is a text."""
    rows = text(PointsTable(point_lines(ROWS_ALONE[:2])), 80).splitlines()
    assert rows[1].split()[:5] == ["row", "t", "p", "v", "algorithm"]
    assert rows[2].split() == ["1", "2", "4", "1", "zb-h1", "10,412.3", "best", "52.1%", "5.1%", "61.2", "18.8"]
    assert "b micro" not in rows[-1]
    sizes = {"t8", "p16", "v4", "c32", "e128", "et2", "b8", "selective"}
    assert not sizes - {"selective"} & {*text(PointsTable(point_lines(WIDE.rows)), 69).split()}
    assert sizes <= {*text(PointsTable(point_lines(WIDE.rows)), 63).split()}
    assert text(PointsTable(()), 80).strip() == ""


@pytest.mark.parametrize("width", [20, 60, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """Also of long names and large numbers, and with marks."""
    for made in (MADE, NOTHING, WIDE):
        for view in (tuning_view, pareto_view):
            assert max(map(len, text(view(made), width).splitlines())) <= width


def test_it_shows_itself() -> None:
    """In a notebook as on a screen; `Table` has the rows alone."""
    assert "Where the GPU time" in MADE._repr_mimebundle_()["text/plain"]
    table = text(pipesched.Table(MADE), 80)
    assert "Where the GPU time" not in table
    assert "interleaved" in table
    assert "12.3 GB too much" in text(tuning_table(NOTHING), 80)
    assert set(Tuning((), 0, 0, {})._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_plots_of_many_points_of_one_and_of_none() -> None:
    """Behind the letters all marks are alike; without other rows and a capacity there is less of a legend."""
    many = tuple(trial(layout(2, 2, micro=1 + i), "1f1b", 9000.0 - i, 70.0 - i) for i in range(30))
    assert (marks(30)[25:], marks(2), marks(0)) == (["Z", "#", "#", "#", "#"], ["A", "B"], [])
    shown = text(pareto_view(replace(MADE, rows=many[:10], pareto=many, capacity=0.0)), 80)
    assert "other points" not in shown
    assert "GB of a GPU" not in shown
    assert "A" in text(pareto_view(replace(MADE, rows=ROWS[:1], pareto=PARETO[:1])), 40)
    for made in (NOTHING, Tuning((), 0, 0, {})):
        assert "tokens/s/GPU" not in text(pareto_view(made), 80)
