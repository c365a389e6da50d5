"""The one writer of configs, `ConfigWriter`: keys, sections, numbers, remarks; `dump` writes a mapping whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pipesched.pipeline.problem.quantities import (
    LEAST_WRITTEN,
    MOST_DIGITS,
    Number,
    canonical,
    plain,
    rounded,
    to_fraction,
)

PLAIN = re.compile(r"[A-Za-z][\w ./-]*[\w]", re.ASCII)  # a text that YAML takes for one
DUMP_WIDTH = 110
Numbers = tuple[Number, ...]


class ConfigText(str):
    """The text of a config; `note` says which of its numbers were rounded, "" where none was."""

    note: str

    def __new__(cls, text: str, note: str = "") -> ConfigText:
        made = super().__new__(cls, f"# {note}\n{text}" if note else text)
        made.note = note
        return made


class Decimals:
    """Numbers as decimals of as many digits as a config may have, rounded half up, and which of them were rounded."""

    def __init__(self) -> None:
        self._rounded: list[str] = []

    def of(self, value: Number, place: str) -> Fraction:
        """Return a number as it is written at a place (`costs.forward[2]`); one that is too small is 0."""
        given = to_fraction(value)
        written = rounded(given) if abs(given) >= LEAST_WRITTEN else Fraction(0)
        if written != given:
            self._rounded.append(place)
        return written

    @property
    def note(self) -> str:
        """Which numbers were rounded, for people: the first of them, and how many more."""
        if not self._rounded:
            return ""
        more = len(self._rounded) - 1
        others = f", and {more} more number{'s' * (more > 1)}" if more else ""
        return f"rounded to {MOST_DIGITS} digits: {self._rounded[0]}{others}"


class ConfigWriter:
    """A config in the making. Lines of more than `width` letters, if it is given, are cut behind commas."""

    def __init__(self, width: int = 0) -> None:
        self._lines: list[str] = []
        self._width = width
        self._section = ""
        self._decimals = Decimals()

    @property
    def text(self) -> ConfigText:
        return ConfigText("\n".join(self._lines) + "\n", self._decimals.note)

    @property
    def _indent(self) -> str:
        return "  " if self._section else ""

    def remark(self, *texts: str) -> None:
        self._lines += [f"{self._indent}# {text}" for text in texts]

    def gap(self) -> None:
        self._lines.append("")

    @contextmanager
    def section(self, key: str) -> Iterator[None]:
        self._lines.append(f"{key}:")
        self._section = f"{key}."
        yield
        self._section = ""

    def put(self, key: str, value: object, remark: str = "", *, off: bool = False) -> None:
        """Write a key with the text of its value and a comment behind it; `off` makes the whole line a comment."""
        line = f"{self._indent}{'# ' if off else ''}{key}: {value}" + (f"  # {remark}" if remark else "")
        while self._width and len(line) > self._width and (cut := line.rfind(", ", 0, self._width) + 1) > 0:
            self._lines.append(line[:cut])
            line = "    " + line[cut:].lstrip()
        self._lines.append(line)

    def numbers(
        self, key: str, values: Sequence[Number | Numbers], remark: str = "", *, off: bool = False, listed: bool = False
    ) -> None:
        """Write a key with its numbers as `put` does: one where all are equal, unless they are to be `listed`.

        An entry that is a tuple is a list of its own.
        """
        is_one = len({*values}) == 1 and not listed and not isinstance(values[0], tuple)
        name = f"{self._section}{key}"
        places = [name] if is_one else [f"{name}[{entry}]" for entry in range(len(values))]
        texts = [self._entry(value, place) for value, place in zip(values, places, strict=False)]
        self.put(key, texts[0] if is_one else in_list(texts), remark, off=off)

    def _entry(self, value: Number | Numbers, place: str) -> str:
        if not isinstance(value, tuple):
            return decimal_text(self._decimals.of(value, place))
        return in_list([decimal_text(self._decimals.of(one, f"{place}[{at}]")) for at, one in enumerate(value)])


def quoted(text: str) -> str:
    """Return a text in quotes."""
    return json.dumps(text, ensure_ascii=False)


def spelled(text: str) -> str:
    """Return a text as it can stand in a config: in quotes where it needs them."""
    return text if PLAIN.fullmatch(text) else quoted(text)


def flow(value: object) -> str:
    """Return a value on one line, as JSON writes it: that is YAML too."""
    return json.dumps(value, default=list)


def decimal_text(number: Fraction) -> str:
    """Return a decimal without an exponent."""
    text = f"{Decimal(number.numerator) / Decimal(number.denominator):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def in_list(texts: Iterable[str]) -> str:
    """Return texts as a list."""
    return f"[{', '.join(texts)}]"


def dump(content: Mapping[str, Any], *heading: str) -> ConfigText:
    """Return a config of plain values with a heading of comments, a line a section."""
    import yaml

    decimals = Decimals()
    plain_content = {key: _plain(value, key, decimals) for key, value in content.items()}
    text = yaml.safe_dump(plain_content, sort_keys=False, default_flow_style=None, width=DUMP_WIDTH, allow_unicode=True)
    return ConfigText("".join(f"# {line}\n" for line in heading) + str(text), decimals.note)


def _plain(value: Any, place: str, decimals: Decimals) -> Any:
    """Return a value of plain Python for YAML; `place` is its dotted key."""
    if isinstance(value, Mapping):
        return {key: _plain(entry, f"{place}.{key}", decimals) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry, f"{place}[{number}]", decimals) for number, entry in enumerate(value)]
    if value is None or isinstance(value, (bool, str)):
        return value
    return value if isinstance(value, int) else plain(canonical(decimals.of(value, place)))
