"""The mutations of scripts/mutants.py: each can be applied, is Python, and has tests; they are not run here."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from mutants import chosen, main
from mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_another_program(mutation: Mutation) -> None:
    """Its text occurs once, and what comes of it is no syntax error, which any test would notice."""
    text = (ROOT / mutation.path).read_text()
    mutated = mutation.applied(text)
    assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(text))
    assert mutation.tests
    assert all((ROOT / path).is_file() for path in mutation.test_paths)


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(mutation.name for mutation in MUTATIONS).items() if count > 1] == []
    assert len(MUTATIONS) >= 40


def test_a_text_that_is_not_there_once() -> None:
    mutation = Mutation("turn", "words", old="left", new="right", tests=())
    assert mutation.applied("go left") == "go right"
    for text in ("go on", "left, left"):
        with pytest.raises(ValueError, match="turn: its text occurs"):
            mutation.applied(text)


def test_a_sample_is_spread_over_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    sample = chosen([], 8)
    assert len(set(sample)) == 8
    assert len({mutation.file.partition("/")[0] for mutation in sample}) >= 3
    assert chosen([], 1_000) == chosen([], None) == list(MUTATIONS)
    assert main(["--sample", "8", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [mutation.name for mutation in sample]


def test_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_of:
        main(["no such mutation"])
    assert exit_of.value.code == 2
    assert "no mutation is called 'no such mutation'" in capsys.readouterr().err
