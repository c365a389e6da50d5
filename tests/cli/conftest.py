"""How the command line is called: in this process for speed, or as a process of its own for pipes and signals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipesched.cli.app import app

Completed = subprocess.CompletedProcess[str]
Cli = Callable[..., Completed]
SETTINGS = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "PYTHONIOENCODING", "PYTHONUTF8")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Completed]:
    """Call pipesched in an empty folder and 100 columns, quietly. An exception that is no exit fails the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipesched.cli.progress.AFTER", 3600.0)  # of a slow machine too, stderr is what is tested

    def call(*args: str, stdin: str | bytes = "", env: Mapping[str, str] = {}) -> Completed:
        settings = {**dict.fromkeys(SETTINGS), "COLUMNS": "100", **env}
        result = CliRunner().invoke(app, list(args), input=stdin, env=settings, prog_name="pipesched")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return subprocess.CompletedProcess(args, int(result.exit_code), result.stdout, result.stderr)

    return call


def answer(cli: Cli, *args: str, stdin: str = "") -> Any:
    """The one JSON document that a command prints, and nothing else."""
    result = cli(*args, "--json", stdin=stdin)
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of a process, without what a developer's terminal adds to it; warnings are errors."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    return {**kept, "PYTHONWARNINGS": "error"}


@pytest.fixture
def process(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Completed]:
    """Run pipesched as a process of its own, in an empty folder."""

    def call(*args: str, stdin: str = "", env: Mapping[str, str] = {}) -> Completed:
        return subprocess.run(
            [sys.executable, "-m", "pipesched", *args],
            input=stdin,
            env={**environment, **env},
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return call
