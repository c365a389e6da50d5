"""`pipesched pack`: files of lengths, what is printed and written, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pipesched
from pipesched.documents.comparison import packing_document
from tests.cli.conftest import Cli, answer
from tests.comparing.packings import GOLDEN

GIVEN = ("--ranks", "2", "--cap", "12", "--microbatches", "2", "-c", "model.yaml")
MODEL = "devices: 2\nmicrobatches: 4\ncosts: {forward: 1, backward: 2}\n"


@pytest.fixture(autouse=True)
def files(cli: Cli) -> None:
    Path("model.yaml").write_text(MODEL)
    Path("lengths.txt").write_text("9 7 6, 5\n4 4 3 2\n")


def test_options_are_the_parameters(cli: Cli) -> None:
    """What the options say is what the function does, options of the problem included."""
    given = ("--attention", "0.3", "--reference", "20", "--algo", "zb-h1", "--p2p", "0.5")
    problem = pipesched.load("model.yaml", p2p=0.5)
    packing = pipesched.pack(
        GOLDEN, ranks=2, cap=12, microbatches=2, problem=problem, attention="0.3", reference=20, algorithm="zb-h1"
    )
    assert answer(cli, "pack", "lengths.txt", *GIVEN, *given) == json.loads(json.dumps(packing_document(packing)))


def test_every_form_of_lengths(cli: Cli) -> None:
    """A text, a JSON list, an array and standard input give the same packing."""
    Path("lengths.json").write_text(json.dumps(GOLDEN))
    np.save("lengths.npy", np.array(GOLDEN))
    expected = answer(cli, "pack", "lengths.txt", *GIVEN, "--reference", "1")
    assert (expected["makespan"], expected["bound"], expected["exact"]) == (88, 66, True)
    for file in ("lengths.json", "lengths.npy"):
        assert answer(cli, "pack", file, *GIVEN, "--reference", "1") == expected
    assert answer(cli, "pack", "-", *GIVEN, "--reference", "1", stdin="9 7 6 5 4 4 3 2") == expected


def test_the_number_of_microbatches(cli: Cli) -> None:
    """It is the config's by default, and `auto` the least that holds the documents."""
    given = ("lengths.txt", "--ranks", "2", "-c", "model.yaml")
    assert answer(cli, "pack", *given, "--cap", "12")["microbatches"] == 4
    assert answer(cli, "pack", *given, "--cap", "12", "--microbatches", "auto")["microbatches"] == 2


def test_the_algorithm_of_the_config(cli: Cli) -> None:
    """It is taken where none is named."""
    Path("own.yaml").write_text(MODEL + "algorithm: zb-h1\n")
    given = ("lengths.txt", "--ranks", "2", "--cap", "12", "-c")
    assert answer(cli, "pack", *given, "own.yaml")["algorithm"] == "zb-h1"
    assert answer(cli, "pack", *given, "own.yaml", "--algo", "naive")["algorithm"] == "naive"


@pytest.mark.parametrize("rank", [(), ("--rank", "0"), ("--rank", "1")])
def test_config_of_a_rank(cli: Cli, rank: tuple[str, ...]) -> None:
    """-o rank.yaml is a config of the slowest rank, or the one that is named, which `run` takes as long for."""
    made = answer(cli, "pack", "lengths.txt", *GIVEN, "--attention", "0.5", "-o", "rank.yaml", *rank)
    makespan = json.loads(cli("run", "-c", "rank.yaml", "--json").stdout)["metrics"]["makespan"]
    assert makespan == (made["makespans"][int(rank[1])] if rank else made["makespan"])


def test_written_document(cli: Cli) -> None:
    """-o packing.json holds what --json prints."""
    result = cli("pack", "lengths.txt", *GIVEN, "-o", "packing.json")
    assert result.returncode == 0
    assert Path("packing.json").read_text() == cli("pack", "lengths.txt", *GIVEN, "--json").stdout


def test_an_overhead_is_kept_by_the_config(cli: Cli) -> None:
    """The config of a rank has it, and its schedule takes as long."""
    Path("many.txt").write_text("4096 " * 16)
    given = ("many.txt", "--ranks", "2", "--devices", "4", "--stages", "4", "--forward", "20", "--backward", "40")
    best = ("--cap", "8192", "--microbatches", "best")
    assert cli("pack", *given, *best, "--overhead", "2,20", "-o", "rank.yaml").returncode == 0
    assert "overhead: [2, 20]" in Path("rank.yaml").read_text()
    assert "554" in cli("run", "rank.yaml").stdout
