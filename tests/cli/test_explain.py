"""`pipesched explain`: the chart with its marks, the tables, one operation, and the document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

Cli = Callable[..., "CompletedProcess[str]"]


def explained(cli: Cli, *arguments: str) -> dict[str, Any]:
    """The document of an explanation."""
    result = cli("explain", *arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_a_file_is_explained_with_its_own_times(cli: Cli, tmp_path: Path) -> None:
    """A document whose last slot starts later than it could has late idle time; the rest is as for its plan."""
    path = tmp_path / "a.json"
    assert cli("run", "1f1b", "-o", str(path)).returncode == 0
    assert explained(cli, str(path)) == explained(cli, "1f1b")
    content = json.loads(path.read_text())
    last = content["devices"][0][-1]
    last["start"], last["end"] = last["start"] + 7, last["end"] + 7
    del content["metrics"], content["status"]
    path.write_text(json.dumps(content))
    late = explained(cli, str(path))
    assert late["makespan"] == 337
    assert late["devices"][0]["late"] == 7
    assert late["sensitivity"] == [{**row, "count": _count(late, row)} for row in explained(cli, "1f1b")["sensitivity"]]
    line = "the same order at its earliest times takes 330: costs and moves below change that"
    assert line in cli("explain", str(path), "--width", "100").stdout
    assert "earliest times" not in cli("explain", "1f1b", "--width", "100").stdout


def _count(document: dict[str, Any], row: dict[str, Any]) -> int:
    """How often a cost stands on the critical path."""
    return sum(op.startswith(f"{row['stage']}{row['kind']}") for op in document["critical_path"])


def test_of_many_operations_only_explain_classifies(cli: Cli) -> None:
    """`run` of more than 50,000 operations points to `explain` without the shares."""
    lines = cli("run", "1f1b", "--devices", "16", "--stages", "16", "--microbatches", "1600").stdout.splitlines()
    assert lines[-1] == "`pipesched explain` says where idle time goes, and why."


def test_written_to_a_file(cli: Cli, tmp_path: Path) -> None:
    """-o writes the document, or the page that begins with its marks; with --why there is nothing to write."""
    page, file = tmp_path / "why.html", tmp_path / "why.json"
    assert cli("explain", "1f1b", "-o", str(page)).returncode == 0
    assert '"explains":true' in page.read_text(encoding="utf-8")
    done = cli("explain", "1f1b", "-o", str(file), "--json")
    assert json.loads(file.read_text(encoding="utf-8")) == json.loads(done.stdout)
    assert "exists" in cli("explain", "1f1b", "-o", str(page)).stderr
    assert "--why" in cli("explain", "1f1b", "--why", "0F0", "-o", str(tmp_path / "x.html")).stderr
