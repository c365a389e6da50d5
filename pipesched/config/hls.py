"""`load_hls`: a dataflow graph and its units from an expression or a file, a program, a graph in JSON, or YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.checks import require_name, shown
from pipesched.config.values import Source
from pipesched.errors import ConfigError
from pipesched.hls.graph import DataflowGraph, Dependence, Operation, SourcePosition, parse_program
from pipesched.hls.schedule import Units, make_units
from pipesched.text.yaml_reader import parse_yaml, read_text

KEYS = ("name", "source", "program", "ops", "edges", "units", "latency", "pipelined")
JSON, YAML = (".json",), (".yaml", ".yml")
FILE_NAME = re.compile(r"\.(txt|json|ya?ml)$")


class HlsTask(NamedTuple):
    """What `pipesched hls` schedules, and on what."""

    graph: DataflowGraph
    units: Units


def load_hls(
    source: str | Source,
    *,
    units: Mapping[str, int] = MappingProxyType({}),
    latency: Mapping[str, int] = MappingProxyType({}),
    pipelined: Sequence[str] = (),
    loop: bool = False,
) -> HlsTask:
    """Return the dataflow graph and the units of a program, a graph (JSON) or a YAML file.

    `source` is the name of a file, or else an expression. `units` (how many), `latency` (in cycles) and `pipelined` are
    by unit class, and replace what a file says of it. In a `loop`, a variable that is read before its assignment has
    its value of the previous iteration, and `x@2` is the value of x two iterations earlier. Raises ConfigError.
    """
    if isinstance(source, str):
        path = _file(source)
        source = Source(source.strip(), "expression") if path is None else Source(read_text(path), source)
    text, name, _ = source
    content = _content(text, name)
    for key in content:
        require_name(KEYS, key, f"key in {name}:")
    counts = {**_numbers(content, "units", name), **units}
    latencies = {**_numbers(content, "latency", name), **latency}
    classes = _list(content, "pipelined", name)
    if not all(isinstance(value, str) for value in classes):
        raise ConfigError(f"{name}: pipelined: must be a list of unit classes, not {shown(classes)}")
    graph = _graph(content, name, loop)
    try:
        return HlsTask(graph, make_units(counts, latencies, [*classes, *pipelined]))
    except ConfigError as error:
        parameter = {"counts": "units", "latencies": "latency"}.get(str(error.key), error.key)
        raise ConfigError(error.message, parameter) from None


def _file(source: str) -> Path | None:
    """Return the file of that name, None for an expression. Raises ConfigError for a name of a file that is missing."""
    path = Path(source or "-")
    try:
        if path.is_file():
            return path
        if path.is_dir():
            raise ConfigError(f"{source} is a directory; give a file or an expression")
    except (OSError, ValueError):  # too long for a file name, or a NUL
        return None
    if FILE_NAME.search(source):
        raise ConfigError(f"cannot read {source!r}: there is no such file")
    return None


def _content(text: str, name: str) -> dict[str, Any]:
    """Return the mapping in a file; a file that is neither JSON nor YAML is a program."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
            raise ConfigError(f"{name}: {twice!r} stands there twice")
        return dict(pairs)

    suffix = Path(name).suffix.lower()
    if suffix in YAML:
        content = parse_yaml(text, name).plain()
    elif suffix not in JSON:
        return {"program": text}
    else:
        try:
            content = json.loads(text, object_pairs_hook=once)
        except json.JSONDecodeError as error:
            line = text.split("\n")[error.lineno - 1]
            raise SourcePosition(name, error.lineno, error.colno - 1, line).error(error.msg) from None
        except (RecursionError, ValueError):  # the latter: numbers of thousands of digits
            raise ConfigError(f"{name}: no graph: nested too deeply, or a number of thousands of digits") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{name}: must be a mapping with `ops` and `edges`, or `program`, not {shown(content)}")
    return content


def _graph(content: Mapping[str, Any], name: str, loop: bool) -> DataflowGraph:
    """Return the graph of a program, or of `ops` and `edges`. Raises ConfigError."""
    if ("program" in content) == ("ops" in content):
        raise ConfigError(f"{name}: either `program` or `ops` (with `edges`) is needed")
    if "program" in content:
        if not isinstance(content["program"], str):
            raise ConfigError(f"{name}: `program` must be text, not {shown(content['program'])}")
        in_file = Path(name).suffix.lower() in {*JSON, *YAML}  # whose lines are not those of the program
        where = f"{name}: program" if in_file else name
        graph = parse_program(content["program"], where, loop=loop)
        return replace(graph, name=str(content.get("name") or name))
    operations = []
    for position, entry in enumerate(_list(content, "ops", name)):
        if not isinstance(entry, list) or len(entry) != 2 or not all(map(_is_word, entry)):
            raise ConfigError(f"{name}: ops[{position}]: must be [name, type], not {shown(entry)}")
        operations.append(Operation(str(entry[0]), str(entry[1])))
    numbers = {operation.name: number for number, operation in enumerate(operations)}
    if len(numbers) < len(operations):
        twice = next(op.name for number, op in enumerate(operations) if numbers[op.name] != number)
        raise ConfigError(f"{name}: ops: {twice!r} stands there twice")
    edges = [_dependence(entry, place, numbers, name) for place, entry in enumerate(_list(content, "edges", name))]
    graph = DataflowGraph(tuple(operations), tuple(dict.fromkeys(edges)), str(content.get("name") or name))
    if graph.is_loop and not loop:
        raise ConfigError(f"{name}: edges with a distance make a loop; schedule it as one (`pipeline`)")
    return graph


def _dependence(entry: Any, position: int, numbers: Mapping[str, int], name: str) -> Dependence:
    """Return an edge [from, to] or [from, to, iterations], by numbers of operations. Raises ConfigError."""
    distance = entry[2] if isinstance(entry, list) and len(entry) == 3 else 0
    is_whole = isinstance(distance, int) and not isinstance(distance, bool) and 0 <= distance <= 1_000
    if not isinstance(entry, list) or len(entry) not in {2, 3} or not is_whole or not all(map(_is_word, entry[:2])):
        forms = "[from, to], or [from, to, iterations] in a loop"
        raise ConfigError(f"{name}: edges[{position}]: must be {forms}, not {shown(entry)}")
    for part in map(str, entry[:2]):
        if part not in numbers:
            near = get_close_matches(part, numbers, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{name}: edges[{position}]: there is no operation {part!r}{hint}")
    return Dependence(numbers[str(entry[0])], numbers[str(entry[1])], distance)


def _is_word(value: Any) -> bool:
    """Return whether a value is a name: text, or a whole number in its stead."""
    return (isinstance(value, str) and bool(value)) or (isinstance(value, int) and not isinstance(value, bool))


def _list(content: Mapping[str, Any], key: str, name: str) -> list[Any]:
    value = content.get(key) or []
    if not isinstance(value, list):
        raise ConfigError(f"{name}: {key}: must be a list, not {shown(value)}")
    return value


def _numbers(content: Mapping[str, Any], key: str, name: str) -> dict[str, int]:
    values = content.get(key) or {}
    if not isinstance(values, dict) or not all(type(value) is int for value in values.values()):
        form = "whole numbers by unit class, such as {mul: 1}"
        raise ConfigError(f"{name}: {key}: must be {form}, not {shown(values)}")
    return {str(class_name).casefold(): value for class_name, value in values.items()}
