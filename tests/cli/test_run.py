"""`pipesched run`: one schedule, the algorithm of a config, orders, savings and microbatches that differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import load
from pipesched.cli.groups import GROUPS
from pipesched.cli.reading import given_config
from pipesched.schedulers.registry import FAMILIES
from tests.cli.conftest import Cli, answer


@pytest.mark.parametrize(
    ("algorithm", "makespan"), [("naive", 330), ("1f1b", 330), ("interleaved", 285), ("sequential", 960)]
)
def test_known_makespans(cli: Cli, algorithm: str, makespan: int) -> None:
    """The built-in default without any config: the makespans of the literature, drawn and in JSON."""
    assert answer(cli, "run", "--algo", algorithm)["metrics"]["makespan"] == makespan
    result = cli("run", "--algo", algorithm)
    assert (result.returncode, result.stderr) == (0, "")
    assert str(makespan) in result.stdout


def test_default_algorithm_is_1f1b(cli: Cli) -> None:
    """Without --algo it is 1F1B."""
    assert answer(cli, "run") == answer(cli, "run", "--algo", "1f1b")


@pytest.mark.parametrize(("name", "family"), [("GPipe", "naive"), ("afab", "naive"), ("breadth-first", "looped-bfs")])
def test_aliases(cli: Cli, name: str, family: str) -> None:
    """An alias, in any case, is the family it stands for."""
    assert answer(cli, "run", "-a", name) == answer(cli, "run", "-a", family)


def test_config_and_options(cli: Cli) -> None:
    """A config comes from a file or from standard input, and options go on top of both."""
    text = "name: mine\ndevices: 2\nmicrobatches: 3\ncosts: {forward: 1.5, p2p: 0.25}\n"
    Path("mine.yaml").write_text(text)
    content = answer(cli, "run", "-c", "mine.yaml", "--microbatches", "5")
    assert content == answer(cli, "run", "--config", "-", "--microbatches", "5", stdin=text)
    problem = content["problem"]
    assert (problem["name"], problem["devices"], problem["microbatches"]) == ("mine", 2, 5)
    assert (problem["costs"]["forward"], problem["costs"]["backward"], problem["costs"]["p2p"]) == (1.5, 3, 0.25)


def test_same_as_the_library(cli: Cli) -> None:
    """The command line gives the figures of the Python API."""
    problem = pipesched.make_problem(devices=3, stages=6, microbatches=5, forward=2, p2p=1)
    schedule = pipesched.run(problem, "interleaved").schedule
    options = (
        "--devices",
        "3",
        "--stages",
        "6",
        "--microbatches",
        "5",
        "--forward",
        "2",
        "--backward",
        "4",
        "--p2p",
        "1",
    )
    metrics = answer(cli, "run", "-a", "interleaved", *options)["metrics"]
    assert (metrics["makespan"], metrics["span"], metrics["bubble"]) == (
        schedule.makespan,
        schedule.span,
        schedule.bubble,
    )


def test_lifo_changes_the_order(cli: Cli) -> None:
    """--lifo turns the backwards of the naive schedule around."""
    fifo, lifo = (answer(cli, "run", "-a", "naive", *order)["devices"][0] for order in ((), ("--lifo",)))
    assert [slot["op"] for slot in fifo[8:]] == [slot["op"] for slot in reversed(lifo[8:])]
    assert fifo[:8] == lifo[:8]


def test_seed_gives_the_same_schedule_again(cli: Cli) -> None:
    """A random tie is the same for the same seed, and another for another."""
    options = ("-a", "list", "--tie", "random", "--seed")
    first, again, other = (answer(cli, "run", *options, seed)["devices"] for seed in ("1", "1", "2"))
    assert first == again
    assert first != other


def test_note_of_the_algorithm_is_shown(cli: Cli) -> None:
    """What the algorithm decided by itself is told: the group size where P does not divide M."""
    result = cli("run", "-a", "interleaved", "--stages", "12", "--microbatches", "9")
    assert result.returncode == 0
    assert "note: groups of 5: the shortest of 6 sizes that run" in result.stdout


@pytest.mark.parametrize(
    "view",
    [
        ["--width", "20"],
        ["--width", "40", "--label", "op"],
        ["--width", "300", "--label", "stage"],
        ["--label", "none", "--memory"],
        ["--label", "microbatch", "--no-memory", "--mem-budget", "3"],
        ["--zoom", "1"],
        ["--zoom", "1000000"],
        ["--from", "-5", "--to", "1e6"],
        ["--from", "0.001", "--to", "0.002", "--forward", "0.001"],
        ["--from", "100", "--zoom", "2.5"],
        ["--ascii", "--memory"],
        ["--forward", "0", "--backward", "0"],
        ["--devices", "1", "--microbatches", "1"],
        ["--forward", "999999999", "--backward", "1"],
        ["--devices", "40", "--microbatches", "1"],
    ],
    ids=" ".join,
)
def test_view(cli: Cli, view: list[str]) -> None:
    """Every way of looking at a schedule draws something, within the width that was asked for."""
    result = cli("run", *view)
    assert (result.returncode, result.stderr) == (0, "")
    width = int(view[1]) if view[0] == "--width" else 100
    assert result.stdout.strip()
    assert max(map(len, result.stdout.splitlines())) <= width


@pytest.mark.parametrize("command", [["run"], ["run", "--mem-budget", "3"], ["compare"], ["list"]], ids=" ".join)
def test_ascii(cli: Cli, command: list[str]) -> None:
    """--ascii prints ASCII only."""
    result = cli(*command, "--ascii")
    assert result.returncode == 0
    assert result.stdout.isascii()


@pytest.mark.parametrize("markup", ["[/]", "[bold]", "[red]x", "[/x]", "\\[", ":smile:", "[link=x]"])
@pytest.mark.parametrize("key", ["name", "time_unit", "memory: {unit"])
def test_labels_are_no_markup(cli: Cli, key: str, markup: str) -> None:
    """A label that looks like Rich's markup is printed as it is."""
    config = f"devices: 2\n{key}: '{markup}'{'}' if '{' in key else ''}\nmemory: {{budget: 9}}"
    if "{" in key:
        config = f"devices: 2\n{key}: '{markup}', budget: 9}}"
    result = cli("run", "-c", "-", stdin=config)
    assert (result.returncode, result.stderr) == (0, "")
    assert markup in result.stdout


def test_labels_in_any_script(cli: Cli) -> None:
    """A label may be written in any script."""
    result = cli("run", "-c", "-", stdin="devices: 2\nname: 模型 é\ntime_unit: µs\n")
    assert result.returncode == 0
    assert "模型 é" in result.stdout
    assert "µs" in result.stdout


def peak_line(cli: Cli, *args: str) -> str:
    """What the summary says of the peak memory, on one line."""
    text = cli("run", *args, "--width", "120").stdout
    return " ".join(text[text.index("peak memory") :].split())


def test_peaks_of_many_devices_are_cut_to_the_extremes(cli: Cli) -> None:
    """Up to 7 devices each peak is told, from 8 on the largest and the smallest, and with --memory again all."""
    peaks = "8, 7, 6, 5, 4, 3, 2, 1"
    eight = ("--devices", "8", "--stages", "8")
    assert "activations of devices 0..6: 7, 6, 5, 4, 3, 2, 1" in peak_line(cli, "--devices", "7", "--stages", "7")
    assert "activations: largest 8 on device 0, smallest 1 on device 7" in peak_line(cli, *eight)
    assert peaks not in peak_line(cli, *eight)
    assert f"activations of devices 0..7: {peaks}" in peak_line(cli, *eight, "--memory")


def test_a_chart_that_hides_slots_says_how_to_see_them(cli: Cli) -> None:
    """Where slots are too short for a letter, the legend says what helps, and not by a flag."""
    text = cli("run", "--stages", "4", "--forward", "0.1,10,10,10", "--backward", "20", "--width", "70").stdout
    assert re.search(r"\([0-9]+ slots too short to show; zoom in\)", text)
    assert "--zoom" not in text


BLOCK = """\
devices: 2
microbatches: 4
algorithm:
  block:
    period: 3
    forward: [0, 1]
    backward: [4, 2]
"""
WHOLE = {name for name in FAMILIES if name != "seq-1f1b"}  # which is 1f1b without slices
GROUPED = "devices: 2\nstages: 4\nmicrobatches: 8\nalgorithm: {interleaved: {group_size: 4}}\n"


def config(text: str) -> str:
    """A config file of this text."""
    Path("c.yaml").write_text(text)
    return "c.yaml"


def ran(cli: Cli, *args: str) -> Any:
    """The document of a run."""
    return answer(cli, "run", "-c", "c.yaml", *args)


def compared(cli: Cli, *args: str) -> Any:
    """The rows of a comparison."""
    return answer(cli, "compare", "-c", "c.yaml", *args)["rows"]


def peaks(document: dict[str, Any]) -> list[float]:
    """The peak memory of each device."""
    found: list[float] = document["metrics"]["peak_memory"]
    return found


def test_run_takes_the_algorithm_of_the_config(cli: Cli) -> None:
    """Without --algo it is the config's with its options; `algorithm` of the document stays the name."""
    config(BLOCK)
    assert ran(cli)["algorithm"] == "block"
    assert "algorithm" not in ran(cli)["problem"]
    drawn = cli("run", "-c", "c.yaml")
    assert "note: the block holds 2 chunks a device by residence" in drawn.stdout
    config(GROUPED)
    assert peaks(ran(cli)) == peaks(ran(cli, "--algo", "interleaved", "--group-size", "4"))
    config("devices: 2\n")
    assert ran(cli)["algorithm"] == "1f1b"


def test_algo_replaces_it(cli: Cli) -> None:
    """--algo replaces the algorithm with its options; the same name keeps them, and an option replaces its own."""
    config(BLOCK)
    assert ran(cli, "--algo", "naive")["algorithm"] == "naive"
    assert ran(cli, "--algo", "block")["algorithm"] == "block"
    config(GROUPED)
    by_four, by_two, by_eight = (peaks(ran(cli, "--group-size", size)) for size in "428")
    assert by_four == peaks(ran(cli)) == peaks(ran(cli, "--algo", "interleaved"))
    assert len({*map(tuple, (by_four, by_two, by_eight))}) == 3
    assert ran(cli, "--algo", "looped-bfs")["algorithm"] == "looped-bfs"


def test_a_schedule_of_a_block_round_trips(cli: Cli) -> None:
    """The document of a block is drawn and checked like any other."""
    config(BLOCK)
    text = cli("run", "-c", "c.yaml", "--json").stdout
    assert cli("check", "-", stdin=text).returncode == 0
    assert cli("show", "-", "--json", stdin=text).stdout == text


def test_compare_gives_the_block_to_its_family(cli: Cli) -> None:
    """The config's options go to the family that it names, wherever that stands; without names it joins the default."""
    config(BLOCK)
    assert [row["algorithm"] for row in compared(cli)] == ["naive", "1f1b", "interleaved", "block"]
    assert [row["applicable"] for row in compared(cli, "block", "1f1b")] == [True, True]
    config(GROUPED)
    assert [row["algorithm"] for row in compared(cli)] == ["naive", "1f1b", "interleaved"]
    assert [row["algorithm"] for row in compared(cli, "1f1b")] == ["1f1b"]  # its options wait for it to be compared
    assert peaks(compared(cli, "1f1b", "interleaved")[1]) == peaks(ran(cli))
    assert peaks(compared(cli, "1f1b", "interleaved", "--group-size", "2")[1]) == peaks(ran(cli, "--group-size", "2"))


@pytest.mark.parametrize("option", ["--all", "--pareto"])
def test_every_algorithm_and_the_block(cli: Cli, option: str) -> None:
    """All algorithms are the list's, with the block of a config that has one, and without a word of it else."""
    config(BLOCK)
    assert {row["algorithm"] for row in compared(cli, option)} == WHOLE
    config("devices: 2\n")
    assert {row["algorithm"] for row in compared(cli, option)} == WHOLE - {"block"}


def test_options_of_the_config_in_a_pareto_document(cli: Cli) -> None:
    """A row says with which options it was made, exact numbers as JSON has them."""
    config(BLOCK.replace("[0, 1]", "[0, 1.5]"))
    (row,) = compared(cli, "block", "--pareto")
    assert (row["period"], row["forward"], row["backward"]) == (3, [0, 1.5], [4, 2])


def test_sweep_with_a_block(cli: Cli) -> None:
    """A sweep takes the block along, and says why where the stages do not suit it."""
    config(BLOCK)
    rows = compared(cli, "block", "--sweep", "devices=2,3")
    assert [row["applicable"] for row in rows] == [True, False]
    assert "one start for each of the 3 stages" in rows[1]["reason"]
    bubbles = compared(cli, "block", "--sweep", "microbatches=4,8")
    assert bubbles[0]["metrics"]["bubble"] > bubbles[1]["metrics"]["bubble"]


def test_an_option_replaces_one_of_the_config(cli: Cli) -> None:
    """Of a comparison too."""
    config("devices: 4\nalgorithm: {zb-auto: {objective: span}}\n")
    assert cli("compare", "zb-auto", "-c", "c.yaml", "--objective", "makespan").returncode == 0


def test_the_list_says_where_the_options_stand(cli: Cli) -> None:
    """The options of a block are keys of a config, not of the command line."""
    rows = {row["name"]: row for row in json.loads(cli("list", "--json").stdout)["rows"]}
    assert rows["block"]["options"][:2] == ["period", "forward"]
    assert "squeeze (period and forward must be given)" in " ".join(cli("list", "block").stdout.split())


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


@pytest.mark.parametrize(
    "options", [["--recompute", "full"], ["--offload", "1"], ["--recompute", "1", "--offload", "full"]], ids=" ".join
)
def test_run_writes_a_schedule_that_passes_the_check(cli: Cli, options: list[str]) -> None:
    """The document names the family alone, round-trips, and keeps every rule, transfers included."""
    done = cli("run", "1f1b", *options, "--offload-cost", "2", "--checkpoint", "0.1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["algorithm"] == "1f1b"
    assert cli("check", "-", stdin=done.stdout).returncode == 0
    assert json.loads(cli("show", "-", "--json", stdin=done.stdout).stdout) == document


def test_the_options_of_a_config(cli: Cli, tmp_path: Path) -> None:
    """A config gives them like any option of its algorithm."""
    file = tmp_path / "c.yaml"
    file.write_text("devices: 4\nalgorithm: {1f1b: {recompute: full, offload: 1}}\ncosts: {offload: 1}\n")
    given = json.loads(cli("run", "-c", str(file), "--json").stdout)
    typed = cli("run", "1f1b", "--devices", "4", "--stages", "4", "--offload-cost", "1", "--forward", "1",
                "--backward", "2", "--recompute", "full", "--offload", "1", "--json")  # fmt: skip
    assert given["devices"] == json.loads(typed.stdout)["devices"]


def test_some_in_a_comparison() -> None:
    """A number of stages that one family has and another has not is refused for that one alone."""
    problem = pipesched.make_problem(devices=2, stages=4)
    few, many = pipesched.compare(problem, ["1f1b", "interleaved"], recompute=3)
    assert (few.applicable, few.label, many.label) == (False, "1f1b, recompute 3", "interleaved, recompute 3")
    assert few.reason == "1f1b runs 2 stages here, so recompute takes full or at most 2, not 3"
    each = pipesched.compare(problem, ["1f1b", "naive"], each={"1f1b": {"recompute": "full"}})
    assert [entry.label for entry in each] == ["1f1b, recompute full", "naive"]


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"sizes.work": "1,2,3.5"}, {"sizes": {"work": [1, 2, 3.5]}}),
        ({"sizes.work": "2"}, {"sizes": {"work": [2]}}),
        ({"sizes.work": "1,2", "microbatches": "2"}, {"sizes": {"work": [1, 2]}}),
        ({"slices": "4"}, {"slices": 4}),
        ({"slices": "auto"}, {"slices": "auto"}),
        ({"mode": "forward", "kv": "0.25"}, {"mode": "forward", "kv": 0.25}),
        ({"mode": "forward", "rounds": "3"}, {"mode": "forward", "rounds": 3}),
    ],
)
def test_option(options: dict[str, str], meant: dict[str, Any]) -> None:
    """An option gives the value of a config; without one there are as many microbatches as `--work` lists."""
    assert given_config(GROUPS["problem"].read({"config": None, **options})).problem == load(None, **meant)
