"""Files are written whole or not at all, and an existing one only by force."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipesched.errors import ConfigError
from pipesched.file_formats.files import write_file

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("name", ["out.json", "OUT.JSON", "-.json", "a b.json", "é.json"])
def test_output_is_the_json_document(cli: Cli, tmp_path: Path, name: str) -> None:
    """-o writes what --json prints, and nothing else appears in the folder."""
    printed = cli("run", "-a", "interleaved", "--json").stdout
    result = cli("run", "-a", "interleaved", f"--output={name}")
    assert result.returncode == 0
    assert "285" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert Path(name).read_text() == printed


def test_output_and_json_together(cli: Cli) -> None:
    """With -o and --json the document is in the file and on stdout, alone."""
    result = cli("run", "--json", "-o", "out.json")
    assert result.stdout == Path("out.json").read_text()
    assert json.loads(result.stdout)["algorithm"] == "1f1b"


def test_existing_file_needs_force(cli: Cli) -> None:
    """An existing file stays as it is, whatever it holds, until --force replaces it."""
    Path("out.json").write_text("precious")
    result = cli("run", "-o", "out.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert "out.json exists; --force overwrites it" in result.stderr
    assert Path("out.json").read_text() == "precious"
    assert cli("run", "-o", "out.json", "--force").returncode == 0
    assert json.loads(Path("out.json").read_text())["algorithm"] == "1f1b"


def test_directory_is_not_replaced(cli: Cli) -> None:
    """A directory of that name stays, also with --force."""
    Path("out.json").mkdir()
    for force in ((), ("--force",)):
        result = cli("run", "-o", "out.json", *force)
        assert (result.returncode, result.stdout) == (2, "")
        assert "out.json" in result.stderr
    assert Path("out.json").is_dir()
    assert [path.name for path in Path.cwd().iterdir()] == ["out.json"]


def test_missing_folder(cli: Cli) -> None:
    """A folder that is not there is not made."""
    result = cli("run", "-o", "missing/out.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert "cannot write 'missing/out.json': No such file or directory" in result.stderr
    assert not list(Path.cwd().iterdir())


def test_permissions_are_those_of_any_new_file(cli: Cli) -> None:
    """The file has the permissions that the umask gives, not those of a temporary file."""
    previous = os.umask(0o027)
    try:
        cli("run", "-o", "out.json")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(Path("out.json").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError()])
def test_failing_write_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    """A write that stops in the middle leaves the old file, and no other."""
    target = tmp_path / "out.json"
    target.write_text("old")

    def parts() -> Iterator[str]:
        yield "new"
        raise error

    expected = ConfigError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        write_file(target, parts(), force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert target.read_text() == "old"
