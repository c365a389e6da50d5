"""`pipesched hls`: the article's example end to end, every exit, and the documents."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
ARTICLE = "(a+b)*(c+d)+(e+f)*(g+h)"
CROSSED = "p = a+b\nq = e+f\nr = c+d\ns = g+h\ny = p*r + q*s\n"
HLS = Path(__file__).parents[2] / "configs" / "hls"


def document(cli: Cli, *args: str) -> dict[str, Any]:
    result = cli("hls", *args, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    content: dict[str, Any] = json.loads(result.stdout)
    return content


@pytest.mark.parametrize(
    ("options", "pairing", "crossing"),
    [((), 4, 5), (("--latency", "mul=2"), 6, 7), (("--latency", "mul=2", "--pipelined", "mul"), 5, 6)],
)
def test_the_article_end_to_end(cli: Cli, options: tuple[str, ...], pairing: int, crossing: int) -> None:
    """One multiplier and two adders: pairing the operands of one product, or crossing them; and the optimum."""
    Path("crossed.txt").write_text(CROSSED)
    units = ("--unit", "mul=1", "--unit", "add=2", *options)
    assert document(cli, ARTICLE, *units)["latency"] == pairing
    assert document(cli, "crossed.txt", *units)["latency"] == pairing
    for tie in ("input", "reverse", "fifo", "lifo", "bfs", "most-descendants"):
        assert document(cli, "crossed.txt", *units, "--tie", tie)["latency"] == crossing
    solved = document(cli, "crossed.txt", *units, "--solve")
    assert (solved["latency"], solved["lower_bound"], solved["status"]) == (pairing, pairing, "optimal")


def test_the_schedule_is_drawn(cli: Cli) -> None:
    result = cli("hls", ARTICLE, "--width", "80")
    assert (result.returncode, result.stderr) == (0, "")
    assert "operations: 5 add, 2 mul; units: 1 mul, 2 add" in result.stdout
    assert "add 1" in result.stdout
    assert "regs" in result.stdout
    assert "optimal  latency = lower bound" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert cli("hls", ARTICLE, "--width", "80", "--ascii").stdout.isascii()


def test_a_program_on_standard_input(cli: Cli) -> None:
    content = json.loads(cli("hls", "-", "--json", stdin=CROSSED).stdout)
    assert [one["op"] for one in content["ops"]] == ["p", "q", "r", "s", "*5", "*6", "y"]


@pytest.mark.parametrize("width", [20, 40, 72, 80])
def test_every_rule_is_legible_at_any_width(cli: Cli, width: int) -> None:
    """Ties that do not fit side by side stand below; nothing is cut off."""
    output = cli("hls", ARTICLE, "--compare", "--ascii", "--width", str(width)).stdout
    assert output.isascii()
    assert max(map(len, output.splitlines())) <= width
    assert len(re.findall(r"[0-9]/[0-9]", output)) == 48


def test_compare_says_what_decides(cli: Cli) -> None:
    """The table has every rule, and the explanation holds for the expression with its operands permuted as well."""
    result = cli("hls", ARTICLE, "--compare")
    assert "Optimum: 4 cycles (3 registers in this schedule). Proved by: energy." in result.stdout
    assert "Every priority ranks a+b, c+d, e+f, g+h equal" in result.stdout
    assert "input 4 to 5, pairing 4" in result.stdout
    Path("crossed.txt").write_text(CROSSED)
    rows = document(cli, "crossed.txt", "--compare")["rows"]
    assert {row["latency"] for row in rows if row["tie"] == "pairing"} == {4}
    assert {row["latency"] for row in rows if row["tie"] in {"input", "lifo", "fifo"}} == {5}


def test_a_random_tie_is_repeated_by_its_seed(cli: Cli) -> None:
    source = str(HLS / "ewf.txt")
    one, same, other = (document(cli, source, "--priority", "none", "--tie", "random", "--seed", s) for s in "118")
    assert one == same
    assert one != other


def test_a_loop(cli: Cli) -> None:
    content = document(cli, str(HLS / "ewf-loop.txt"), "--pipeline", "--unit", "mul=2,add=3", "--latency", "mul=2")
    assert (content["initiation_interval"], content["lower_bound"], content["status"]) == (16, 16, "optimal")
    assert content["interval_bounds"] == {"resources": 9, "recurrences": 16}
    result = cli("hls", str(HLS / "hal-loop.txt"), "--pipeline", "--unit", "mul=3,add=3", "--latency", "mul=2")
    assert "initiation interval        6" in result.stdout
    assert "units ask for 4, recurrences for 6" in result.stdout


def test_a_search_without_time_says_so(cli: Cli) -> None:
    """0.01 seconds leave the gap that list schedules have, and the reason; for a loop too."""
    source, units = str(HLS / "ewf.txt"), ("--unit", "add=4,mul=3", "--latency", "mul=2", "--time-limit", "1e-9")
    content = document(cli, source, *units, "--solve")
    assert content["status"] in {"feasible", "optimal"}
    loop = ("--pipeline", "--unit", "mul=1,add=1", "--time-limit", "1e-6")
    content = document(cli, str(HLS / "ewf-loop.txt"), *loop)
    assert (content["status"], content["lower_bound"]) == ("feasible", 26)
    assert "stopped by the time limit" in cli("hls", str(HLS / "ewf-loop.txt"), *loop).stdout


def test_the_output_file(cli: Cli) -> None:
    assert cli("hls", ARTICLE, "-o", "out.json").returncode == 0
    assert json.loads(Path("out.json").read_text()) == document(cli, ARTICLE)
    again = cli("hls", ARTICLE, "-o", "out.json")
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert cli("hls", ARTICLE, "--compare", "-o", "out.json", "--force").returncode == 0
    assert json.loads(Path("out.json").read_text())["format"] == "pipesched.hls-comparison"


@pytest.mark.parametrize("way", ["--solve", "--compare", "--pipeline"])
def test_a_file_that_cannot_be_written_ends_it_before_the_search(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Nothing is read and searched for when the answer has no place to go."""
    monkeypatch.setattr("pipesched.config.hardware.load_hardware", None)
    assert "must end in .json" in cli("hls", ARTICLE, way, "-o", "out.svg").stderr


def test_several_units_in_one_option(cli: Cli) -> None:
    """Classes may stand in one option or in several, in any case, and with spaces; the last number of one counts."""
    apart = document(cli, ARTICLE, "--unit", "mul=2", "--unit", "add=4", "--latency", "mul=3")
    joined = document(cli, ARTICLE, "--unit", "MUL = 1, add=4,mul=2", "--latency", " Mul=3")
    assert joined == apart
    assert joined != document(cli, ARTICLE, "--unit", "mul=1,add=4", "--latency", "mul=3")


def test_short_forms_of_units(cli: Cli) -> None:
    """A number after the name of a class is what --unit says of it; other classes stay with --unit."""
    long = ("--unit", "mul=2,add=1,sub=1,div=1,cmp=1,neg=1")
    short = ("--cmp", "1", "--div=1", "--sub", "1", "--add", "1", "--mul", "2", "--unit", "neg=1")
    source = "y = a*b + c*d - e/f\nz = y < -e\n"
    assert cli("hls", "-", *short, stdin=source).stdout == cli("hls", "-", *long, stdin=source).stdout
    assert document(cli, ARTICLE, "--mul", "2", "--add", "4") == document(cli, ARTICLE, "--unit", "mul=2,add=4")


def test_a_filter_as_a_loop(cli: Cli) -> None:
    """Inputs of earlier iterations, written as x@k or copied by hand: the same times and registers."""
    Path("fir.txt").write_text("y = c0*x + c1*x@1 + c2*x@2\n")
    Path("by-hand.txt").write_text("y = c0*x + c1*x1 + c2*x2\nx2 = x1\nx1 = x\n")
    short, by_hand = (
        document(cli, name, "--pipeline", "--mul", "3", "--add", "2") for name in ("fir.txt", "by-hand.txt")
    )
    keys = ("initiation_interval", "latency", "registers", "status")
    assert [short[key] for key in keys] == [by_hand[key] for key in keys] == [1, 3, 7, "optimal"]


@pytest.mark.parametrize("options", [(), ("--ascii",), ("--no-color",), ("--compare",)])
def test_labels_that_are_numbers_are_explained(cli: Cli, options: tuple[str, ...]) -> None:
    output = cli("hls", ARTICLE, "--width", "80", *options).stdout
    assert "\n+7 = (a+b)*(c+d)+(e+f)*(g+h)\n" in output


@pytest.mark.parametrize("options", [(), ("--solve",), ("--ascii",), ("--latency", "mul=3", "--pipelined", "mul")])
def test_an_explanation_is_printed(cli: Cli, options: tuple[str, ...]) -> None:
    """The chart with the critical path, idle time by class and unit, gaps, and what each class would change."""
    result = cli("hls", ARTICLE, "--explain", *options, "--mul", "1", "--add", "2", "--width", "80")
    assert (result.returncode, result.stderr) == (0, "")
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert result.stdout.isascii() or "--ascii" not in options
    for part in ("* critical path", "which is optimal", "idle time  warm-up", "largest gaps", "critical path: a+b"):
        assert part in result.stdout
    marks = [line for line in result.stdout.splitlines() if set(line) == {" ", "*"}]
    assert len(marks) >= 2


def test_an_explanation_in_words(cli: Cli) -> None:
    """The idle cycles of the article's schedule: who waits for whom, and what a slower class would cost."""
    output = cli("hls", ARTICLE, "--explain", "--width", "100").stdout
    assert "4 cycles, which is optimal; units idle 5 cycles: 5 unavoidable on these units, 0 avoidable." in output
    assert re.search(r"^all +1 +1 +3 +5 +42%$", output, re.M)
    assert re.search(r"^mul 0 +0-1 +warm-up +\(a\+b\)\*\(c\+d\) waits for a\+b, on add 0 *$", output, re.M)
    assert re.search(r"^add 0 +2-3 +wait +\+7 waits for \(e\+f\)\*\(g\+h\), on mul 0 *$", output, re.M)
    assert "mul  it takes one cycle, the least; one cycle slower: 6 instead of 4" in output
    slow = cli("hls", ARTICLE, "--explain", "--latency", "mul=2", "--width", "100").stdout
    assert "mul  one cycle faster: 4 instead of 6; one cycle slower: 8 instead of 6" in slow


def test_units_that_run_nothing_are_counted(cli: Cli) -> None:
    """Of a large class they have no rows, as in the chart, and their idle time is in the sum and in the document."""
    output = cli("hls", ARTICLE, "--explain", "--add", "20", "--mul", "1", "--width", "80").stdout
    assert "16 units of add run nothing" in output
    assert "\nadd 3 " in output
    assert "add 4" not in output
    content = document(cli, ARTICLE, "--explain", "--add", "20", "--mul", "1")
    assert len(content["devices"]) == 21
    assert content["idle"]["total"] == 21 * content["makespan"] - 7


def test_one_operation_is_explained(cli: Cli) -> None:
    """By name or expression: its inputs and when they came, what it waited for, its slack and the chain to cycle 0."""
    output = cli("hls", ARTICLE, "--explain", "--why", "+7", "--latency", "mul=2").stdout
    assert output.splitlines()[1:] == [
        "+7  on add 0, starts at 5, result at 6",
        "inputs: (a+b)*(c+d) at 3, (e+f)*(g+h) at 5",
        "it waits for the result of (e+f)*(g+h), there at 5",
        "slack: 0 cycles; each cycle later is a cycle more of latency",
        "chain from cycle 0: a+b → (a+b)*(c+d) → (e+f)*(g+h) → +7",
        f"+7 = {ARTICLE}",
    ]
    by_text = cli("hls", ARTICLE, "--explain", "--why", "e+f", "--latency", "mul=2").stdout
    assert by_text == cli("hls", ARTICLE, "--explain", "--why", "+4", "--latency", "mul=2").stdout
    assert "it waits for add 0, which runs a+b until 1\nslack: 1 cycle later costs nothing\n" in by_text
    assert (
        "inputs: none but those of the program\nit waits for nothing"
        in cli("hls", ARTICLE, "--explain", "--why", "a+b").stdout
    )


def test_the_document_of_an_explanation(cli: Cli) -> None:
    """Operations and units have their names in the document of the schedule; -o writes the same."""
    content = document(cli, ARTICLE, "--explain", "-o", "out.json")
    assert json.loads(Path("out.json").read_text()) == content
    assert [*content] == [
        "format", "version", "makespan", "bound", "idle", "devices", "gaps", "critical_path", "slack", "sensitivity",
    ]  # fmt: skip
    assert (content["format"], content["version"]) == ("pipesched.explanation", 1)
    schedule = document(cli, ARTICLE)
    names = {one["op"] for one in schedule["ops"]}
    assert set(content["slack"]) == names
    assert set(content["critical_path"]) <= names
    assert content["makespan"] == schedule["latency"]
    assert content["gaps"][0] == {
        "unit": ["mul", 0], "start": 0, "end": 1, "class": "warm_up", "culprit": "+1", "waiting": "*3",
    }  # fmt: skip
    assert content["devices"][0] == {
        "unit": ["mul", 0], "warm_up": 1, "wait": 0, "transfer": 0, "order": 0, "memory": 0, "drain": 1, "late": 0,
        "idle": 2,
    }  # fmt: skip
    assert content["sensitivity"][0] == {
        "class": "mul", "count": 1, "faster": 1, "slower": 2, "latency_faster": None, "latency_slower": 6,
    }  # fmt: skip
