"""`pipesched run`: one schedule, the algorithm of a config, orders, savings and microbatches that differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipesched import load
from pipesched.cli.groups import GROUPS
from pipesched.cli.reading import given_config
from pipesched.schedulers.registry import FAMILIES
from tests.cli.conftest import Cli, answer


@pytest.mark.parametrize("markup", ["[/x]", ":smile:", "模型 é"])
@pytest.mark.parametrize("key", ["name", "memory: {unit"])
def test_labels_are_no_markup(cli: Cli, key: str, markup: str) -> None:
    """A label that looks like Rich's markup, or is of another script, is printed as it is."""
    config = f"devices: 2\n{key}: '{markup}'{'}' if '{' in key else ''}\nmemory: {{budget: 9}}"
    if "{" in key:
        config = f"devices: 2\n{key}: '{markup}', budget: 9}}"
    result = cli("run", "-c", "-", stdin=config)
    assert (result.returncode, result.stderr) == (0, "")
    assert markup in result.stdout


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


def test_sweep_with_a_block(cli: Cli) -> None:
    """A sweep takes the block along, and says why where the stages do not suit it."""
    config(BLOCK)
    rows = compared(cli, "block", "--sweep", "devices=2,3")
    assert [row["applicable"] for row in rows] == [True, False]
    assert "one start for each of the 3 stages" in rows[1]["reason"]
    bubbles = compared(cli, "block", "--sweep", "microbatches=4,8")
    assert bubbles[0]["metrics"]["bubble"] > bubbles[1]["metrics"]["bubble"]


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


def test_the_order_of_a_config(cli: Cli, tmp_path: Path) -> None:
    """A config gives it like any option of its algorithm."""
    file = tmp_path / "c.yaml"
    for value, makespan in (("best", 96), ("verl", 98), ("[5, 4, 3, 2, 1, 0]", 105)):
        file.write_text(f"devices: 4\nsizes: {{work: [1, 2, 3, 4, 5, 6]}}\nalgorithm:\n  1f1b: {{order: {value}}}\n")
        assert json.loads(cli("run", "-c", str(file), "--json").stdout)["metrics"]["makespan"] == makespan


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
