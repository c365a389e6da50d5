"""`show`, `check` and `explain --measured` of traces of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import pipesched
from tests.analysis.traces_of_runs import replayed, torch_traces

Cli = Callable[..., "CompletedProcess[str]"]
LENGTHS = {"F": 1000, "B": 2000}


@pytest.fixture
def run(tmp_path: Path) -> list[str]:
    """Traces of three steps of 1f1b on two ranks, the second one's clock 7 us ahead, and the plan, in ms."""
    problem = pipesched.make_problem(devices=2, microbatches=4, forward=0.001, backward=0.0015, time_unit="ms")
    outcome = pipesched.run(problem, "1f1b")
    pipesched.write(outcome, tmp_path / "plan.json")
    steps = [replayed(outcome.schedule, lambda slot: LENGTHS[slot.kind], begin=90_000 * step) for step in range(3)]
    return [str(path) for path in torch_traces(tmp_path, steps, [0, 7000])]


def test_the_document_of_explain(cli: Cli, run: list[str], tmp_path: Path) -> None:
    """The document has what `explain` says, and what was measured, key by key."""
    result = cli("explain", "--measured", *run, "--plan", str(tmp_path / "plan.json"), "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["format"] == "pipesched.explanation"
    assert document["measured"] == {
        "makespan": 15,
        "offsets": [0, 7],
        "costs": [
            {"stage": stage, "kind": kind, "count": 8, "q1": cost, "median": cost, "q3": cost, "planned": planned}
            for stage in (0, 1)
            for kind, cost, planned in (("F", 1, 1), ("B", 2, 1.5))
        ],
        "p2p": [{"boundary": 0, "count": 0, "forward": None, "backward": None, "p2p": 0}],
    }
    assert document["makespan"] == 15


def test_show_and_what_it_writes(cli: Cli, run: list[str], tmp_path: Path) -> None:
    """Planned above measured on one scale; the document that is written is checked, and drawn the same."""
    written = str(tmp_path / "measured.json")
    result = cli("show", *run, "--plan", str(tmp_path / "plan.json"), "-o", written, "--width", "100")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.index("1f1b") < result.stdout.index("measured")
    assert "clocks ahead of that of rank 0, in us: rank 1: +7" in result.stdout
    document = json.loads(Path(written).read_text(encoding="utf-8"))
    assert (document["algorithm"], document["problem"]["time_unit"]) == ("measured", "us")
    assert document["metrics"]["makespan"] == 15
    assert document["problem"]["costs"]["forward"] == 1
    assert document["problem"]["costs"]["backward"] == 2
    assert cli("check", written).returncode == 0
    assert cli("show", written).returncode == 0
    assert cli("check", *run).returncode == 0


def test_a_config_of_measured_costs(cli: Cli, run: list[str], tmp_path: Path) -> None:
    """The config that is written is a problem with the medians."""
    result = cli("explain", "--measured", *run, "-o", str(tmp_path / "measured.yaml"))
    assert result.returncode == 0, result.stderr
    planned = cli("run", "1f1b", str(tmp_path / "measured.yaml"), "--json")
    assert json.loads(planned.stdout)["metrics"]["makespan"] == 15


def test_a_page_of_both(cli: Cli, run: list[str], tmp_path: Path) -> None:
    """The page holds both schedules."""
    page = tmp_path / "page.html"
    result = cli("show", *run, "--plan", str(tmp_path / "plan.json"), "-o", str(page))
    assert result.returncode == 0, result.stderr
    text = page.read_text(encoding="utf-8")
    assert "planned: 1f1b" in text
    assert '"lengths":[' in text


def test_two_runs_are_refused(cli: Cli, run: list[str], tmp_path: Path) -> None:
    """Clocks that cannot be: exit code 1, nothing on standard output, the two messages; `check` lists them."""
    content = json.loads(Path(run[1]).read_text(encoding="utf-8"))
    for event in content["traceEvents"][len(content["traceEvents"]) // 2 :]:
        event["ts"] += 30
    Path(run[1]).write_text(json.dumps(content), encoding="utf-8")
    for command in (["show"], ["explain", "--measured"]):
        result = cli(*command, *run)
        assert (result.returncode, result.stdout) == (1, "")
        assert "ranks 0 and 1" in result.stderr
        assert "; but step" in result.stderr
    checked = cli("check", *run, "--json")
    assert checked.returncode == 1
    assert len(json.loads(checked.stdout)["violations"]) == 2


def test_ranks_that_are_missing_or_twice(cli: Cli, run: list[str]) -> None:
    """Bad input: exit code 2, one message."""
    for files in ([run[1]], [*run, run[0]]):
        for command in (["show"], ["check"], ["explain", "--measured"]):
            result = cli(*command, *files)
            assert (result.returncode, result.stdout) == (2, "")
            assert "rank 0 is" in result.stderr
            assert len(result.stderr.splitlines()) == 1
