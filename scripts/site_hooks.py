"""Hooks of MkDocs: pages read well on the forge and on the site, which also holds a live page of the default model.

Links to files outside docs/ lead to the repository, and CONTRIBUTING.md, which the forge wants at the top, is a page.
The live page is made from the schedules themselves when the site is built, so it is never out of date.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

import pipesched

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+)(?=[)#])")
ALGORITHMS = ("1f1b", "interleaved", "zb-v")
PLACE = "live/default.html"


def on_files(files: Any, config: Any) -> Any:
    """Add the page that stands at the top of the repository."""
    from mkdocs.structure.files import File

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "contributing.md", content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Replace relative links that leave docs/ by links to the repository."""
    folder = PurePosixPath("docs") / PurePosixPath(page.file.src_uri).parent

    def outside(match: re.Match[str]) -> str:
        target = normpath(str(folder / match[1]))
        if target == "CONTRIBUTING.md":
            return "../" * (len(folder.parts) - 1) + "contributing.md"
        if target.startswith("docs/"):
            return match[1]
        return f"{config.repo_url.rstrip('/')}/blob/main/{target}"

    return LINK.sub(outside, markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Write the page into the site."""
    path = Path(config.site_dir) / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    pipesched.write(pipesched.compare(pipesched.load(), ALGORITHMS), path, force=True)
