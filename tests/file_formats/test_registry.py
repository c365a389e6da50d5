"""Formats by name and by suffix."""

from __future__ import annotations

import pytest

import pipesched
from pipesched.errors import ConfigError, NotApplicable
from pipesched.file_formats.registry import FIGURES, FORMATS, SCHEDULE, format_of
from pipesched.render.view import View

SUFFIXES = {one.name: one.suffix for one in FORMATS.values()}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.json", "json"),
        ("a.trace.json", "chrome-trace"),
        (".trace.json", "chrome-trace"),
        ("trace.json", "json"),
        ("dir.csv/a.JSON", "json"),
        ("A.CSV", "pytorch-csv"),
        ("a.html", "html"),
        ("a.b.svg", "svg"),
        ("a.png", "png"),
        ("a.pdf", "pdf"),
    ],
)
def test_suffix_names_the_format(path: str, name: str) -> None:
    """The longest suffix that fits counts, in any case."""
    assert format_of(path, SUFFIXES).name == name


@pytest.mark.parametrize("path", ["a", "a.txt", "json", "a.json.gz", "", "a.json/", "a.trace"])
def test_unknown_suffix(path: str) -> None:
    """Another suffix is refused with those there are."""
    with pytest.raises(
        ConfigError, match=r"must end in \.json, \.csv, \.trace\.json, \.yaml, \.html, \.svg, \.png or \.pdf"
    ):
        format_of(path, SUFFIXES)


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if SCHEDULE in form.writers])
def test_writers(name: str) -> None:
    """Each writer makes text, or bytes if the format is binary."""
    outcome = pipesched.run(pipesched.make_problem(devices=2, microbatches=2), "1f1b")
    content = FORMATS[name].writers[SCHEDULE](outcome, View())
    assert isinstance(content, bytes if FORMATS[name].binary else str)
    assert len(content) > 20
    assert FORMATS[name].name == name


def test_figures_are_formats() -> None:
    """What a comparison can be drawn as is what a schedule can be drawn as."""
    assert set(FIGURES) < set(FORMATS)


def test_a_format_that_cannot_hold_the_schedule() -> None:
    """PyTorch's CSV has no place for two copies of a stage: refused, with another way."""
    outcome = pipesched.run(pipesched.make_problem(devices=4, microbatches=8), "chimera")
    with pytest.raises(NotApplicable, match="one rank"):
        FORMATS["pytorch-csv"].writers[SCHEDULE](outcome, View())
