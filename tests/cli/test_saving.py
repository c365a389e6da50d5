"""`pipesched solve --offload --recompute` from the command line to the document and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Completed

Cli = Callable[..., Completed]

P4 = ["--stages", "4", "--placement", "linear", "--forward", "1", "--backward", "2", "--mem-budget", "2", "--quiet"]


def test_offload(cli: Cli, tmp_path: Path) -> None:
    """The document lists the transfers, is proved optimal, passes the check, and draws the same chart."""
    file = tmp_path / "offload.json"
    done = cli("solve", *P4, "--offload", "--offload-cost", "1", "-o", str(file), "--width", "100")
    assert done.returncode == 0
    assert "D2H" in done.stdout
    written = json.loads(file.read_text(encoding="utf-8"))
    assert (written["status"], written["metrics"]["makespan"], written["metrics"]["fits"]) == ("optimal", 33, True)
    moves = [move["op"] for row in written["transfers"] for move in row]
    assert len(moves) == len(set(moves)) > 0
    assert cli("check", str(file)).returncode == 0
    shown = cli("show", str(file), "--width", "100")
    assert shown.returncode == 0
    chart = done.stdout.splitlines()
    assert shown.stdout.splitlines()[1 : chart.index("")] == chart[1 : chart.index("")]


def test_recompute(cli: Cli) -> None:
    """Recomputes are slots of the document, and there are no transfers without --offload."""
    done = cli("solve", *P4, "--recompute", "--checkpoint", "0", "--json")
    assert done.returncode == 0
    written = json.loads(done.stdout)
    assert written["metrics"]["makespan"] == 33
    assert "transfers" not in written
    assert any("R" in slot["op"] for row in written["devices"] for slot in row)
    assert written["metrics"]["ideal"] == 24


def test_a_broken_transfer_fails_the_check(cli: Cli, tmp_path: Path) -> None:
    """A load that comes back before its offload has ended is named, with exit code 1."""
    done = cli("solve", *P4, "--offload", "--offload-cost", "1", "--json")
    written = json.loads(done.stdout)
    move = next(move for move in written["transfers"][0] if "L" in move["op"])
    move["start"], move["end"] = 0, 1
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(written), encoding="utf-8")
    checked = cli("check", str(file))
    assert checked.returncode == 1
    assert f"{move['op']} starts at 0, before its input is there" in checked.stdout


def test_what_would_fit(cli: Cli) -> None:
    """A budget that is too small for several stages a device says that recompute would do; and then it does."""
    tight = ["--mem-budget", "0.5", "--placement", "loop", "--quiet", "--json", "--time-limit", "10"]
    done = cli("solve", *tight)
    assert done.returncode == 1
    assert "solve with --recompute" in json.loads(done.stdout)["would_fit"]
    assert "solve with --recompute)" in done.stderr
    again = cli("solve", *tight, "--recompute", "--microbatches", "2")
    assert again.returncode == 0
    assert json.loads(again.stdout)["metrics"]["fits"] is True
