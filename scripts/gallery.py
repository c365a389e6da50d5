"""Draw the pictures of the gallery, and compare, or write, them: each by the command that stands above it.

python scripts/gallery.py            # exit code 1 and the names of pictures that are out of date
python scripts/gallery.py --write
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from pipesched.cli.app import app

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "gallery.md"
PICTURE = re.compile(r"^```sh\n(pipesched .+) -o (\S+\.svg)\n```\n\n!\[.+\]\(gallery/\2\)$", re.MULTILINE)


def drawn() -> Iterator[tuple[Path, bytes]]:
    """Yield the file of each picture, and what its command draws now."""
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for command, name in PICTURE.findall(PAGE.read_text(encoding="utf-8")):
                target = Path(folder) / name
                done = CliRunner().invoke(app, [*shlex.split(command)[1:], "-o", str(target), "--quiet"])
                if done.exit_code:
                    raise SystemExit(f"{command}: {done.output}")
                yield ROOT / "docs" / "gallery" / name, target.read_bytes()
    finally:
        os.chdir(here)


def main() -> int:
    """Compare every picture, or write it."""
    stale = 0
    for file, content in drawn():
        if "--write" in sys.argv[1:]:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)
        elif not file.exists() or file.read_bytes() != content:
            stale = 1
            print(f"{file.relative_to(ROOT)} is out of date")
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
