"""CONTRIBUTING.md is true: what it names exists, and kinds of operations are named where it says alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipesched.pipeline.problem.kinds import COMPUTATION_LETTERS, KINDS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pipesched"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DESIGN = (ROOT / "docs" / "explanation" / "design.md").read_text(encoding="utf-8")
OF_CHOICES = set(KINDS) - set(COMPUTATION_LETTERS)  # R, O and L: kinds beyond those of every training step


def test_it_is_short() -> None:
    """At most 6,000 bytes: what a newcomer reads before the first change."""
    assert len(TEXT.encode()) <= 6_000


def section(heading: str) -> str:
    """The text under a heading."""
    return TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def files_of(text: str) -> list[str]:
    """The files of the repository that a text names; `solver/variant.py` is short for `pipesched/solver/variant.py`."""
    names = re.findall(r"`([\w./-]+/[\w*.-]+|[\w-]+\.(?:py|md))`", text)
    return [name for name in names if "your_" not in name and "*" not in name]


@pytest.mark.parametrize("name", sorted(set(files_of(TEXT + DESIGN))))
def test_every_file_that_is_named_exists(name: str) -> None:
    assert (ROOT / name).exists() or (PACKAGE / name).exists()


def test_what_code_is_named_exists() -> None:
    """The names of tables and functions stand in the files that the lists send to."""
    places = {
        "FAMILIES": "schedulers/registry.py",
        "ALIASES": "schedulers/registry.py",
        "FAMILY": "schedulers/naive.py",
        "Format": "file_formats/registry.py",
        "COMMANDS": "cli/app.py",
        "MemorySavings": "pipeline/problem/kinds.py",
        "COLOURS": "file_formats/chrome_trace.py",
    }
    for name, file in places.items():
        assert f"`{name}`" in TEXT
        assert re.search(rf"\b{name}\b", (PACKAGE / file).read_text(encoding="utf-8"))
    assert "class Variant" in (PACKAGE / "solver/variant.py").read_text(encoding="utf-8")
    assert "def check_deadline" in (PACKAGE / "core/clock.py").read_text(encoding="utf-8")


def constants(path: Path) -> Iterator[str]:
    """The texts in a module that may name a choice, docstrings apart."""
    letters, text = "".join(KINDS), path.read_text(encoding="utf-8")
    if not re.search(rf"\b[{letters}]*[{''.join(OF_CHOICES)}][{letters}]*\b", text):
        return  # it takes long to parse all
    tree = ast.parse(text)
    statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in statements:
            yield node.value


@pytest.mark.slow
def test_a_new_kind_touches_at_most_ten_files() -> None:
    """The list has ten files, and only they (and colours of traces) name the kinds that not every step has."""
    listed = {f"pipesched/{name}" for name in files_of(section("Add an operation kind"))}
    optional = {"pipesched/file_formats/chrome_trace.py", "pipesched/runtime/stage.py"}
    assert len(listed - optional) == 10
    letters = "".join(KINDS)
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(re.fullmatch(f"[{letters}]+", text) and OF_CHOICES & set(text) for text in constants(path))
    }
    others = {"pipesched/estimation/huggingface.py", "pipesched/pipeline/layers/layout_text.py"}
    assert naming - others <= listed  # there L is the head in Megatron-LM's texts
    assert "pipesched/pipeline/check/check.py" in naming  # the search above finds something


@pytest.mark.parametrize("script", sorted((ROOT / "findings").iterdir()), ids=lambda script: str(script.stem))
def test_a_finding_has_its_form(script: Path) -> None:
    """Its head says what most would guess, the version, what was seen, where, and when the script fails."""
    head = script.read_text(encoding="utf-8").partition("\nset -euo pipefail\n")[0]
    parts = ("#!/usr/bin/env bash", "# What most would guess: ", "# Version: ", "# Seen: ", "# Source: ", "# Fails if ")
    assert [line for line in head.splitlines() if line.startswith(parts)] == [
        next(line for line in head.splitlines() if line.startswith(part)) for part in parts
    ]
