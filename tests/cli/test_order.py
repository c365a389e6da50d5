"""`--order` of the commands that make a plan by name, and of configs: which order the microbatches are fed in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Completed

Cli = Callable[..., Completed]
SIX = ("--devices", "4", "--stages", "4", "--forward", "1", "--backward", "2", "--work", "1,2,3,4,5,6")


def said(cli: Cli, *options: str) -> str:
    """The line of the summary, or "" where there is none."""
    lines = cli("run", "1f1b", *options, "--width", "140").stdout.splitlines()
    return next((" ".join(line.split()) for line in lines if line.startswith("order ")), "")


@pytest.mark.parametrize(
    ("order", "listed", "source"),
    [
        ("best", "0, 1, 2, 5, 4, 3", "the best of all 720 for 1f1b"),
        ("verl", "1, 3, 5, 4, 2, 0", "verl's rule"),
        ("given", "0, 1, 2, 3, 4, 5", "as given"),
        ("5,4,3,2,1,0", "5, 4, 3, 2, 1, 0", "as given"),
    ],
)
def test_the_summary_says_the_order(cli: Cli, order: str, listed: str, source: str) -> None:
    """It lists the microbatches as they are to be fed, and says where the order is from."""
    assert said(cli, *SIX, "--order", order) == f"order {listed} feed the microbatches in this order; {source}"


def test_many_microbatches(cli: Cli) -> None:
    """Of more than sixteen the order stands behind what a search tried."""
    works = ",".join(str(number % 7 + 1) for number in range(20))
    line = said(cli, "--devices", "2", "--stages", "2", "--work", works, "--order", "best")
    head = "order of 20 feed the microbatches in this order; searched: 40,000 orders: "
    assert line.startswith(head)


def test_alike_microbatches_say_nothing(cli: Cli) -> None:
    """A rule is no order of its own there; the output is that without the option."""
    assert said(cli, *SIX) == ""
    for order in ("best", "verl", "given"):
        assert cli("run", "1f1b", "--order", order).stdout == cli("run", "1f1b").stdout
    compared = cli("compare", "1f1b", "naive", "--order", "best")
    assert compared.stdout == cli("compare", "1f1b", "naive").stdout


def test_the_document(cli: Cli) -> None:
    """It has the order, and of the best one what is known of it; it reads back, and keeps every rule."""
    for algorithm, order, listed in (
        ("1f1b", "best", [0, 1, 2, 5, 4, 3]),
        ("1f1b", "verl", [1, 3, 5, 4, 2, 0]),
        ("chimera", "3,1,2,0,4,5", [3, 1, 2, 0, 4, 5]),
    ):
        done = cli("run", algorithm, *SIX, "--order", order, "--json")
        document = json.loads(done.stdout)
        assert document["order"] == listed
        known = {"exact": True, "tried": 720, "given": 103, "verl": 98} if order == "best" else None
        assert document.get("ordering") == known
        assert cli("check", "-", stdin=done.stdout).returncode == 0
        assert cli("show", "-", "--json", stdin=done.stdout).stdout == done.stdout


def test_the_order_of_a_config(cli: Cli, tmp_path: Path) -> None:
    """A config gives it like any option of its algorithm."""
    file = tmp_path / "c.yaml"
    for value, makespan in (("best", 96), ("verl", 98), ("[5, 4, 3, 2, 1, 0]", 105)):
        file.write_text(f"devices: 4\nsizes: {{work: [1, 2, 3, 4, 5, 6]}}\nalgorithm:\n  1f1b: {{order: {value}}}\n")
        assert json.loads(cli("run", "-c", str(file), "--json").stdout)["metrics"]["makespan"] == makespan


def test_a_comparison_orders_each_family(cli: Cli) -> None:
    """The table names the option, rows hold the list, and what is known of the best; both read back."""
    asked = ["compare", "1f1b", "eager-1f1b", "naive", *SIX, "--order", "best", "--charts", "none"]
    assert "1f1b, order best " in cli(*asked).stdout
    rows = cli(*asked, "--json").stdout
    found: list[dict[str, Any]] = json.loads(rows)["rows"]
    assert [(row["order"], row["metrics"]["makespan"]) for row in found] == [
        ([0, 1, 2, 5, 4, 3], 96),
        ([1, 2, 0, 5, 3, 4], 103),
        ([0, 1, 2, 3, 4, 5], 117),
    ]
    assert [row["ordering"]["given"] for row in found] == [103, 106, 117]
    assert cli("show", "-", "--json", stdin=rows).stdout == rows
    assert "1f1b, order best " in cli("show", "-", stdin=rows).stdout
    plain = json.loads(cli("compare", "1f1b", *SIX, "--json").stdout)["rows"]
    assert [(row["order"], "ordering" in row) for row in plain] == [([0, 1, 2, 3, 4, 5], False)]


def test_a_sweep_over_rules(cli: Cli, tmp_path: Path) -> None:
    """A row for each rule, as a table, a document that reads back, and a figure."""
    asked = ["compare", "1f1b", "naive", *SIX, "--sweep", "order=given,verl,best", "--show", "makespan"]
    lines = [line.split() for line in cli(*asked).stdout.splitlines()]
    table = [["given", "103", "117"], ["verl", "98", "117"], ["best", "96", "117"]]
    assert lines[1:] == [["order", "1f1b", "naive"], *table]
    rows = cli(*asked, "--json").stdout
    assert [(row["order"], row["algorithm"]) for row in json.loads(rows)["rows"]] == [
        (rule, name) for rule in ("given", "verl", "best") for name in ("1f1b", "naive")
    ]
    assert cli("show", "-", "--json", stdin=rows).stdout == rows
    assert cli(*asked, "-o", "s.svg").returncode == 0
    assert (tmp_path / "s.svg").exists()


def test_a_remark_for_a_framework(cli: Cli) -> None:
    """The text counts microbatches as they are fed, and a remark says which they are."""
    exported = cli("export", "1f1b", *SIX, "--order", "best", "--for", "megatron").stdout.splitlines()
    plain = cli("export", "1f1b", *SIX, "--for", "megatron").stdout.splitlines()
    order = "0, 1, 2, 5, 4, 3 (the best of all 720 for 1f1b)"
    assert exported == [*plain, f"# feed the microbatches in this order: {order}; the text counts them as they are fed"]


def test_an_explanation_keeps_the_order(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What plans again with other costs looks for no other order."""
    from pipesched.schedulers.feeding import search

    searches, looked = list[Any](), search.best_of_positions

    def best(known: Any) -> Any:
        searches.append(known)
        return looked(known)

    monkeypatch.setattr(search, "best_of_positions", best)
    assert "planned again" in cli("explain", "1f1b", *SIX, "--order", "best").stdout
    assert len(searches) == 1
