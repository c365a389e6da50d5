"""Where a function takes a schedule it takes the name of its file; a CSV needs the costs of a problem."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.errors import ConfigError

PROBLEM = pipesched.make_problem(devices=2, microbatches=4, forward=5, backward=10, budget=1)
OUTCOME = pipesched.run(PROBLEM, "1f1b")
FUNCTIONS: list[tuple[str, Callable[..., Any]]] = [
    ("schedule", pipesched.check),
    ("schedule", lambda given, **more: pipesched.explain(given, **more).idle),
    ("outcomes", lambda given, **more: pipesched.robustness(given, samples=10, **more).rows[0].mean),
    ("schedule", lambda given, **more: pipesched.hand_over(given, "megatron", **more)),
    ("result", lambda given, **more: pipesched.write(given, "copy.csv", force=True, **more).read_text()),
    ("result", lambda given, **more: len(pipesched.figure(given, **more).axes)),
]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule as a document and as a CSV."""
    monkeypatch.chdir(tmp_path)
    pipesched.write(OUTCOME, "1f1b.json")
    pipesched.write(OUTCOME, "1f1b.csv")


@pytest.mark.parametrize(("key", "function"), FUNCTIONS)
def test_a_file_stands_for_what_it_holds(key: str, function: Callable[..., Any]) -> None:
    """By its name or its path; a CSV with a problem; what is missing, or has no effect, is said about its parameter."""
    expected = function(OUTCOME)
    assert function("1f1b.json") == expected
    assert function(Path("1f1b.csv"), problem=PROBLEM) == expected
    for arguments, more, about, message in (
        (["1f1b.csv"], {}, "problem", "1f1b.csv is a CSV, which holds no costs: give a Problem"),
        (["1f1b.json"], {"problem": PROBLEM}, "problem", "1f1b.json is a document, which holds its own problem"),
        ([OUTCOME], {"problem": PROBLEM}, "problem", "gives a CSV its costs, and none is named"),
        (["none.json"], {}, key, "cannot read 'none.json': No such file"),
    ):
        with pytest.raises(ConfigError) as caught:
            function(*arguments, **more)
        assert caught.value.key == about
        assert caught.value.message.startswith(message)


def test_lists_and_comparisons() -> None:
    """A list may mix files and schedules; compare takes one file alone too."""
    found = pipesched.robustness(["1f1b.json", OUTCOME, "1f1b.csv"], problem=PROBLEM, samples=10)
    assert [row.makespan for row in found.rows] == [OUTCOME.schedule.makespan] * 3
    assert pipesched.compare(plans=Path("1f1b.json"))[0].outcome is not None
