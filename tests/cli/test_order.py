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


def test_rows_of_orders_read_back(cli: Cli, tmp_path: Path) -> None:
    """A comparison and a sweep over rules are documents with the order of each row, and a figure."""
    for more in (["--order", "best"], ["--sweep", "order=given,verl,best", "--show", "makespan"]):
        asked = ["compare", "1f1b", "eager-1f1b", "naive", *SIX, *more]
        rows = cli(*asked, "--json").stdout
        assert all(row["order"] for row in json.loads(rows)["rows"])
        assert cli("show", "-", "--json", stdin=rows).stdout == rows
    assert cli(*asked, "-o", "s.svg").returncode == 0
    assert (tmp_path / "s.svg").exists()


def test_an_explanation_keeps_the_order(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What plans again with other costs looks for no other order."""
    from pipesched.schedulers import ordering

    searches, looked = list[Any](), ordering.best_of_positions

    def best(known: Any) -> Any:
        searches.append(known)
        return looked(known)

    monkeypatch.setattr(ordering, "best_of_positions", best)
    assert "planned again" in cli("explain", "1f1b", *SIX, "--order", "best").stdout
    assert len(searches) == 1
