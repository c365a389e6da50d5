"""Reading YAML as data, by `parse_yaml`: text, numbers, lists and mappings, each a `Value` with its line.

No tags, no duplicate keys, a limit on size and depth, and aliases that multiply are refused. Numbers are exact
decimals; a plain word that is no number, true, false or null is text.
"""

from __future__ import annotations

import re
from os.path import isdir
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pipesched.checks import cut, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.quantities import OutOfLimits, parse_number

MOST_VALUES = 200_000  # after aliases are followed
MOST_DEPTH = 8

Tree = dict[str, "Value"]


class Value(NamedTuple):
    """A value with its line, from 1; `data` is a Tree, a list of Values, Decimal, int, bool, str or None."""

    data: Any
    line: int

    def plain(self) -> Any:
        if isinstance(self.data, dict):
            return {key: value.plain() for key, value in self.data.items()}
        if isinstance(self.data, list):
            return [value.plain() for value in self.data]
        return self.data


def parse_yaml(text: str, name: str) -> Value:
    """Return the only document in `text`. Raises ConfigError with `name` and the line."""
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        raise ConfigError(f"{name}: the character #x{error.character:04x} is not allowed in YAML") from None
    try:
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        what = error.problem or error.context
        if what == "but found another document":
            what = "one document is expected; another starts here"
        raise ConfigError(f"{where}: {what}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: absurd escapes and version numbers
        raise ConfigError(f"{name}:{loader.line + 1}: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    finally:
        loader.dispose()
    if node is None:
        raise ConfigError(f"{name} is empty; a config needs at least `devices: 4`")
    return _Builder(name).build(node, 0)


class _Loader(yaml.SafeLoader):
    """Composes nodes only, refusing tags, and knows numbers, booleans and null."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  PyYAML's own interface

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(problem=f"tags are not allowed ({event.tag})", problem_mark=event.start_mark)
        return super().compose_node(parent, index)


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:[Tt]rue|TRUE|[Ff]alse|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"(?:[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+.0123456789"),
)

_DIGITS = re.compile(r"[0-9]+[a-zA-Zµ]*", re.ASCII)


class _Builder:
    """Turns nodes into Values, and counts them, so that aliases of aliases cannot grow without limit."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def build(self, node: Any, depth: int, key: str = "") -> Value:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > MOST_VALUES:
            raise ConfigError(f"{self.name}: more than {MOST_VALUES:,} values once aliases are followed")
        if depth > MOST_DEPTH:
            raise ConfigError(f"{self.name}:{line}: nested more than {MOST_DEPTH} levels deep")
        if isinstance(node, yaml.MappingNode):
            return Value(self._mapping(node, depth, key), line)
        if isinstance(node, yaml.SequenceNode):
            return Value([self.build(child, depth + 1, key) for child in node.value], line)
        kind = node.tag.rpartition(":")[2]
        if kind != "float":
            known = {"null": None, "bool": node.value.lower() == "true"}
            return Value(known.get(kind, str(node.value)), line)
        place = f"{line}: {key}" if key else str(line)
        try:
            number = parse_number(node.value.replace("_", ""))
        except OutOfLimits as error:
            raise ConfigError(f"{self.name}:{place}: {cut(node.value)} {error}") from None
        except ValueError:
            raise ConfigError(f"{self.name}:{place}: {node.value} is no finite number") from None
        is_short = -20 < number.adjusted() < 20 and number == number.to_integral_value()
        return Value(int(number) if is_short else number, line)

    def _mapping(self, node: Any, depth: int, key: str) -> Tree:
        tree: Tree = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{self.name}:{line}: a key must be a word")
            if key_node.value in tree:
                first = tree[key_node.value].line
                raise ConfigError(f"{self.name}:{line}: {key_node.value!r} stands here and on line {first}; keep one")
            if tree and value_node.start_mark.index == key_node.end_mark.index and _DIGITS.fullmatch(key_node.value):
                *_, (name, before) = tree.items()  # `{forward: 3,5}` has a key without a colon
                written = f"{before.data},{key_node.value}' (a decimal has a point, not a comma)"
                raise ConfigError(f"{self.name}:{line}: {key}.{name}: must be a number, not '{written}")
            entry = self.build(value_node, depth + 1, f"{key}.{key_node.value}" if key else key_node.value)
            tree[key_node.value] = entry._replace(line=line)
        return tree


MOST_BYTES = 1_000_000  # of a config
LONGEST = 300  # letters of a name in a message


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a file. Raises ConfigError for one that cannot be read, is no text, or is too large."""
    if isdir(path):  # noqa: PTH112  Path.is_dir raises for a name that is too long
        raise ConfigError(f"{path} is a directory, not a file")
    return decode(read_bytes(path, most), str(path), most)


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file. Raises ConfigError for one that cannot be read, or is larger than `most` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read {shown(str(path), LONGEST)}: {reason}") from None
    if len(data) > most:
        raise ConfigError(f"{path} is larger than {most:,} bytes")
    return data


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
