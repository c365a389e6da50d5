"""Run the examples of the documentation and compare, or write, what they print.

    python scripts/docs.py            # exit code 1 and a diff when a page is out of date
    python scripts/docs.py --write    # bring the pages and their pictures up to date

An example is a fenced block `console` whose lines that start with `$ ` are commands; what follows a command is its
output, without blanks at the ends of lines. `| head -9` behind a command leaves the first 9 lines, `| tail -9` the
last. Output is 100 columns wide, in the README 80, and without colour.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from pipesched.cli.app import app
from pipesched.schedulers import own
from pipesched.tuning.result import Tuning
from pipesched.tuning.tune import tune

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
TERMINAL = {"NO_COLOR": "1", "LINES": None, "FORCE_COLOR": None, "TTY_COMPATIBLE": None}
COLUMNS = {ROOT / "README.md": 80}  # of other pages 100
TUNED: dict[str, Tuning] = {}  # by what was searched
PICTURE = ROOT / "docs" / "compare.svg"
PICTURE_COMMAND = "compare naive 1f1b interleaved -c configs/autopipe.yaml"
FIGURE_COMMAND = (
    "export --algo zb-h1 --backward-input 5 --backward-weight 5 --stages 4 --memory --force -o docs/figure.svg"
)


def tuned_once(config: Any, names: Any, *, stop: Any, listener: Any, **given: Any) -> Tuning:
    """Return the best points of a space: examples that show different parts of them share one search."""
    key = repr((config, names, given))
    if key not in TUNED:
        TUNED[key] = tune(config, names, stop=stop, listener=listener, **given)
    return TUNED[key]


def output_of(command: str, columns: int = 100) -> str:
    """Return what a command of pipesched prints, notes first, as it stands in a page.

    It runs in this process: to start one for each command would take longer than most commands.
    """
    command, _, part = command.partition(" | ")
    end, _, count = part.partition(" -")
    program, *arguments = shlex.split(command)
    if program != "pipesched":
        raise SystemExit(f"an example must call pipesched: {command}")
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        without_progress = patch("pipesched.cli.progress.AFTER", 1e6)  # seconds: pages say none
        with patch("pipesched.tuning.tune.tune", tuned_once), without_progress:
            result = CliRunner().invoke(app, arguments, env={**TERMINAL, "COLUMNS": str(columns)}, prog_name=program)
    finally:
        os.chdir(here)
        own.forget()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    lines = (result.stderr + result.stdout).rstrip().splitlines()
    shown = {"": lines, "head": lines[: int(count or 0)], "tail": lines[-int(count or 0) :]}[end]
    return "\n".join(line.rstrip() for line in shown)


def refreshed(page: Path) -> str:
    """Return the text of a page with the output of every example made anew."""

    def refresh(block: re.Match[str]) -> str:
        commands = [line for line in block[0].splitlines() if line.startswith("$ ")]
        parts = [f"{line}\n{output_of(line[2:], COLUMNS.get(page, 100))}\n" for line in commands]
        return "\n".join(parts)

    return BLOCK.sub(refresh, page.read_text(encoding="utf-8"))


def picture() -> str:
    """Return the picture of the start page: a comparison in colour, as SVG."""
    from rich.console import Console
    from rich.text import Text

    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color", "COLUMNS": "92"}
    command = [sys.executable, "-m", "pipesched", *PICTURE_COMMAND.split()]
    text = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=True).stdout
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=92, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(text.rstrip()), soft_wrap=True)
        return console.export_svg(title=f"pipesched {PICTURE_COMMAND}", unique_id="pipesched")


def main() -> int:
    """Compare every page, or write it."""
    write, stale = "--write" in sys.argv[1:], 0
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = refreshed(page)
        if old != new and write:
            page.write_text(new, encoding="utf-8", newline="\n")
        elif old != new:
            stale = 1
            sys.stdout.writelines(
                difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(page), "what it prints now")
            )
    if write:
        PICTURE.write_text(picture(), encoding="utf-8", newline="\n")
        subprocess.run([sys.executable, "-m", "pipesched", *FIGURE_COMMAND.split()], cwd=ROOT, check=True)
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
