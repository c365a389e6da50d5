"""The one writer of configs: keys, sections, numbers, lists and remarks; and starters, which are filled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pipesched.pipeline.quantities import Exact, to_fraction

PLAIN = re.compile(r"[A-Za-z][\w ./-]*[\w]", re.ASCII)  # a text that YAML takes for one
ENTRY = re.compile(r"(?P<before>(?P<indent> *)(?:# )?(?P<key>\w+): *)(?P<value>[^#]*?)(?P<gap> *)(?P<remark>#.*)?")
DUMP_WIDTH = 110


class ConfigWriter:
    """A config in the making.

    Lines of more than `width` letters are cut behind commas, if a width is given.
    """

    def __init__(self, width: int = 0) -> None:
        self._lines: list[str] = []
        self._width = width
        self._indent = ""

    @property
    def text(self) -> str:
        """The config so far."""
        return "\n".join(self._lines) + "\n"

    def remark(self, *texts: str) -> None:
        """Write comments, a line each."""
        self._lines += [f"{self._indent}# {text}" for text in texts]

    def gap(self) -> None:
        """Write an empty line."""
        self._lines.append("")

    @contextmanager
    def section(self, key: str) -> Iterator[None]:
        """Write what follows, to the end of the scope, into a section."""
        self._lines.append(f"{key}:")
        self._indent = "  "
        yield
        self._indent = ""

    def put(self, key: str, value: object, remark: str = "", *, off: bool = False) -> None:
        """Write a key with the text of its value and a comment behind it; `off` makes the whole line a comment."""
        line = f"{self._indent}{'# ' if off else ''}{key}: {value}" + (f"  # {remark}" if remark else "")
        self._lines += _cut(line, self._width) if self._width else [line]


def quoted(text: str) -> str:
    """Return a text in quotes."""
    return json.dumps(text, ensure_ascii=False)


def spelled(text: str) -> str:
    """Return a text as it can stand in a config: in quotes where it needs them."""
    return text if PLAIN.fullmatch(text) else quoted(text)


def flow(value: object) -> str:
    """Return a value on one line, as JSON writes it: that is YAML too."""
    return json.dumps(value, default=list)


def trimmed(value: Exact, places: int) -> str:
    """Return a number with at most so many decimals."""
    text = f"{float(round(to_fraction(value), places)):.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def one_or_list(texts: Sequence[str]) -> str:
    """Return numbers as the value of a key: one where all are equal, else a list."""
    return texts[0] if len({*texts}) == 1 else in_list(texts)


def in_list(texts: Iterable[str]) -> str:
    """Return texts as a list."""
    return f"[{', '.join(texts)}]"


def dump(content: Mapping[str, Any]) -> str:
    """Return a config of plain values without remarks, a line a section."""
    import yaml

    text = yaml.safe_dump(dict(content), sort_keys=False, default_flow_style=None, width=DUMP_WIDTH, allow_unicode=True)
    return str(text)


def fill(starter: str, values: Mapping[str, object], remarks: Mapping[str, str]) -> str:
    """Return a starter with other values of keys ("parallel.tensor"), also of those that are commented out.

    Remarks keep their column; `{name}` in one is replaced by that of `remarks`.
    """
    lines, section = [], ""
    for line in starter.splitlines():
        entry = ENTRY.fullmatch(line)
        if entry and not entry["value"] and not entry["indent"]:
            section = f"{entry['key']}."
        key = f"{section if entry['indent'] else ''}{entry['key']}" if entry else ""
        if entry and key in values:
            room = len(entry["value"] + entry["gap"]) if entry["remark"] else 0
            lines.append(f"{entry['before']}{values[key]!s:<{room}}{entry['remark'] or ''}")
        else:
            lines.append(line)
    text = "\n".join(lines) + "\n"
    for name, remark in remarks.items():
        text = text.replace(f"{{{name}}}", remark)
    return text


def _cut(line: str, width: int) -> list[str]:
    """Return a line of a list, cut behind commas."""
    lines = []
    while len(line) > width:
        cut = line.rfind(", ", 0, width) + 1
        if cut <= 0:
            break
        lines.append(line[:cut])
        line = "    " + line[cut:].lstrip()
    return [*lines, line]
