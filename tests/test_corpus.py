"""This build answers as the one that wrote the corpus did; `scripts/corpus.py` says all that differs."""

from __future__ import annotations

import gzip
import json

import pytest

from pipesched.schedulers.registry import FAMILIES
from tests.corpus import FILE, KINDS, differences, document_differences, in_words, problem_differences, read_corpus
from tests.examples import at_night_but

PARTS = 20  # of the problems, so that several workers share them
EXPLAINED = (10, 13, 19)  # parts with every family and key, whose reasons the gate compares
LONG = {one for one in KINDS["open_cuts"] if one.startswith(("tune", "run configs/qwen3"))}


@pytest.mark.parametrize("part", range(PARTS))
def test_problems(part: int) -> None:
    """Orders, times, metrics, bounds, reasons and refusals of every family are those of the corpus."""
    require_equal(part, explained=part in EXPLAINED)


@pytest.mark.nightly
@pytest.mark.parametrize("part", {*range(PARTS)}.difference(EXPLAINED))
def test_reasons(part: int) -> None:
    """So are the reasons of the other problems."""
    require_equal(part, explained=True)


def require_equal(part: int, *, explained: bool) -> None:
    numbers = range(part, len(read_corpus()["problems"]), PARTS)
    found = [one for number in numbers for one in problem_differences(number, explained=explained)]
    if found:
        pytest.fail(in_words(found), pytrace=False)


@pytest.mark.parametrize("commands", KINDS["documents"])
def test_documents(commands: str) -> None:
    """Commands print the documents and texts of the corpus."""
    found = document_differences("documents", commands)
    if found:
        pytest.fail(in_words(found), pytrace=False)


@pytest.mark.parametrize("commands", at_night_but({*KINDS["open_cuts"]} - LONG, KINDS["open_cuts"]))
def test_documents_of_open_cuts(commands: str) -> None:
    """The same where layers are given without a layout, so that pipesched chooses the cut."""
    found = document_differences("open_cuts", commands)
    if found:
        pytest.fail(in_words(found), pytrace=False)


def test_corpus_is_complete() -> None:
    """It holds the commands of today and no others, runs that break no rule, and every family."""
    corpus = read_corpus()
    assert {kind: [*corpus[kind]] for kind in KINDS} == {kind: [*commands] for kind, commands in KINDS.items()}
    runs = [one for entry in corpus["problems"] for one in entry["runs"] if "refused" not in one]
    assert not [one["run"] for one in runs if one["violations"]]
    assert {one["run"][0] for one in runs} == {*FAMILIES}


def test_differences_name_their_place() -> None:
    """A changed number, a missing key, a longer list and a float for an int are differences, each with its path."""
    old = {"a": [1, 2], "b": {"c": 1}, "d": [1], "e": 1}
    new = {"a": [1, 3], "b": {}, "d": [1, 1], "e": 1.0}
    assert [*differences(old, new)] == [("a[1]", 2, 3), ("b.c", 1, None), ("d", [1], [1, 1]), ("e", 1, 1.0)]


def test_file_is_reproducible() -> None:
    """The file has no time in its head, and is the text that JSON makes of it."""
    content = FILE.read_bytes()
    assert content[4:8] == bytes(4)
    text = gzip.decompress(content).decode()
    assert json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False) == text
