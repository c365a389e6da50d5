"""The documentation is executed: what a page says a command prints is what it prints."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import pipesched
import pipesched.hls
from pipesched.schedulers.registry import FAMILIES, family

ROOT = Path(__file__).parent.parent


def _docs_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOCS = _docs_script()


@pytest.mark.parametrize("page", DOCS.PAGES, ids=lambda page: page.name)
def test_every_example_prints_what_the_page_says(page: Path) -> None:
    """Running the commands of a page again gives the page."""
    text = page.read_text(encoding="utf-8")
    assert DOCS.refreshed(text) == text


def test_the_readme_shows_commands() -> None:
    """The test above has something to run: the README's examples include the three commands of the mission."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "$ pipesched run --algo 1f1b\n" in text
    assert "$ pipesched compare naive 1f1b interleaved" in text


def test_python_examples_of_the_readme_and_the_package() -> None:
    """The Python examples of the README and of the packages' docstrings give what they say."""
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert results.attempted >= 5
    assert results.failed == 0
    for package in (pipesched, pipesched.hls):
        results = doctest.testmod(package)
        assert results.attempted >= 4
        assert results.failed == 0


SCHEDULES = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")


def _section(name: str) -> str:
    """The section of a family in docs/schedules.md, on one line."""
    _, _, rest = SCHEDULES.partition(f"\n## {name}\n")
    return " ".join(rest.partition("\n## ")[0].split())


def test_the_schedules_stand_in_the_order_of_the_list() -> None:
    """Every registered family has a section, and no other name has one."""
    headings = re.findall(r"^## ([a-z0-9-]+)$", SCHEDULES, re.MULTILINE)
    assert headings == list(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_section_draws_its_family_and_says_where_it_comes_from(name: str) -> None:
    """The chart, with what the list says of needs, source and who else has it."""
    section, one = _section(name), family(name)
    assert f"$ pipesched compare {name} --width 90" in section
    assert f"Needs: {one.needs}. Source: {one.source}." in section
    assert one.elsewhere == "none" or f"Also in: {one.elsewhere}." in section
