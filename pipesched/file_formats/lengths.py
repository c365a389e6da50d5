"""Reading the lengths of documents: whole numbers in a text, in a JSON list, or in an array that NumPy wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.file_formats.files import MOST_BYTES
from pipesched.text.yaml_reader import decode

NPY = b"\x93NUMPY"  # what a file of one array begins with
WORD = re.compile(r"[^\s,]+")  # between blanks, commas and ends of lines
MOST_DIGITS = 18  # of a number that may be a length at all


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises ConfigError for one that cannot be read, or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read {shown(str(path), 300)}: {reason}") from None
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path} is larger than {MOST_BYTES:,} bytes")
    return data


def lengths_in(data: bytes, name: str) -> list[int]:
    """Return the lengths that a file holds; its content tells what it is, and `name` is for messages.

    Raises ConfigError for what is no list of whole numbers above 0, and for an empty one.
    """
    if data.startswith(NPY):
        lengths = _of_array(data, name)
    elif (text := decode(data, name, MOST_BYTES)).lstrip().startswith("["):
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{name} is no JSON list: {error}") from None
        lengths = [_length(value, f"{name}: entry {entry}") for entry, value in enumerate(values)]
    else:
        lengths = []
        for number, line in enumerate(text.splitlines(), 1):
            for word in WORD.findall(line):
                is_whole = word.isascii() and word.isdecimal() and len(word) <= MOST_DIGITS
                lengths.append(_length(int(word) if is_whole else word, f"{name}:{number}"))
    if not lengths:
        raise ConfigError(f"{name} holds no lengths of documents")
    return lengths


def _of_array(data: bytes, name: str) -> list[int]:
    """Return the numbers of an array; one of Python objects, which would be unpickled, is refused."""
    from io import BytesIO

    import numpy as np

    try:
        array: Any = np.load(BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, SyntaxError) as error:
        raise ConfigError(f"{name} is no array of whole numbers: {error}") from None
    if array.ndim != 1 or array.dtype.kind not in "iu":
        found = f"an array of {array.dtype} in {array.ndim}"
        raise ConfigError(f"{name} must hold whole numbers in one dimension, not {found}")
    return [_length(value, f"{name}: entry {entry}") for entry, value in enumerate(array.tolist())]


def _length(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{where}: must be a whole number of at least 1, not {shown(value)}")
    return value
