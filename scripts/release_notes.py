"""Write the notes of this version: its section of CHANGELOG.md. Print the version.

    python scripts/release_notes.py FILE

It fails unless the package, CITATION.cff and the top of CHANGELOG.md name the same version.
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEADING = re.compile(r"^## (\S+) \(.+\)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?=docs/)")  # the notes are read away from the repository
CITED = re.compile(r"^version: (\S+)$", re.MULTILINE)


def release_notes(version: str, changelog: str, citation: str) -> str:
    """Return the section of a version; ValueError where a file is about another one."""
    newest, cited = HEADING.search(changelog), CITED.search(citation)
    for file, found in {"CHANGELOG.md": newest, "CITATION.cff": cited}.items():
        if found is None or found[1] != version:
            raise ValueError(f"{file} is about {found[1] if found else 'no version'}, the package about {version}")
    assert newest is not None
    older = HEADING.search(changelog, newest.end())
    notes = changelog[newest.end() : older.start() if older else None].strip()
    if not notes:
        raise ValueError(f"CHANGELOG.md says nothing of {version}")
    notes = LINK.sub(f"https://github.com/pipesched/pipesched/blob/v{version}/", notes)
    return f"# pipesched {version}\n\n{notes}\n".replace("\n### ", "\n## ")


def main(target: str) -> int:
    """Write the notes; 1 where the files disagree."""
    version = runpy.run_path(str(ROOT / "pipesched" / "version.py"))["__version__"]
    texts = ((ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff"))
    try:
        notes = release_notes(version, *texts)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    Path(target).write_text(notes, encoding="utf-8")
    print(version)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
