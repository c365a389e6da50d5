"""From a config file and overrides to a Problem."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.config.fields import (
    ALGORITHM,
    BY_KEY,
    FIELDS,
    LANES,
    OPTIONS,
    PLACEMENT,
    SECTIONS,
    TEXT,
    Field,
    keys_of,
)
from pipesched.errors import ConfigError
from pipesched.pipeline.problem import Problem, make_problem
from pipesched.pipeline.quantities import parse_number

if TYPE_CHECKING:
    from pipesched.config.algorithm import Algorithm

TWO_A_DEVICE = object()  # the built-in default's stages, until the devices are known


class Given(NamedTuple):
    """A value that a user gave, and where: `file:line: key` or an option."""

    value: Any
    where: str


def load_problem(path: str | None = None, overrides: Mapping[str, str] = {}) -> Problem:
    """The problem of a config file ("-" reads standard input; None is the built-in default) with options on top.

    `overrides` maps options such as `--forward` to their text; lists are written `1,1,2,1`. Raises ConfigError.
    """
    return load_config(path, overrides)[0]


def load_config(path: str | None, overrides: Mapping[str, str]) -> tuple[Problem, Algorithm | None]:
    """The problem, as of `load_problem`, and the algorithm that the file asks for, if any. Raises ConfigError."""
    values = load_values(path, overrides)
    return problem_of(values), _algorithm_of(values)


def load_values(path: str | None, overrides: Mapping[str, str]) -> dict[str, Given]:
    """What a config file or the built-in default gives, with options on top."""
    values = default_values() if path is None else read_config(path)
    override(values, overrides)
    return values


def default_values() -> dict[str, Given]:
    """The built-in default: Autopipe's case, 4 devices with two stages each. Stages follow the devices."""
    numbers = {"devices": 4, "microbatches": 8, "forward": 5, "backward": 10}
    values = {name: Given(value, "the built-in default") for name, value in numbers.items()}
    return {**values, "stages": Given(TWO_A_DEVICE, "stages (two for each of --devices)")}


def read_config(path: str) -> dict[str, Given]:
    """The values of a config file by the parameter of make_problem that they set. Raises ConfigError."""
    from pipesched.config.yaml_reader import MOST_BYTES, decode, parse_yaml, read_text

    if path == "-":
        name, text = "<stdin>", decode(read_stdin(MOST_BYTES + 1), "<stdin>")
    else:
        name, text = path, read_text(Path(path))
    root = parse_yaml(text, name)
    values = {field.name: Given(value, where) for field, value, where in _fields(root, name)}
    if "devices" not in values:
        raise ConfigError(f"{name}: `devices` is missing; a config needs at least `devices: 4`")
    return values


def read_stdin(most: int) -> bytes:
    """At most so many bytes of standard input. Raises ConfigError when it is closed."""
    if sys.stdin is None:
        raise ConfigError("standard input is closed")
    return sys.stdin.buffer.read(most)


def _fields(root: Any, name: str, section: str = "") -> Iterator[tuple[Field, Any, str]]:
    """Each value of the file with its field. Unknown keys are errors."""
    if not isinstance(root.data, dict):
        what = f"`{section}`" if section else "a config"
        raise ConfigError(f"{name}:{root.line}: {what} must hold `key: value` lines, not {root.plain()!r}")
    for key, value in root.data.items():
        full = f"{section}.{key}" if section else key
        if not section and key in SECTIONS:
            if value.data is not None:
                yield from _fields(value, name, key)
        elif full in BY_KEY:
            if value.data is not None:
                yield BY_KEY[full], _read(value, name, full), f"{name}:{value.line}: {full}"
        else:
            raise ConfigError(f"{name}:{value.line}: unknown key {full!r}; {_suggestion(key, section)}")


def _read(value: Any, name: str, key: str) -> Any:
    """The value of a key; an algorithm is read at once, where the lines are known."""
    if BY_KEY[key].shape != ALGORITHM:
        return value.plain()
    from pipesched.config.algorithm import read_algorithm

    return read_algorithm(value, name)


def _suggestion(key: str, section: str) -> str:
    """Did you mean a key that looks alike, or one of another section?"""
    elsewhere = [field.key for field in FIELDS if field.key.rpartition(".")[2] == key]
    if elsewhere:
        return f"did you mean {elsewhere[0]!r}?"
    near = get_close_matches(key, keys_of(section), n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known here are {', '.join(keys_of(section))}"


def override(values: dict[str, Given], options: Mapping[str, str]) -> None:
    """Put the options on top of `values`. One way of giving the backward replaces the other.

    Raises ConfigError when the options themselves give both ways.
    """
    halves = sorted({"--backward-input", "--backward-weight"}.intersection(options))
    if halves and "--backward" in options:
        raise ConfigError(f"--backward: give either the whole or its halves, not also {halves[0]}")
    for option, text in options.items():
        put(values, OPTIONS[option], Given(option_value(text), option))


def put(values: dict[str, Given], field: Field, given: Given) -> None:
    """Set one value. One way of giving the backward replaces the other."""
    if field.name == "backward":
        values.pop("backward_input", None)
        values.pop("backward_weight", None)
    elif field.name in ("backward_input", "backward_weight"):
        values.pop("backward", None)
    values[field.name] = given


def option_value(text: str) -> Any:
    """What an option's text means: a number, a list of them when it holds commas, else a word."""
    if "," in text:
        return [option_value(part) for part in text.split(",")]
    try:
        number = parse_number(text.strip())
    except ValueError:
        return text.strip()
    return int(number) if -20 < number.adjusted() < 20 and number == number.to_integral_value() else number


def problem_of(values: Mapping[str, Given]) -> Problem:
    """The problem of these values. Raises ConfigError that says where the value at fault was given."""
    plain = {name: given.value for name, given in values.items() if name != "algorithm"}
    if plain.get("stages") is TWO_A_DEVICE:
        plain["stages"] = None if isinstance(plain["devices"], (str, list)) else 2 * plain["devices"]
    try:
        return make_problem(**plain)
    except ConfigError as error:
        raise ConfigError(_located(error, values), error.key) from None


def _algorithm_of(values: Mapping[str, Given]) -> Algorithm | None:
    return values["algorithm"].value if "algorithm" in values else None


def _located(error: ConfigError, values: Mapping[str, Given]) -> str:
    key = error.key or ""
    place = key[key.index("[") :] if "[" in key else ""
    field = BY_KEY.get(key.removesuffix(place))
    if field and field.name in values and values[field.name].where:
        return f"{values[field.name].where}{place}: {error}"
    return f"{key}: {error}" if key else str(error)


def sweep_problems(
    path: str | None, overrides: Mapping[str, str], sweep: str
) -> tuple[str, list[tuple[str, Problem]], Algorithm | None]:
    """The field that `sweep` names (`microbatches=4,8,16`), the problem at each of its values, and the algorithm of the
    file.

    A field is a key of the config or an option's name. Raises ConfigError.
    """
    name, _, text = sweep.partition("=")
    field = _numeric_field(name.strip())
    texts = [value.strip() for value in text.split(",") if value.strip()]
    for value in texts:
        if isinstance(option_value(value), str):
            raise ConfigError(f"--sweep: {value!r} is no number; write for instance microbatches=4,8,16,32")
    if not texts:
        raise ConfigError("--sweep: no values; write for instance microbatches=4,8,16,32")
    points, base = [], load_values(path, overrides)
    for value in texts:
        values = dict(base)
        put(values, field, Given(option_value(value), f"--sweep, {field.option or field.key}"))
        points.append((value, problem_of(values)))
    return field.key, points, _algorithm_of(base)


def _numeric_field(name: str) -> Field:
    """The field that a sweep varies, by its key, the key's last part, or its option."""
    numeric = [field for field in FIELDS if field.shape not in (PLACEMENT, LANES, TEXT, ALGORITHM)]
    names = {field.key.rpartition(".")[2]: field for field in numeric} | {field.key: field for field in numeric}
    names |= {field.option.strip("-"): field for field in numeric if field.option}
    for spelling in (name.strip("-"), name.strip("-").replace("_", "-"), name.replace("-", "_")):
        if spelling in names:
            return names[spelling]
    what = f"{name!r} cannot be swept" if name in BY_KEY else f"unknown field {name!r}"
    raise ConfigError(f"--sweep: {what}; known are {', '.join(field.key for field in numeric)}")
