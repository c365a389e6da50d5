"""Options of microbatches that differ: what they mean, and what a bad one is told, by flag or by place in the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import pipesched
from pipesched.cli.groups import GROUPS
from pipesched.cli.reading import given_config
from pipesched.config.load import load
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document

Cli = Callable[..., "CompletedProcess[str]"]


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


def sliced_document() -> dict[str, Any]:
    """The document of one microbatch in two slices, as a file has it."""
    problem = pipesched.make_problem(devices=2, microbatches=2, slices=2, kv=0.25, sizes={"work": [1, 2]})
    rows = [[f"{stage}{text}" for text in ORDER] for stage in (0, 1)]
    outcome = pipesched.Outcome("by hand", pipesched.schedule_plan(problem, pipesched.plan(problem, rows)))
    content: dict[str, Any] = json.loads(dump(document(outcome)))
    return content


ORDER = ("F0.0", "F0.1", "F1.0", "F1.1", "B1.1", "B1.0", "B0.1", "B0.0")


def exchange(content: dict[str, Any], place: int) -> None:
    """Let a slot and the next one on device 0 change places."""
    slots = content["devices"][0]
    slots[place]["op"], slots[place + 1]["op"] = slots[place + 1]["op"], slots[place]["op"]


def shorten(content: dict[str, Any]) -> None:
    """Let the first forward of microbatch 1 on device 0 last as long as one of microbatch 0."""
    slot = content["devices"][0][2]
    slot["end"] = slot["start"] + 0.5


def forget_kv(content: dict[str, Any]) -> None:
    """Say a peak without the gradients of keys and values."""
    content["metrics"]["peak_memory"] = content["metrics"]["memory"] = [2, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: exchange(content, 4), ["0B1.0 starts at 6, before the end of 0B1.1 at 10"]),
        (lambda content: exchange(content, 1), ["0F1.0 lasts 0.5, not 1"]),
        (shorten, ["0F1.0 lasts 0.5, not 1"]),
        (forget_kv, ["metrics.peak_memory is [2, 2] in the document; its schedule has [2.125, 2.125]"]),
        (lambda content: content.update(order=[1, 0]), ["order is [1, 0] in the document; its schedule feeds [0, 1]"]),
    ],
)
def test_check(cli: Cli, change: Callable[[dict[str, Any]], None], said: list[str]) -> None:
    """`check` restates what slices and microbatches need, last and hold; a schedule as it was written is valid."""
    content = sliced_document()
    assert cli("check", "-", stdin=json.dumps(content)).returncode == 0
    change(content)
    result = cli("check", "-", stdin=json.dumps(content))
    assert result.returncode == 1
    for fragment in said:
        assert fragment in result.stdout + result.stderr


def test_show_and_compare(cli: Cli) -> None:
    """`show` draws a document with slices, `compare` puts it beside a family that is timed on its problem."""
    Path("mine.json").write_text(json.dumps(sliced_document()))
    shown, compared = cli("show", "mine.json"), cli("compare", "mine.json")
    assert (shown.returncode, compared.returncode) == (0, 0)
    assert "2 microbatches of 2 slices" in shown.stdout
    assert "mine" in compared.stdout


@pytest.mark.parametrize("options", [["--slices", "2"], ["--mode", "forward"]])
@pytest.mark.parametrize("command", ["run", "export"])
def test_no_csv(cli: Cli, command: str, options: list[str]) -> None:
    """The answer is no: exit code 1, the reason on one line of stderr, and no file."""
    words = {"run": ["-o", "x.csv"], "export": ["--to", "pytorch-csv"]}[command]
    result = cli(command, "-a", "naive", "--devices", "2", "--stages", "2", *options, *words)
    assert result.returncode == 1
    assert result.stderr.startswith("pipesched: PyTorch ")
    assert result.stderr.count("\n") == 1
    assert not Path("x.csv").exists()
