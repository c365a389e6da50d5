"""Hooks of MkDocs: pages read well on the forge and on the site, which also holds a live page of the default model.

Links to files outside docs/ lead to the repository, and CONTRIBUTING.md, which the forge wants at the top, is a page.
The live page is made from the schedules themselves when the site is built, so it is never out of date. Members of
classes that are no functions have no docstring below them: `Members` tells Griffe, which reads the package, their text.
"""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from posixpath import normpath
from pydoc import locate
from typing import Any

from griffe import Docstring, Extension

import pipesched

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+)(?=[)#])")
ALGORITHMS = ("1f1b", "interleaved", "zb-v")
PLACE = "live/default.html"
A_CLASS = re.compile(r'id="pipesched\.((?:hls\.)?[A-Z]\w*)"')


class Members(Extension):  # type: ignore[misc, unused-ignore]  # without the extra it is Any
    """Takes the text of a member of a class from its call of `Together`, or from the comment behind a field."""

    def on_attribute_instance(self, *, node: Any, attr: Any, **_: Any) -> None:
        """Give such a member its docstring, and the type of what is `Together`."""
        call, line = getattr(node, "value", None), attr.lines_collection[attr.filepath][node.end_lineno - 1]
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("Together["):
            attr.docstring = Docstring(ast.literal_eval(call.args[1]), parent=attr)
            attr.annotation, attr.value, attr.labels = attr.value.function.slice, None, {"cached-property"}
        elif attr.parent.is_class and (text := line.partition("  # ")[2].removesuffix("  # fmt: skip")):
            attr.docstring = Docstring(f"{text[:1].upper()}{text[1:]}.", parent=attr)


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


def on_page_content(html: str, page: Any, **_: Any) -> None:
    """Warn, which fails a strict build, of members of classes that a page leaves out, as they lack a text."""
    for name in A_CLASS.findall(html):
        for member in _members(locate(f"pipesched.{name}")):
            if f'id="pipesched.{name}.{member}"' not in html:
                logging.getLogger("mkdocs.hooks").warning("%s: %s.%s has no text", page.file.src_uri, name, member)


def _members(one: Any) -> Iterator[str]:
    """Yield the public properties of a class, and the fields that it sets itself."""
    yield from (field.name for field in (fields(one) if is_dataclass(one) else ()) if not field.init)
    for base in one.__mro__:
        properties = (name for name, value in vars(base).items() if isinstance(value, property | cached_property))
        yield from (name for name in properties if not name.startswith("_"))


def on_post_build(config: Any, **_: Any) -> None:
    """Write the page into the site."""
    path = Path(config.site_dir) / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    pipesched.write(pipesched.compare(pipesched.load(), ALGORITHMS), path, force=True)
