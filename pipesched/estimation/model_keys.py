"""The keys of a config.json, some under other names, each checked as it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipesched.checks import require_flag, require_name, require_number, require_whole
from pipesched.errors import ConfigError

MOST = 10_000_000  # of a width, or the size of a vocabulary
MOST_LAYERS = 10_000


class ModelKeys:
    """The keys of a config.json. `renamed` says what a model type calls them. A key that is null is not there."""

    def __init__(self, content: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
        self._content, self._renamed = content, renamed

    def name(self, key: str) -> str:
        """Return what the config calls a key."""
        other = self._renamed.get(key, key)
        return key if key in self._content else other

    def plain(self, key: str) -> Any:
        """Return the value of a key, None where it is not there."""
        return self._content.get(self.name(key))

    def has(self, key: str) -> bool:
        """Return whether a key is given."""
        return self.plain(key) is not None

    def error(self, key: str, message: str) -> ConfigError:
        """Return an error about a key."""
        return ConfigError(message, f"model.{self.name(key)}")

    def whole(self, key: str, default: int | None = None, least: int = 1, most: int = MOST) -> int:
        """Return a whole number; without a default the key must be there. Raises ConfigError."""
        value = self.plain(key)
        value = default if value is None else value
        if value is None:
            raise self.error(key, "is missing")
        return require_whole(value, f"model.{self.name(key)}", least, most)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.plain(key)
        return default if value is None else require_flag(value, f"model.{self.name(key)}")

    def share(self, key: str) -> float:
        """Return a number from 0 to 1, by default 0."""
        value = self.plain(key)
        return 0.0 if value is None else require_number(value, f"model.{self.name(key)}", 0, 1)

    def word(self, key: str, names: Sequence[str], default: str) -> str:
        """Return one of `names`."""
        value = self.plain(key)
        return default if value is None else require_name(names, value, key, f"model.{key}")
