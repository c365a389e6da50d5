"""Reading text files and streams: UTF-8 of at most so many bytes."""

from __future__ import annotations

from pathlib import Path

from pipesched.checks import shown
from pipesched.errors import ConfigError

MOST_BYTES = 1_000_000  # of a config
LONGEST = 300  # letters of a name in a message


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a file. Raises ConfigError for one that cannot be read, is no text, or is too large."""
    try:
        if path.is_dir():
            raise ConfigError(f"{path} is a directory, not a file")
        with path.open("rb") as file:
            return decode(file.read(most + 1), str(path), most)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read {shown(str(path), LONGEST)}: {reason}") from None


def decode(data: bytes, name: str, most: int = MOST_BYTES) -> str:
    """Decode at most `most` bytes of UTF-8, without a byte order mark; `name` is for messages. Raises ConfigError."""
    if len(data) > most:
        raise ConfigError(f"{name} is larger than {most:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{name} is no text file (UTF-8 is expected)") from None
    if "\0" in text:
        raise ConfigError(f"{name} is a binary file, not text")
    return text
