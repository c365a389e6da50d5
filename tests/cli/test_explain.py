"""`pipesched explain`: the chart with its marks, the tables, one operation, and the document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Cli = Callable[..., "CompletedProcess[str]"]
CLASSES = {"warm_up", "wait", "transfer", "order", "memory", "drain", "late"}


def explained(cli: Cli, *arguments: str) -> dict[str, Any]:
    """The document of an explanation."""
    result = cli("explain", *arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_the_default_in_words(cli: Cli) -> None:
    """The output at 80 columns, without colour: the marked chart, idle time by class, gaps, costs, moves."""
    result = cli("explain", "1f1b", "--width", "80")
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    for line in (
        "why      **      oooooooooooo                  ******    ww    ww    ww****",
        "why      uuuuuu******            ******                  ******dddddddddddd",
        "idle            warm-up  wait  order  drain    all",
        "device 1             10    20     40     20     90",
        "sum                  60    60    120    120    360",
        "makespan 330, bound 330 for this placement, backwards whole; proved: no order",
        "avoids any of the 360 idle time",
        "device 0  40 to 100   order  0F4 could run, but 0B0 comes first in the order",
        "largest gaps",
        "backward of stage 3           -2           +8       326            326",
        "no single move of one operation in the order of its device shortens it",
    ):
        assert line in lines, line


def test_the_document(cli: Cli) -> None:
    """The document has every key, classes by device add up to its idle time, and the path to the makespan."""
    document = explained(cli, "1f1b")
    assert list(document) == [
        "format", "version", "makespan", "bound", "covers", "gap", "here", "idle", "devices", "gaps", "critical_path",
        "slack", "sensitivity", "p2p_sensitivity", "moves", "moves_complete",
    ]  # fmt: skip
    assert (document["format"], document["version"]) == ("pipesched.explanation", 1)
    assert (document["makespan"], document["bound"]) == (330, 330)
    assert document["idle"] == {"total": 360, "unavoidable": 360, "avoidable": 0}
    for device in document["devices"]:
        assert set(device) == CLASSES | {"idle"}
        assert sum(device[name] for name in CLASSES) == device["idle"] == 90
    assert document["gaps"][0] == {
        "device": 0, "start": 40, "end": 100, "class": "order", "culprit": "0F4", "waiting": "0B0",
    }  # fmt: skip
    assert document["gaps"][-1]["waiting"] is None
    assert document["critical_path"][:4] == ["0F0", "1F0", "2F0", "3F0"]
    assert all(document["slack"][op] == 0 for op in document["critical_path"])
    row = next(row for row in document["sensitivity"] if (row["stage"], row["kind"]) == (0, "F"))
    assert (row["faster"], row["slower"]) == (1, 5)
    assert [row["boundary"] for row in document["p2p_sensitivity"]] == [0, 1, 2]
    assert (document["moves"], document["moves_complete"]) == ([], True)


def test_moves(cli: Cli) -> None:
    """A move that shortens the schedule says where it goes, the makespan then and the memory of its device."""
    document = explained(cli, "1f1b", "--stages", "4", "--microbatches", "4", "--p2p", "1")
    assert document["makespan"] == 115
    assert document["moves"][0] == {
        "op": "1B0", "device": 1, "from": 3, "to": 4, "makespan": 113, "peak_memory": 4, "memory": 4, "fits": True,
        "first": 4, "last": 4,
    }  # fmt: skip
    text = cli("explain", "1f1b", "--stages", "4", "--microbatches", "4", "--p2p", "1").stdout
    assert "1B0 on device 1, position 3 to 4: 113, at a peak of 4 microbatch" in text


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


def test_pairs_wait_through_the_stages_of_one_microbatch(cli: Cli) -> None:
    """What a pair waits for comes through the stages of the microbatch that both have, forward or backward."""
    text = cli("explain", "interleaved-overlap", "--p2p", "2", "--width", "120").stdout
    assert "(0F7;4B0)OVERLAP_F_B waits for (6F3;6B0)OVERLAP_F_B, through stages 6-4" in text


def _count(document: dict[str, Any], row: dict[str, Any]) -> int:
    """How often a cost stands on the critical path."""
    return sum(op.startswith(f"{row['stage']}{row['kind']}") for op in document["critical_path"])


def test_one_operation(cli: Cli) -> None:
    """`--why` says what an operation waited for and what held it back, down to time 0."""
    lines = cli("explain", "1f1b", "--why", "3B2").stdout.splitlines()
    assert lines == [
        "3B2 on device 3 runs from 100 to 120",
        "  3F2  input, there at 100  <- held it back",
        "  3F2  comes before it, there at 100",
        "  it is critical: any delay makes the step longer",
        "  3B2 <- 3F2 <- 2F2 <- 2B0 <- 3B0 <- 3F0 <- 2F0 <- 1F0 <- 0F0 <- time 0",
    ]
    document = json.loads(cli("explain", "1f1b", "--why", "0B7", "--json").stdout)
    assert (document["op"], document["start"], document["slack"]) == ("0B7", 310, 0)
    assert document["chain"][-1] == "0F0"


@pytest.mark.parametrize(("lanes", "of"), [("device", "device 0"), ("pair", "devices 0 and 1")])
def test_the_place_of_a_transfer(cli: Cli, tmp_path: Path, lanes: str, of: str) -> None:
    """A transfer runs on a lane to or from host memory, of a device or of two that share it."""
    config = tmp_path / "model.yaml"
    config.write_text(f"devices: 2\nmicrobatches: 4\nlanes: {lanes}\ncosts: {{forward: 4, offload: 1}}\n")
    for op, way in (("0O1", "to"), ("0L1", "from")):
        text = cli("explain", str(config), "1f1b", "--offload", "full", "--why", op).stdout
        assert text.startswith(f"{op} on the lane of {of} {way} host memory runs from ")


def test_many_devices(cli: Cli) -> None:
    """Of 64 devices the table has the worst and the sum of the others; the chart draws those."""
    result = cli("explain", "1f1b", "--devices", "64", "--stages", "64", "--microbatches", "80", "--width", "80")
    assert "58 others" in result.stdout
    assert result.stdout.count("\ndevice ") < 40


def test_colours(cli: Cli) -> None:
    """In ASCII the marks are letters as well; other commands end with a line that points here."""
    assert "why      **" in cli("explain", "1f1b", "--ascii").stdout
    line = "Idle time is 33% order, 33% drain, 17% warm-up, 17% wait; `pipesched explain` says why."
    assert line in cli("run", "1f1b", "--width", "100").stdout


def test_recompute_of_layers_is_not_planned_again(cli: Cli, tmp_path: Path) -> None:
    """A changed cost of a stage says nothing of its layers, so with N recomputed only the same order is timed."""
    config = tmp_path / "c.yaml"
    config.write_text("devices: 2\nlayers: 8\nlayer: {forward: 2}\n")
    assert "planned again" in cli("explain", "1f1b", "-c", str(config)).stdout
    assert "planned again" not in cli("explain", "1f1b", "-c", str(config), "--recompute", "2").stdout


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
