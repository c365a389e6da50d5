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

GZIP = b"\x1f\x8b"
PART = 1 << 20  # letters that are read at a time
_DECODER = json.JSONDecoder(parse_float=str, strict=False)


def opened(path: Path) -> IO[bytes]:
    """Return an open file of bytes, unpacked. Raises OSError."""
    with path.open("rb") as file:
        is_packed = file.read(len(GZIP)) == GZIP
    return cast("IO[bytes]", gzip.open(path)) if is_packed else path.open("rb")


def entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys of the objects in a file, each with its value; with a list first None, then each of its entries.

    Objects may follow each other, as in JSON lines. Decimals stay texts. Raises ConfigError for what is no JSON.
    """
    try:
        with io.TextIOWrapper(opened(path), encoding="utf-8-sig") as file:
            letters = _Letters(file)
            while letters.step():
                for _ in letters.items("{}"):
                    key = str(letters.value())
                    letters.step(":")
                    if letters.step() == "[":
                        yield key, None
                        yield from ((key, letters.value()) for _ in letters.items("[]"))
                    else:
                        yield key, letters.value()
    except (OSError, EOFError) as error:
        raise ConfigError(f"cannot read {shown(str(path), 300)}: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shown(str(path), 300)} is no JSON document: {error}") from None


class _Letters:
    """The letters of a file from `at` on, as far as they were read."""

    def __init__(self, file: io.TextIOBase) -> None:
        self.file, self.text, self.at = file, "", 0

    def items(self, ends: str) -> Iterator[None]:
        """Stand before each item of an object or a list."""
        self.step(ends[0])
        while self.step() != ends[1]:
            yield
            if self.step() != ends[1]:
                self.step(",")
        self.step(ends[1])

    def step(self, wanted: str = "") -> str:
        """Return the next letter that is no space, nothing at the end; go behind it where it is the one `wanted`."""
        while (self.at < len(self.text) or self.more()) and self.text[self.at] in " \t\r\n":
            self.at += 1
        found = self.text[self.at : self.at + 1]
        if wanted not in ("", found):
            raise ValueError(f"expecting {wanted}, not {shown(found)}")
        self.at += len(wanted)
        return found

    def more(self) -> bool:
        """Read as many letters as there are already, at least a part; return whether there were any."""
        read = self.file.read(max(PART, len(self.text) - self.at))
        self.text, self.at = self.text[self.at :] + read, 0
        return bool(read)

    def value(self) -> Any:
        while True:
            self.step()
            try:
                found, end = _DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError:
                if not self.more():
                    raise
                continue
            if end < len(self.text) or not self.more():  # else a number may go on
                self.at = min(end, len(self.text))
                return found
