"""The example package of the documentation: what its entry points name is known by name, once it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

ROOT = Path(__file__).parent.parent
Call = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pipesched runs."""
    return tmp_path_factory.mktemp("own-package")


@pytest.fixture(scope="module")
def pipesched(folder: Path) -> Call:
    """Install the package into the folder, and return what runs pipesched beside it."""
    source = copytree(ROOT / "docs" / "how-to" / "own-package", folder / "source")
    flags = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder / "site")]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, str(source)], check=True)
    paths = os.pathsep.join([str(ROOT), str(folder / "site")])

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipesched", *words]
        environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "110"}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return call


@pytest.mark.parametrize(
    ("command", "said"),
    [("run one-ahead", "one-ahead  4 devices"), ("compare 1f1b one-ahead --jobs 2 --charts none", "one-ahead"),
     ("list", "one-ahead (pipesched-example 1.0)"),
     ("switches one-ahead --devices 2 --microbatches 4", "device 1: 5 switches\n"),
     ("export one-ahead --devices 2 --microbatches 2 --to lines", "0F0 0F1 0B0 0B1\n1F0 1F1 1B0 1B1\n"),
     ("run 1f1b --stages 4 -o plan.lines", "makespan"), ("compare one-ahead plan.lines --charts none", "plan")],
)  # fmt: skip
def test_what_it_declares_is_known(pipesched: Call, command: str, said: str) -> None:
    """Its schedule in commands, its format by the suffix, written and read, and its command, as Typer has it."""
    done = pipesched(*command.split())
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_what_is_wrong_about_it(pipesched: Call, folder: Path) -> None:
    """Messages as of our own: an unknown name, an unknown command, a bad value, and a config that names its family."""
    assert "did you mean 'one-ahead'" in pipesched("run", "one-ahea").stderr
    (folder / "model.yaml").write_text("devices: 4\nalgorithm: one-ahead\n", encoding="utf-8")
    assert "model.yaml:2: algorithm: unknown algorithm 'one-ahead'" in pipesched("run", "-c", "model.yaml").stderr
    assert "No such command 'switch'" in pipesched("switch").stderr
    done = pipesched("switches", "1f1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown algorithm '1f1'; did you mean '1f1b'?" in done.stderr
