"""`pipesched list`: the algorithms, and what to know before using one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from pipesched.comparison import every_name
from pipesched.schedulers.registry import ALIASES, FAMILIES

Cli = Callable[..., subprocess.CompletedProcess[str]]


def test_json(cli: Cli) -> None:
    """--json has a row for each family, in the order of the registry, with every fact as text."""
    result = cli("list", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert (document["format"], document["version"]) == ("pipesched.list", 1)
    assert [row["name"] for row in document["rows"]] == list(FAMILIES)
    for row in document["rows"]:
        assert {"needs", "placement", "memory", "elsewhere", "bubble", "source", "options", "aliases"} <= set(row)
        assert all(value for key, value in row.items() if key not in ("options", "aliases"))


def test_json_options_work(cli: Cli) -> None:
    """The options that the list names for a family are options of the command line that the family takes, but for those
    that stand in a config."""
    values = {"--lifo": [], "--tie": ["fifo"], "--priority": ["alap"], "--objective": ["makespan"]}
    for row in json.loads(cli("list", "--json").stdout)["rows"]:
        for option in (option for option in row["options"] if option.startswith("--")):
            assert cli("run", "-a", row["name"], option, *values.get(option, ["8"])).returncode == 0


def test_json_aliases(cli: Cli) -> None:
    """Every alias stands with its family."""
    rows = json.loads(cli("list", "--json").stdout)["rows"]
    assert {alias: row["name"] for row in rows for alias in row["aliases"]} == ALIASES


@pytest.mark.parametrize("width", ["20", "80", "200"])
def test_every_name_is_shown(cli: Cli, width: str) -> None:
    """Every family stands in the list, at any width."""
    result = cli("list", "--width", width)
    assert (result.returncode, result.stderr) == (0, "")
    assert all(name in result.stdout for name in FAMILIES)
    assert max(map(len, result.stdout.splitlines())) <= int(width)


def test_every_family_runs_on_the_built_in_default(cli: Cli) -> None:
    """Each listed algorithm that a user need not define runs without a config, and its schedule passes the check."""
    for name in every_name():
        document = cli("run", "-a", name, "--json")
        assert document.returncode == 0
        assert cli("check", "-", stdin=document.stdout).returncode == 0
