"""`pipesched init`: the starter config and the JSON Schema."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pipesched.cli.init import family_starter
from pipesched.config.starter import json_schema, starter
from pipesched.testing import check_family

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("file", [[], ["-"]], ids=["", "-"])
def test_prints_without_a_file(cli: Cli, tmp_path: Path, file: list[str]) -> None:
    """Without a file, or with -, the starter goes to stdout and nowhere else."""
    result = cli("init", *file)
    assert (result.returncode, result.stdout, result.stderr) == (0, starter(), "")
    assert not list(tmp_path.iterdir())


def test_writes_a_file_that_runs(cli: Cli) -> None:
    """The file holds the starter, and the commands that its comment names run on it."""
    result = cli("init", "my.yaml")
    assert (result.returncode, result.stdout) == (0, "")
    assert Path("my.yaml").read_text() == starter()
    assert "THIS_FILE" in starter()
    commands = [line.strip("# ") for line in starter().splitlines() if "THIS_FILE" in line]
    for command in commands:
        name, *args = command.replace("THIS_FILE", "my.yaml").split()
        assert (name, cli(*args).returncode) == ("pipesched", 0)


def test_existing_file_needs_force(cli: Cli) -> None:
    """An existing file is kept until --force replaces it."""
    Path("my.yaml").write_text("precious")
    result = cli("init", "my.yaml")
    assert (result.returncode, result.stdout) == (2, "")
    assert "my.yaml exists; --force overwrites it" in result.stderr
    assert Path("my.yaml").read_text() == "precious"
    assert cli("init", "my.yaml", "--force").returncode == 0
    assert Path("my.yaml").read_text() == starter()


def test_schema(cli: Cli) -> None:
    """--schema prints the JSON Schema as one document, or writes it to the file."""
    result = cli("init", "--schema")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == json_schema()
    assert cli("init", "--schema", "schema.json").returncode == 0
    assert Path("schema.json").read_text() == result.stdout


@pytest.mark.usefixtures("no_own_families")
def test_a_family_to_begin_from(cli: Cli, tmp_path: Path) -> None:
    """`--family NAME` writes a file whose three commands work: it runs, is compared, and its test passes."""
    done = cli("init", "--family", "my-plan")
    assert (done.returncode, done.stdout) == (0, "")
    first, *commands = done.stderr.splitlines()
    assert first == "wrote my_plan.py; try it:"
    for command in commands:
        program, *words = command.split()
        if program == "pipesched":
            assert cli(*words).returncode == 0
        else:
            assert (program, words) == ("pytest", ["my_plan.py"])
            made = runpy.run_path(str(tmp_path / "my_plan.py"))
            made["test_my_plan"].__globals__["check_family"] = lambda function, n: check_family(function, n=n // 20)
            made["test_my_plan"]()
    assert "my_plan.py exists" in cli("init", "--family", "my-plan").stderr


@pytest.mark.parametrize("name", ["class", "4-steps", "a-b_c"])
def test_any_name_makes_a_function(name: str) -> None:
    """Names that are no names of functions have one all the same, and the file is Python."""
    text, file = family_starter(name)
    compile(text, file, "exec")
