"""What commands say: transcripts in tests/golden/said, which are done again from their first line to their last."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

FOLDER = Path(__file__).parent.parent / "golden" / "said"
MARKS = {"#", "==>", "~", ">", "!", "$"}


def again(cli: Cli, transcript: list[str]) -> Iterator[str]:
    r"""Do what a transcript says, and yield its lines, those with what is said as it is said now.

    `==> FILE` writes the lines up to `<==` into a file, `~ OLD -> NEW` the same lines with NEW in the place of OLD (a
    line ends with \n there), `! FILE STATEMENT` changes what a JSON file held at first, as `d`, and `> COMMAND` must
    succeed. `$ COMMAND` is bad input: exit code 2, nothing on standard output, no file written, and the lines below it
    on standard error. Else another exit code stands there, `| ` before what is on standard output, and which files
    changed. `< FILE` is standard input.
    """
    lines, name, text = iter(transcript), "", ""
    originals: dict[str, str] = {}  # of the files that `!` changes
    for line in lines:
        mark, _, rest = line.partition(" ")
        if not line or mark in MARKS:
            yield line
        if mark == "==>":
            block = [*takewhile(lambda one: one != "<==", lines)]
            name, text = rest, "".join(f"{one}\n" for one in block)
            Path(name).write_text(text, encoding="utf-8")
            yield from (*block, "<==")
        elif mark == "~":
            old, _, new = rest.replace("\\n", "\n").partition(" -> ")
            assert old in text
            Path(name).write_text(text.replace(old, new), encoding="utf-8")
        elif mark == "!":
            name, _, statement = rest.partition(" ")
            originals.setdefault(name, Path(name).read_text(encoding="utf-8"))
            document = json.loads(originals[name])
            exec(statement, {"d": document})
            Path(name).write_text(json.dumps(document), encoding="utf-8")
        elif mark == ">":
            assert cli(*shlex.split(rest)).returncode == 0
        elif mark == "$":
            yield from said(cli, shlex.split(rest))


def said(cli: Cli, words: list[str]) -> list[str]:
    """What a command says on standard error, and what else it does."""
    stdin = ""
    if words[-2:-1] == ["<"]:
        stdin = Path(words[-1]).read_text(encoding="utf-8")
        words = words[:-2]
    before = {path: path.stat().st_mtime_ns for path in Path.cwd().rglob("*")}
    done = cli(*words, stdin=stdin)
    after = {path: path.stat().st_mtime_ns for path in Path.cwd().rglob("*")}
    code = [] if done.returncode == 2 else [f"exit code {done.returncode}"]
    shown = [f"| {line}".rstrip() for line in done.stdout.splitlines()]
    changed = {path.name for path, _ in before.items() ^ after.items() if "__pycache__" not in path.parts}
    return [*done.stderr.splitlines(), *code, *shown, *(f"{name} has changed" for name in sorted(changed))]


@pytest.mark.usefixtures("no_own_families")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: str(path.stem))
def test_said(cli: Cli, path: Path) -> None:
    """Every command of a transcript says what it said. PIPESCHED_WRITE_GOLDEN=1 writes what it says now: look at it."""
    transcript = path.read_text(encoding="utf-8").splitlines()
    now = [*again(cli, transcript)]
    if os.environ.get("PIPESCHED_WRITE_GOLDEN"):
        path.write_text("".join(f"{line}\n" for line in now), encoding="utf-8")
    assert now == path.read_text(encoding="utf-8").splitlines()
