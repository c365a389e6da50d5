"""The files in `page/`, as they stand in a page: the program line by line, without comments and spaces between words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

ENGINE = ("unpack", "graph", "timing", "moves", "memory", "reasons", "document")  # needs no browser
VIEW = ("state", "scene", "draw", "overlay", "panels", "link", "input", "api", "start")
LITERAL = re.compile(
    r"""//[^\n]*  # a comment, which is no literal, and goes
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
    | (?<=[(,=:?&|!])\x20?/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/  # a regular expression
    | `""",
    re.VERBOSE,
)
SPACES = re.compile(r" *([{}()\[\];,=<>?:&|*/%!^~]) *|(?<![+-]) ([+-]) (?![+-])")


@cache
def asset(name: str) -> str:
    """Return a file of the page."""
    return (files("pipesched.render.html") / "page" / name).read_text(encoding="utf-8")


@cache
def program(names: Sequence[str] = (*ENGINE, *VIEW)) -> str:
    """Return these parts of the program, one after the other."""
    return "".join(compact(asset(f"{name}.js")) for name in names)


def compact(script: str) -> str:
    """Return a script without comments, indentation, empty lines, and spaces beside brackets and operators.

    Texts, templates and regular expressions stay as they are, and so do the ends of lines. It knows as much of the
    language as `page/` uses: a regular expression stands behind a bracket, a comma or an operator.
    """
    parts, at = [], 0
    while found := LITERAL.search(script, at):
        parts.append(SPACES.sub(r"\1\2", script[at : found.start()]))
        at = found.end() if found[0] != "`" else _end_of_template(script, found.end())
        if not found[0].startswith("//"):
            parts.append(script[found.start() : at].lstrip())
    parts.append(SPACES.sub(r"\1\2", script[at:]))
    return re.sub(r"\s*\n\s*", "\n", "".join(parts)).lstrip()


def _end_of_template(script: str, at: int) -> int:
    """Return where a template ends whose text begins at a position; expressions in it may hold further templates."""
    depth = 0  # of braces
    while depth or script[at] != "`":
        if script[at] == "\\":
            at += 1
        elif script[at] == "{" and (depth or script[at - 1] == "$"):
            depth += 1
        elif script[at] == "}" and depth:
            depth -= 1
        elif script[at] == "`":
            at = _end_of_template(script, at + 1) - 1
        at += 1
    return at + 1
