"""`x@2` in a program, the value of x two iterations earlier: rewritten as a name of as many letters.

To Python `@` is an operator of the rank of `*`, so that `c*x@1` would be `(c*x)@1`. So `x@1` becomes `x_1` before the
parser sees it, and its position says what it stands for: `x_1` elsewhere is a name of its own.
"""

from __future__ import annotations

import re
from keyword import iskeyword
from typing import NamedTuple

MOST_ITERATIONS = 1_000  # that a value may be old
EARLIER = re.compile(r"(?<![\w.])([^\W\d]\w*)([ \t]*@[ \t]*([0-9]{1,9}))(?![\w.])")
Position = tuple[int, int]  # the line (from 1) and the column in bytes (from 0), as nodes of Python's parser have them


class WrittenDelay(NamedTuple):
    """What stands behind a name: that it is `distance` iterations back, in so many letters."""

    distance: int
    letters: int


def rewrite(lines: list[str]) -> tuple[str, dict[Position, WrittenDelay]]:
    """Return the text of a program for Python's parser, and where in it a name is that of an earlier iteration."""
    found: dict[Position, WrittenDelay] = {}
    rewritten = []
    for number, line in enumerate(lines, 1):
        parts, done = [], 0
        for match in EARLIER.finditer(line):
            name, suffix, digits = match.groups()
            if iskeyword(name):
                continue
            found[number, len(line[: match.start()].encode())] = WrittenDelay(int(digits), len(suffix))
            parts += [line[done : match.end(1)], "_" * (len(suffix) - len(digits)), digits]
            done = match.end()
        rewritten.append("".join([*parts, line[done:]]))
    return "\n".join(rewritten), found
