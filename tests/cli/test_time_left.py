"""What a command leaves to a search of its time limit."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from pipesched.cli import progress
from pipesched.cli.progress import elapsed, left_for_search, most_classified
from pipesched.core.cpsat import Limits
from pipesched.solver.policy import DEFAULT

Cli = Callable[..., subprocess.CompletedProcess[str]]
GIVEN = ("--devices", "4", "--microbatches", "6", "--placement", "linear", "--mem-budget", "3")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that began two seconds ago."""
    monkeypatch.setattr(progress, "_began", [10.0])
    monkeypatch.setattr(progress, "monotonic", lambda: 12.0)


def test_what_comes_before_and_after(begun: None) -> None:
    """The start, and what is printed by the number of operations; never less than a moment."""
    assert elapsed() == 2.0
    nothing = left_for_search(10, 0, documents=0, chart=False, classes=False)
    assert 7 < nothing < 8
    drawn, written = (
        left_for_search(10, 100_000, documents=documents, chart=not documents, classes=False) for documents in (0, 1)
    )
    assert 0 < written < drawn < nothing
    assert left_for_search(1, 100_000, documents=1, chart=True, classes=True) == DEFAULT.command.least


def test_in_another_process_nothing_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the command line is called as a function, its process began long ago."""
    monkeypatch.setattr(progress, "_began", [])
    assert elapsed() == 0.0


def test_longer_limits_classify_more() -> None:
    assert 0 < most_classified(1) < most_classified(60)


@pytest.mark.parametrize("flags", [[], ["--json"], ["--frontier"]])
@pytest.mark.slow
def test_a_search_has_less_than_the_command(flags: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library is given is less than `--time-limit`, and of the default too."""
    given: list[float] = []

    def noted(**values: Any) -> Any:
        given.append(values["seconds"])
        return Limits(**values)

    monkeypatch.setattr("pipesched.solver.request.Limits", noted)
    assert cli("solve", *GIVEN, "--time-limit", "20", "--quiet", *flags).returncode == 0
    assert cli("solve", *GIVEN, "--quiet", *flags).returncode == 0
    assert max(given[0], given[-1]) > 15
    assert given[0] < 20
    assert max(given) < 60


def test_a_limit_that_is_too_short_for_one_schedule(cli: Cli) -> None:
    """There is an answer, and it says that no other was tried: below the summary, and beside a document on stderr."""
    short = ("--devices", "8", "--microbatches", "500", "--placement", "linear", "--mem-budget", "3", "--time-limit")
    text = cli("solve", *short, "0.000001", "--quiet")
    assert text.returncode == 0
    assert "takes longer than the --time-limit" in " ".join(text.stdout.split())
    document = cli("solve", *short, "0.000001", "--quiet", "--json")
    assert json.loads(document.stdout)["solver"]["stopped_by"] in ("time limit", "proof")
    assert "takes longer than the --time-limit" in document.stderr


@pytest.mark.parametrize("limit", ["0", "-3", "2000000"])
def test_a_limit_that_is_none(limit: str, cli: Cli) -> None:
    """It is refused, as it was given."""
    result = cli("solve", *GIVEN, "--time-limit", limit)
    assert result.returncode == 2
    assert "--time-limit: must be a number of more than 0" in result.stderr
