"""Reading large JSON files piece by piece: one entry at a time is in memory, not the file."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from pipesched.checks import shown
from pipesched.errors import ConfigError

MOST = 4_000_000_000  # letters of a trace: those of long runs are large
GZIP = b"\x1f\x8b"
PART = 1 << 20  # letters that are read at a time
_DECODER = json.JSONDecoder(parse_float=str, strict=False)


def opened(path: Path) -> IO[bytes]:
    """Return an open file of bytes, unpacked. Raises OSError."""
    with path.open("rb") as file:
        is_packed = file.read(len(GZIP)) == GZIP
    return cast("IO[bytes]", gzip.open(path)) if is_packed else path.open("rb")


def entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys of the objects in a file, each with its value; of a list each entry, of an empty one the list.

    Objects may follow each other, as in JSON lines. Decimals stay texts. Raises ConfigError for what is no JSON.
    """
    name = shown(str(path), 300)
    try:
        with io.TextIOWrapper(opened(path), encoding="utf-8-sig") as file:
            yield from _Parts(file).objects()
    except UnicodeDecodeError:
        raise ConfigError(f"{name} is no text file (UTF-8 is expected)") from None
    except (OSError, EOFError) as error:
        raise ConfigError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is no JSON document: {error}") from None


class _Parts:
    """The letters of a file from `at` on, as far as they were read."""

    def __init__(self, file: io.TextIOBase) -> None:
        self.file, self.text, self.at, self.size = file, "", 0, 0

    def objects(self) -> Iterator[tuple[str, Any]]:
        while self.next() or not self.size:
            if self.next() != "{":
                self.value()  # raises for what is no JSON
                return
            self.at += 1
            while self.next() != "}":
                key = self.value()
                if not isinstance(key, str) or self.next() != ":":
                    raise ValueError(f"expecting a key and a colon, not {shown(self.next())}")
                self.at += 1
                if self.next() != "[":
                    yield key, self.value()
                else:
                    self.at += 1
                    if self.next() == "]":
                        yield key, []
                    while self.next() != "]":
                        yield key, self.value()
                        self._comma("]")
                    self.at += 1
                self._comma("}")
            self.at += 1

    def _comma(self, last: str) -> None:
        if self.next() == ",":
            self.at += 1
        elif self.next() != last:
            raise ValueError(f"expecting a comma or {last}, not {shown(self.next())}")

    def next(self) -> str:
        """Return the next letter that is no space; nothing at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
                self.at += 1
            if self.at < len(self.text) or not self._more(PART):
                return self.text[self.at : self.at + 1]

    def _more(self, count: int) -> bool:
        more = self.file.read(count)
        self.size += len(more)
        if self.size > MOST:
            raise ValueError(f"it has more than {MOST:,} letters")
        self.text, self.at = self.text[self.at :] + more, 0
        return bool(more)

    def value(self) -> Any:
        """Return the next value. Raises ValueError for what is no JSON."""
        while True:
            self.next()
            try:
                found, end = _DECODER.raw_decode(self.text, self.at)
                if end < len(self.text):  # else a number may go on
                    self.at = end
                    return found
            except json.JSONDecodeError:
                if not self._more(max(PART, len(self.text))):
                    raise
                continue
            if not self._more(PART):
                self.at = len(self.text)
                return found
