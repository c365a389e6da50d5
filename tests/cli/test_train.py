"""`pipesched train`: its words, and `--self-test`: its options, what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pipesched
from tests.cli.conftest import Cli
from tests.examples import at_night_but
from tests.torch_ranks import needs_torch


def test_without_pytorch(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """One message that says what to install, and exit code 2."""
    monkeypatch.setattr("pipesched.runtime.find_spec", lambda _: None)
    result = cli("train", "--self-test")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "pipesched: training is done by PyTorch, which is not installed: pip install 'pipesched[torch]'\n"
    )


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the function of the library is given, in place of a training: the schedule, and everything else."""
    from pipesched.runtime import training

    given: list[Any] = []

    def instead(schedule: Any, **options: Any) -> dict[str, Any]:
        given.append((schedule, options))
        return training.ended([0.5], [], "done")

    monkeypatch.setattr(training, "train", instead)
    return given


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a config, a document and a CSV."""
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text("devices: 2\nstages: 2\nmicrobatches: 3\nalgorithm: naive\n")
    outcome = pipesched.run(pipesched.make_problem(devices=2, stages=2, microbatches=4, forward=1), "1f1b")
    pipesched.write(outcome, "schedule.json")
    pipesched.write(outcome, "schedule.csv")


@needs_torch
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "algorithm", "sizes"),
    [
        (["schedule.json"], "1f1b", (2, 2, 4)),
        (["schedule.csv"], "1f1b", (2, 2, 4)),
        (["schedule.csv", "config.yaml", "--microbatches", "4"], "1f1b", (2, 2, 4)),
        (["naive", "config.yaml"], "naive", (2, 2, 3)),
        (["config.yaml"], "naive", (2, 2, 3)),
        (["interleaved", "config.yaml", "--stages", "4", "--microbatches", "4"], "interleaved", (2, 4, 4)),
    ],
)
def test_words_name_the_schedule(
    cli: Cli, trained: list[Any], words: list[str], algorithm: str, sizes: tuple[int, int, int]
) -> None:
    """A document, a CSV with or without a config, an algorithm and a config, as word or option, with options on top."""
    result = cli("train", *words, "--seed", "3", "--model", "a:b")
    assert (result.returncode, result.stdout) == (0, "")
    ((schedule, options),) = trained
    problem = schedule.problem
    assert (problem.devices, problem.stages, problem.microbatches) == sizes
    assert schedule.plan.orders == pipesched.run(problem, algorithm).schedule.plan.orders
    assert {key: options[key] for key in ("seed", "model")} == {"seed": 3, "model": "a:b"}


@needs_torch
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "rows", "noted"),
    [
        (["--work", "1,2,3", "--rows", "4,8,12"], [4, 8, 12], False),
        (["--rows", "4,8,12"], [4, 8, 12], False),
        (["--work", "1,2,3"], None, True),
        (["--work", "1,2,3", "--data", "a:b"], None, False),
        ([], None, False),
    ],
)
def test_rows(cli: Cli, trained: list[Any], words: list[str], rows: list[int] | None, noted: bool) -> None:
    """They reach the library; where microbatches differ in the plan alone, a note says so."""
    result = cli("train", "1f1b", "config.yaml", *words)
    assert result.returncode == 0
    ((_, options),) = trained
    assert options.get("rows") == rows
    note = "the schedule is for microbatches that differ; all are trained alike, unless --rows gives theirs"
    assert result.stderr == f"pipesched: note: {note}\n" * noted


@needs_torch
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("config.yaml --rows 4,8", "--rows: must hold one entry for each of the 3 microbatches, not 2"),
        ("config.yaml --rows 4,8,x", "--rows: must be a number, not 'x'"),
        ("config.yaml --mode forward", "schedule: is of forwards alone (--mode forward); training runs backwards too"),
        ("schedule.json config.yaml", "schedule.json: a schedule document holds its own problem"),
        ("schedule.json naive", "naive: schedule.json is a schedule already; give one of them"),
        ("schedule.json schedule.csv", "schedule.csv: schedule.json is a schedule already; give one of them"),
        ("schedule.json --group-size 2", "--group-size: schedule.json is a schedule already"),
        ("1f1b naive", "1f1b naive: one algorithm at a time"),
        ("--self-test --ranks 3", "--ranks: must be even, as two copies of the weights need pairs of ranks, not 3"),
        ("--self-test --device gpu", "--device: unknown device 'gpu'; "),
    ],
)
def test_what_is_not_trained(cli: Cli, words: str, message: str) -> None:
    """One message and exit code 2, before a process starts."""
    result = cli("train", *words.split())
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"pipesched: {message}")
    assert result.stderr.count("\n") == 1


@needs_torch
@pytest.mark.parametrize("failure", [None, "1f1b on 2 ranks, float64: gradients differ"])
@pytest.mark.parametrize("as_json", [True, False])
def test_what_is_printed(cli: Cli, monkeypatch: pytest.MonkeyPatch, failure: str | None, as_json: bool) -> None:
    """The table or the document on stdout; a plan that is wrong on stderr, with its text and exit code 1."""
    from pipesched.runtime import self_testing
    from pipesched.runtime.self_testing import SelfTest, SelfTestRow

    rows = (SelfTestRow(2, "float64", "1f1b", 0.0, 3e-17, [41472, 28928], [41472, 28928], None, 0.44),)
    found = SelfTest("cpu", 0, "2.13.0", rows, failure, failure and "device 0: 0F0 0B0")
    given: list[Any] = []

    def instead(*values: Any, **more: Any) -> SelfTest:
        given.append(values)
        return found

    monkeypatch.setattr(self_testing, "self_test", instead)
    result = cli("train", "--self-test", "--ranks", "2", *["--json"] * as_json)
    assert given == [(None, 2)]
    assert result.returncode == (1 if failure else 0)
    assert result.stderr == (f"pipesched: {failure}\ndevice 0: 0F0 0B0\n" if failure else "")
    if as_json:
        assert json.loads(result.stdout) == found.document()
    else:
        assert (
            result.stdout
            == """\
PyTorch 2.13.0 on cpu

2 ranks, float64: losses and gradients at most 1e-09 apart
plan                                   losses gradients    bytes  planned      s
1f1b                                        0     3e-17   41,472   41,472   0.44
"""
        )


BROKEN = {
    "compare_with_another_dropout": ("1f1b, recompute full", 3, "gradients differ by"),
    "compare_and_die": ("naive", 0, "rank 1 ended: process 1 terminated with signal SIGKILL"),
}


@needs_torch
@pytest.mark.parametrize("what", at_night_but(["compare_with_another_dropout"], BROKEN))
def test_what_is_broken_is_found(cli: Cli, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A recomputation with other random numbers, and a rank that dies: exit code 1, and the text of the plan."""
    from pipesched.runtime import self_testing
    from tests.runtime import broken

    name, rows, message = BROKEN[what]
    monkeypatch.setattr(self_testing, "compare_rank", getattr(broken, what))
    result = cli("train", "--self-test", "--device", "cpu", "--ranks", "2")
    assert result.returncode == 1
    assert f"pipesched: {name} on 2 ranks, float64: {message}" in result.stderr
    lines = result.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines[1:]] == ["device 0", "device 1"]
    assert ("0R0" in lines[1]) == ("recompute" in name)
    assert "1F0" in lines[2]
    table = result.stdout.splitlines()
    assert table[0].startswith("PyTorch 2.")
    assert table[0].endswith("on cpu")
    assert len(table[4:]) == rows
    assert not rows or table[-1].startswith(name)


VERIFIED = ["train", "zb-h1", "--devices", "2", "--microbatches", "4", "--verify", "--data", "tests.runtime.gpt:data"]


@needs_torch
@pytest.mark.nightly
def test_a_plan_is_verified(cli: Cli) -> None:
    """Losses and parameters are those without a pipeline, of tied weights that each rank would draw otherwise too."""
    result = cli(*VERIFIED, "--model", "tests.runtime.gpt:drawn")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["losses", *["stage"] * 11, "28"]
    assert all(float(line.split()[-1]) < 1e-14 for line in lines[:12])
    assert lines[-1] == "28 compared; the largest are shown, --json has all"


@needs_torch
def test_a_corrupted_program_is_found(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that leaves out the weight gradient of a microbatch: exit code 1, and its parameters alone are named."""
    from pipesched.runtime import training
    from tests.runtime import broken

    monkeypatch.setattr(training, "train_rank", broken.verify_without_a_weight)
    result = cli(*VERIFIED, "--model", "tests.runtime.gpt:untied", "--json")
    document = json.loads(result.stdout)
    assert (result.returncode, document["passed"], document["limit"]) == (1, False, 1e-9)
    far = [one for one in document["parameters"] if one["apart"] > 1e-9]
    assert {one["stage"] for one in far} == {1}
    assert document["losses"] < 1e-14
    assert "pipesched: more than 1e-09 from a step without a pipeline: stage 1  " in result.stderr


@needs_torch
@pytest.mark.nightly
def test_what_cannot_be_verified(cli: Cli) -> None:
    """Weights of 16 bits, whose sums in another order differ much: one message and exit code 2."""
    result = cli(*VERIFIED, "--model", "tests.runtime.gpt:halved")
    assert (result.returncode, result.stdout) == (1, "")
    assert "model: has weights of bfloat16; gradients are compared in float64 or float32" in result.stderr
