"""`show`, `check` and `explain` of files: documents, CSVs, traces and exercises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import InvalidSchedule, make_problem, run
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document
from pipesched.file_formats.pytorch_csv import dump as csv_of, parse
from tests.analysis.traces_of_runs import replayed, torch_traces
from tests.cli.conftest import Cli, answer

RUNS = [
    ["-a", "naive", "--stages", "4", "--lifo", "--mem-budget", "3"],
    ["-a", "interleaved", "--p2p", "0.25", "--forward", "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8"],
    ["-a", "list", "--backward-input", "1", "--backward-weight", "0.7", "--retain", "0.3", "--mem-budget", "2"],
    ["-a", "list", "--placement", "v", "--overlap", "12"],
    ["-a", "1f1b", "--stages", "4", "--forward", "0", "--backward", "0"],
]
VIEWS = [["--ascii", "--width", "60"], ["--zoom", "3", "--memory", "--label", "op"]]


@pytest.mark.parametrize("options", RUNS, ids=" ".join)
def test_same_chart_as_run(cli: Cli, options: list[str]) -> None:
    """`show` of a written schedule prints what `run` printed, in every view."""
    assert cli("run", *options, "-o", "out.json").returncode == 0
    for view in VIEWS:
        drawn, shown = cli("run", *options, *view), cli("show", "out.json", *view)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout == drawn.stdout


def test_same_document_as_run(cli: Cli) -> None:
    """`show --json` of a written schedule is the same document again, also of a fused one, and from a pipe."""
    printed = cli("run", "1f1b", "--forward", "1,2,3,4,5,6,7,8", "--json").stdout
    assert cli("show", "-", "--json", stdin=printed).stdout == printed
    assert cli("show", "-", "--json", stdin="\ufeff" + printed).stdout == printed


FINE = """\
devices: 3
stages: 6
microbatches: 13
costs: {forward: 0.1, backward: [0, 0.5, 2.7, 0, 3, 0.3], p2p: [0.00000001, 10, 10, 2.7, 10]}
memory: {budget: 2.7}
"""


def test_same_document_where_fusing_drops_the_finest_time(cli: Cli) -> None:
    """Fusing drops a latency finer than every other time; the document is the same after reading it all the same."""
    printed = cli("run", "-a", "1f1b", "-c", "-", "--json", stdin=FINE).stdout
    assert cli("show", "-", "--json", stdin=printed).stdout == printed


TINY = ("--stages", "4", "--forward", "1", "--backward", "2", "--placement", "linear")
ROWS = {  # the document of rows -> the command that writes it
    "comparison": ["compare", "1f1b", "naive", "zb-v", "--stages", "4", "--charts", "none"],
    "sweep": ["compare", "1f1b", "interleaved", "--sweep", "stages=4,5,8"],
    "frontier": ["solve", *TINY, "--frontier", "--quiet"],
}
LOOKS = [["--ascii"], ["--width", "50"]]


@pytest.mark.parametrize("noun", ROWS)
def test_rows_are_shown_as_they_were_printed(cli: Cli, noun: str) -> None:
    """`show` of a written comparison, sweep or frontier prints its table, or plot, again, at any width and in ASCII."""
    for number, look in enumerate(LOOKS):
        printed = cli(*ROWS[noun], *look, "-o", f"{number}.json")
        shown = cli("show", f"{number}.json", *look)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout == without_idle_line(printed.stdout)
        assert shown.stdout.isascii() or "--ascii" not in look


def without_idle_line(printed: str) -> str:
    """What a comparison prints but for where idle time goes, which follows from times that no row has."""
    lines = printed.splitlines(keepends=True)
    first = next((number for number, line in enumerate(lines) if "idle time is" in line), len(lines))
    return "".join(lines[:first])


@pytest.mark.parametrize("noun", ROWS)
def test_the_same_document_of_rows(cli: Cli, noun: str) -> None:
    """`show --json` of a document of rows is the document again, also from a pipe."""
    document = cli(*ROWS[noun], "--json").stdout
    Path("rows.json").write_text(document)
    assert cli("show", "rows.json", "--json").stdout == document
    assert cli("show", "-", "--json", stdin=document).stdout == document


def test_a_pareto_document_is_shown_as_its_comparison(cli: Cli) -> None:
    """The rows of a Pareto document are those of a comparison, the best first."""
    document = cli("compare", "naive", "1f1b", "interleaved", "--pareto", "--json").stdout
    ranked = cli("compare", "interleaved", "1f1b", "naive", "--charts", "none")
    shown = cli("show", "-", stdin=document)
    assert (shown.returncode, shown.stdout) == (0, without_idle_line(ranked.stdout))


@pytest.fixture(scope="module")
def printed() -> str:
    """The document of a small 1F1B schedule: 2 devices, 2 microbatches, F 1.5, B 3."""
    problem = pipesched.make_problem(devices=2, stages=2, microbatches=2, forward=1.5, backward=3)
    return dump(document(pipesched.run(problem, "1f1b")))


TEXTS = [  # what stands in the place of the whole document
    "",
    "null",
    '"text"',
    "{",
    "[" * 100_000,
    "devices: 4",
    "\0",
    b"\xff\xfe",
    "NaN",
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_no_document(cli: Cli, text: str | bytes) -> None:
    """What is no JSON object at all is refused in one line, and is not called a config."""
    result = cli("show", "-", stdin=text)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("pipesched: <stdin>")
    assert result.stderr.count("\n") == 1
    assert "YAML" not in result.stderr


def test_truncated(cli: Cli, printed: str) -> None:
    """A document that ends too early, wherever, is refused."""
    for length in range(0, len(printed) - 3, len(printed) // 25):
        result = cli("show" if length % 4 else "check", "-", stdin=printed[:length])
        assert (result.returncode, result.stdout) == (2, "")
        assert "<stdin> is no JSON document" in result.stderr


HUGE = "99999999999999999999"
NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "1e-400", f"1e{HUGE}", f"1e-{HUGE}", "9" * 5000]


@pytest.mark.parametrize("key", ['"start": 0', '"activation": 1'])
def test_number_out_of_range(cli: Cli, printed: str, key: str) -> None:
    """A number that no schedule holds is refused, wherever it stands."""
    assert key in printed
    for place, number in enumerate(NUMBERS):
        text = printed.replace(key, f"{key.partition(':')[0]}: {number}", 1)
        result = cli("check" if place % 4 else "show", "-", stdin=text)
        assert (result.returncode, result.stdout) == (2, ""), number[:30]
        assert result.stderr.startswith("pipesched: <stdin>")
        assert result.stderr.count("\n") == 1


def test_far_future(cli: Cli, printed: str) -> None:
    """An operation that starts absurdly late is legal or refused, and nothing breaks on the way."""
    late = json.loads(printed)
    del late["metrics"], late["status"]  # which would be wrong
    late["devices"][0][-1].update(start=10**4290, end=10**4290 + 3)
    for command in ("show", "check"):
        result = cli(command, "-", stdin=json.dumps(late))
        assert result.returncode in (0, 2)
        assert len(result.stderr) < 1000


INTERLEAVED = ["--algo", "interleaved"]  # 4 devices, 8 stages, 8 microbatches, forward 5, backward 10


def keep(cli: Cli, *options: str) -> str:
    """The file of a schedule, and its text."""
    assert cli("run", *options, "-o", "kept.csv").returncode == 0
    return Path("kept.csv").read_text()


@pytest.mark.parametrize(
    "options",
    [["--algo", "zb-h1", "--stages", "4", "--p2p", "0.5"], ["--algo", "dualpipe-v", "--overlap", "12"]],
    ids=" ".join,
)
def test_a_csv_has_the_chart_of_run(cli: Cli, options: list[str]) -> None:
    """A schedule that was kept as a CSV is drawn as it was made, under the same costs; only its name is the file's."""
    keep(cli, *options)
    costs = [text for text in options[2:] if text not in ("--stages", "4", "--placement", "v")]
    shown, drawn = cli("show", "kept.csv", *costs), cli("run", *options)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[1:] == drawn.stdout.splitlines()[1:]
    assert shown.stdout.startswith("kept  4 devices")


@pytest.mark.parametrize(("size", "more"), [(4, ""), (8, ""), (8, "stages: 4\n"), (8, "layers: 8\n")])
def test_a_file_that_makes_another_model(cli: Cli, size: int, more: str) -> None:
    """A config without stages trains a model of as many as the file has: a note says so, where that is another."""
    keep(cli, "interleaved", "--devices", "4", "--stages", str(size))
    costs = "layer: {forward: 5}\n" if "layers" in more else "costs: {forward: 5}\n"
    Path("model.yaml").write_text(f"devices: 4\nmicrobatches: 8\n{more}{costs}")
    done = cli("show", "kept.csv", "-c", "model.yaml")
    times = f"and {size} of them are a model {size // 4} times that of 4; `layers` keeps the model"
    said = f"pipesched: note: model.yaml gives no stages, so those of kept.csv count: costs are one a stage, {times}\n"
    assert (said == done.stderr) == (not more and size > 4)
    assert ("costs are one a stage" in done.stderr) == (not more and size > 4)


def test_check_says_that_all_is_well(cli: Cli) -> None:
    """A good file from standard input, with a byte order mark: exit 0 and one line."""
    text = keep(cli, *INTERLEAVED)
    result = cli("check", "-", stdin="\ufeff" + text)
    assert (result.returncode, result.stdout, result.stderr) == (0, "<stdin>: every rule is kept\n", "")
    over = cli("check", "kept.csv", "--mem-budget", "1")
    assert (over.returncode, over.stdout.splitlines()[-1]) == (1, "rules broken: 4")
    assert over.stdout.startswith("device 0 holds ")


FILE = csv_of(run(make_problem(devices=4, microbatches=8), "1f1b").schedule)
CELLS = [line.split(",") for line in FILE.splitlines()]


def text_of(rows: list[list[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


@given(st.lists(st.integers(0, 15), min_size=1, max_size=5, unique=True), st.permutations(range(4)))
def test_a_stage_lives_where_most_of_it_runs(columns: list[int], ranks: list[int]) -> None:
    """Slots that two rows exchange are on a wrong rank, each of them, and nothing else is."""
    rows, (one, two) = [list(row) for row in CELLS], ranks[:2]
    for column in columns:
        rows[one][column], rows[two][column] = rows[two][column], rows[one][column]
    with pytest.raises(InvalidSchedule) as caught:
        parse(text_of(rows), "swapped.csv")
    wrong = [sentence for sentence in caught.value.violations if " lives on rank " in sentence]
    due = {
        f"row {here + 1}, column {column + 1}: {rows[here][column]} on rank {here},"
        f" but stage {home} lives on rank {home}"
        for column in columns
        for here, home in ((one, two), (two, one))
    }
    assert set(wrong) == due
    assert len(wrong) == len(due)


LENGTHS = {"F": 1000, "B": 2000}


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    """Traces of three steps of 1f1b on two ranks, the second one's clock 7 us ahead, and the plan, in ms."""
    problem = pipesched.make_problem(devices=2, microbatches=4, forward=0.001, backward=0.0015, time_unit="ms")
    outcome = pipesched.run(problem, "1f1b")
    pipesched.write(outcome, tmp_path / "plan.json")
    steps = [replayed(outcome.schedule, lambda slot: LENGTHS[slot.kind], begin=90_000 * step) for step in range(3)]
    return [str(path) for path in torch_traces(tmp_path, steps, [0, 7000])]


def test_the_document_of_explain(cli: Cli, traces: list[str], tmp_path: Path) -> None:
    """The document has what `explain` says, and what was measured, key by key."""
    result = cli("explain", "--measured", *traces, "--plan", str(tmp_path / "plan.json"), "--json")
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


def test_show_and_what_it_writes(cli: Cli, traces: list[str], tmp_path: Path) -> None:
    """Planned above measured on one scale; the document that is written is checked, and drawn the same."""
    written = str(tmp_path / "measured.json")
    result = cli("show", *traces, "--plan", str(tmp_path / "plan.json"), "-o", written, "--width", "100")
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
    assert cli("check", *traces).returncode == 0


def test_two_runs_are_refused(cli: Cli, traces: list[str], tmp_path: Path) -> None:
    """Clocks that cannot be: exit code 1, nothing on standard output, the two messages; `check` lists them."""
    content = json.loads(Path(traces[1]).read_text(encoding="utf-8"))
    for event in content["traceEvents"][len(content["traceEvents"]) // 2 :]:
        event["ts"] += 30
    Path(traces[1]).write_text(json.dumps(content), encoding="utf-8")
    for command in (["show"], ["explain", "--measured"]):
        result = cli(*command, *traces)
        assert (result.returncode, result.stdout) == (1, "")
        assert "ranks 0 and 1" in result.stderr
        assert "; but step" in result.stderr
    checked = cli("check", *traces, "--json")
    assert checked.returncode == 1
    assert len(json.loads(checked.stdout)["violations"]) == 2


def test_ranks_that_are_missing_or_twice(cli: Cli, traces: list[str]) -> None:
    """Bad input: exit code 2, one message."""
    for files in ([traces[1]], [*traces, traces[0]]):
        for command in (["show"], ["check"], ["explain", "--measured"]):
            result = cli(*command, *files)
            assert (result.returncode, result.stdout) == (2, "")
            assert "rank 0 is" in result.stderr
            assert len(result.stderr.splitlines()) == 1


def test_a_file_is_explained_with_its_own_times(cli: Cli, tmp_path: Path) -> None:
    """A document whose last slot starts later than it could has late idle time; the rest is as for its plan."""
    path = tmp_path / "a.json"
    assert cli("run", "1f1b", "-o", str(path)).returncode == 0
    assert answer(cli, "explain", str(path)) == answer(cli, "explain", "1f1b")
    content = json.loads(path.read_text())
    last = content["devices"][0][-1]
    last["start"], last["end"] = last["start"] + 7, last["end"] + 7
    del content["metrics"], content["status"]
    path.write_text(json.dumps(content))
    late = answer(cli, "explain", str(path))
    assert late["makespan"] == 337
    assert late["devices"][0]["late"] == 7
    assert late["sensitivity"] == [
        {**row, "count": _count(late, row)} for row in answer(cli, "explain", "1f1b")["sensitivity"]
    ]
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
