"""`pipesched solve`: answers, cuts, savings, infeasible budgets, interrupts, the frontier."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

SMALL = ("--stages", "4", "--forward", "1", "--backward", "2", "--placement", "linear")
HARD = ("--devices", "8", "--stages", "8", "--microbatches", "32", "--forward", "12", "--backward-input", "13",
        "--backward-weight", "9", "--p2p", "1", "--mem-budget", "5", "--placement", "linear")  # fmt: skip


def test_span(cli: Cli) -> None:
    """--objective span: zero bubble at 7 activations; the bound on the makespan stays a bound on the makespan."""
    halves = ("--forward", "1", "--backward-input", "1", "--backward-weight", "1")
    result = cli("solve", "--stages", "4", *halves, "--mem-budget", "7", "--objective", "span", "--json")
    content = json.loads(result.stdout)
    assert (content["solver"]["objective"], content["metrics"]["span"], content["status"]) == (24, 24, "optimal")
    assert content["metrics"]["lower_bound"] <= content["metrics"]["makespan"]


def test_hint_file(cli: Cli) -> None:
    """--hint takes a document; with --method portfolio it is kept where no heuristic is better."""
    halves = ("--forward", "1", "--backward-input", "1", "--backward-weight", "1", "--mem-budget", "3")
    cli("solve", "--stages", "4", *halves, "-o", "best.json", "--quiet")
    again = cli("solve", "--stages", "4", *halves, "--hint", "best.json", "--method", "portfolio", "--json", "--quiet")
    assert json.loads(again.stdout)["solver"]["objective"] == 31
    assert again.stderr == ""


def test_frontier(cli: Cli) -> None:
    """A plot and a table of every budget; -o draws both axes, what found each point, and that all are proved."""
    done = cli("solve", *SMALL, "--frontier", "--quiet", "--ascii", "-o", "frontier.svg")
    assert done.stdout.isascii()
    assert "budget of a device (microbatch)" in done.stdout
    assert "optimal" in done.stdout
    svg = Path("frontier.svg").read_text(encoding="utf-8")
    assert {"memory budget of a device (microbatch)", "makespan", "sequential", "proved optimal"} <= set(
        re.findall(r">([^<]+)</text>", svg)
    )
    assert cli("solve", *SMALL, "--frontier", "--quiet", "-o", "frontier.json").returncode == 0
    assert json.loads(Path("frontier.json").read_text(encoding="utf-8"))["format"] == "pipesched.frontier"


def test_advice_in_a_second(cli: Cli) -> None:
    """A limit of one second has advice, although the command leaves less of it to the search."""
    tight = ("solve", *SMALL, "--mem-budget", "2", "--advice", "--json")
    for limit, found in (("1", True), ("0.9", False)):
        report = json.loads(cli(*tight, "--time-limit", limit).stdout)
        assert bool(report["solver"].get("advice")) is found


def test_advice(cli: Cli) -> None:
    """The summary says what would help and what to type, which takes what was claimed; --no-advice leaves it out."""
    tight = ("solve", *SMALL, "--mem-budget", "2", "--quiet")
    text = " ".join(cli(*tight, "--advice", "--width", "200").stdout.split())
    assert "recompute 35 31.4% shorter: --recompute" in text
    assert "one activation more 39 23.5% shorter: --mem-budget 3" in text
    advice = json.loads(cli(*tight, "--advice", "--json").stdout)["solver"]["advice"]
    assert [one["change"] for one in advice if one["makespan_at_most"] == 35] == ["recompute"]
    found = re.search(r"16 microbatches (\S+) \S+ shorter: ((?:--\S+ \S+ )+)", text)
    assert found is not None
    again = json.loads(cli(*tight, *found[2].split(), "--json").stdout)
    assert again["metrics"]["makespan"] <= float(found[1])
    assert "advice" not in json.loads(cli(*tight, "--no-advice", "--json").stdout)["solver"]
    assert "would help" not in cli(*tight, "--no-advice").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "best.txt"], "must end in .json"),
        (["-o", "there.json"], "there.json exists; --force overwrites it"),
        (["--frontier", "-o", "best.csv"], "must end in .json, .svg, .png or .pdf"),
        (["--frontier", "-o", "there.json"], "there.json exists; --force overwrites it"),
        (["--offload", "-o", "best.csv"], "PyTorch's CSV has no operations for --offload and --recompute"),
    ],
)
def test_a_file_that_cannot_be_written_ends_it_before_the_search(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    """Nobody waits for an answer that has no place to go."""
    monkeypatch.setattr("pipesched.solver.solve.solve_request", None)
    monkeypatch.setattr("pipesched.solver.frontier.frontier", None)
    Path("there.json").write_text("precious", encoding="utf-8")
    result = cli("solve", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert [path.read_text(encoding="utf-8") for path in Path.cwd().iterdir()] == ["precious"]


def test_a_figure_without_matplotlib_ends_it_before_the_search(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is said at once, with how to install it."""
    monkeypatch.setattr("pipesched.solver.solve.solve_request", None)
    monkeypatch.setattr("pipesched.render.figure.draw.find_spec", lambda _name: None)
    result = cli("solve", "-o", "best.svg")
    assert result.returncode == 2
    assert "pip install 'pipesched[plot]'" in result.stderr


def test_several_placements(cli: Cli) -> None:
    """--placement linear,v tries these two."""
    result = cli("solve", "--placement", "linear,v", "--method", "portfolio", "--json")
    assert json.loads(result.stdout)["solver"]["placements"] == ["linear", "v"]


@pytest.mark.parametrize("frontier", [[], ["--frontier"]])
def test_halves_that_are_assumed(cli: Cli, frontier: list[str]) -> None:
    """A solve that splits the backward says it at the end of its progress, on stderr; the document is whole."""
    Path("whole.yaml").write_text("devices: 2\nmicrobatches: 4\ncosts: {forward: 1, backward: 2}\n")
    result = cli("solve", "whole.yaml", "--split-backward", "--json", "--time-limit", "10", *frontier)
    assert "note: solve: each half of the backward counts as half" in result.stderr.splitlines()[-1]
    assert result.stderr.count("counts as half") == 1
    assert json.loads(result.stdout)["version"] == 1
    assert cli("solve", "whole.yaml", "--split-backward", "--quiet", *frontier).stderr == ""


def _interrupted_after(line: str, environment: dict[str, str]) -> tuple[int, str]:
    """Send Ctrl-C once a line of progress says `line`: the exit code and what was printed."""
    command = [sys.executable, "-m", "pipesched", "solve", *HARD, "--method", "cpsat", "--json"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stderr is not None
        for told in process.stderr:
            if line in told:
                break
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        return process.returncode, out


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupt_returns_the_best_so_far(environment: dict[str, str]) -> None:
    """Ctrl-C while CP-SAT runs: exit 0, the best schedule, marked."""
    code, out = _interrupted_after("CP-SAT", environment)
    content = json.loads(out)
    assert code == 0
    assert (content["status"], content["solver"]["stopped_by"]) == ("feasible", "interrupt")
    assert content["metrics"]["fits"] is True


CONFIG = """
devices: 3
microbatches: 4
layer:
  forward: [3, 1, 4, 1, 5, 9, 2, 6]
  backward: [8, 3, 12, 3, 13, 27, 5, 20]
  activation: [1, 2, 1, 2, 1, 2, 1, 2]
  static: 1
"""


@pytest.fixture
def uneven(tmp_path: Path) -> str:
    path = tmp_path / "uneven.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


def says_optimal_alone(text: str) -> bool:
    """Return whether a text says optimal of a schedule without a word of cuts beside it."""
    flat = " ".join(text.split())
    return bool(re.search("optimal(?! (over all cuts|for this cut|for these cuts))", flat))


def test_what_is_proved_over_all_cuts_is_said(uneven: str, cli: Cli) -> None:
    result = cli("solve", "-c", uneven, "--microbatches", "1")
    assert "optimal over all cuts" in " ".join(result.stdout.split())
    assert not says_optimal_alone(result.stdout)


def test_what_is_proved_for_its_cut_alone_is_said_with_what_other_cuts_take(uneven: str, cli: Cli) -> None:
    """With one cut to try, the balanced one; another might allow less."""
    result = cli("solve", "-c", uneven, "--cuts", "1")
    flat = " ".join(result.stdout.split())
    assert re.search(r"optimal for this cut makespan = bound of this cut; over all cuts of 1 chunk at least \d+", flat)
    assert not says_optimal_alone(result.stdout)


def test_the_document_holds_the_cuts_and_reads_them_back(uneven: str, cli: Cli) -> None:
    result = cli(
        "solve", "-c", uneven, "--chunks", "1,2", "--time-limit", "3", "--no-advice", "--json", "-o", "best.json"
    )
    solver = json.loads(result.stdout)["solver"]
    assert {cut["chunks"] for cut in solver["cuts"]} == {1, 2}
    assert all(len(cut["layout"]) == 3 * cut["chunks"] and sum(cut["layout"]) == 8 for cut in solver["cuts"])
    own = solver["cut"]
    assert own.keys() == {"layout", "chunks", "bound", "status"}
    assert own["layout"] in [cut["layout"] for cut in solver["cuts"]]
    assert solver["bound"] <= own["bound"] <= solver["objective"]
    assert json.loads(result.stdout)["metrics"]["lower_bound"] == own["bound"]
    assert min(cut["makespan"] for cut in solver["cuts"] if cut["makespan"] is not None) == solver["objective"]
    assert json.loads(cli("show", "best.json", "--json").stdout)["solver"] == solver
    assert cli("check", "best.json").returncode == 0


def test_a_config_may_list_chunks_for_solve_alone(tmp_path: Path, cli: Cli) -> None:
    """Also with the name of a placement, which each number of chunks then has."""
    path = tmp_path / "several.yaml"
    path.write_text(f"chunks: [1, 2]\nplacement: loop\n{CONFIG}", encoding="utf-8")
    result = cli("solve", "-c", str(path), "--time-limit", "2", "--no-advice", "--json")
    solver = json.loads(result.stdout)["solver"]
    assert {(cut["chunks"], cut["placement"]) for cut in solver["cuts"]} == {(1, "linear"), (2, "loop")}


def test_run_and_compare_say_that_a_bound_is_of_this_cut(uneven: str, cli: Cli) -> None:
    """Their documents say optimal as ever."""
    for command in ("run", "compare"):
        result = cli(command, "1f1b", "-c", uneven, "--microbatches", "1")
        assert "optimal for this cut" in " ".join(result.stdout.split())
        assert not says_optimal_alone(result.stdout)
    assert json.loads(cli("run", "1f1b", "-c", uneven, "--microbatches", "1", "--json").stdout)["status"] == "optimal"
    given = cli("run", "1f1b", "-c", uneven, "--microbatches", "1", "--layout", "4,2,2")
    assert says_optimal_alone(given.stdout)


def test_a_frontier_is_of_the_balanced_cuts(uneven: str, cli: Cli) -> None:
    result = cli("solve", "-c", uneven, "--microbatches", "2", "--frontier", "--time-limit", "5")
    assert "proved optimal for these cuts" in " ".join(result.stdout.split())
    assert not says_optimal_alone(result.stdout)


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
