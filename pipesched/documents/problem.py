"""The problem in a JSON document: as a config with every default filled in, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pipesched.checks import shown
from pipesched.config.values import in_file
from pipesched.documents.json_text import get, nearly_equal
from pipesched.documents.layers import BLOCKS, BY_LAYER, by_layer, layers_document
from pipesched.documents.step import kept_said, step_document
from pipesched.documents.units import costs_said, entries_document, units_document, with_tried, without_tried
from pipesched.errors import ConfigError
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.costs import STEP_TIMES
from pipesched.pipeline.layers import SIZES
from pipesched.pipeline.memory import KEPT
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, plain, simplest
from pipesched.pipeline.step_arguments import SIDE_SIZES
from pipesched.text.fields import BY_KEY, BY_NAME, SECTIONS, keys_of

MAY_BE_NULL = (  # of numbers of a document
    *(f"costs.{key}" for key in ("overlap", "offload", "reload", *STEP_TIMES, "tied")),
    "memory.budget",
)
MOST_PLACES = 30  # digits before or behind the point


def problem_document(problem: Problem) -> dict[str, Any]:
    """Return the problem as a config with every default filled in."""
    placement = problem.placement
    devices = placement and ("bidirectional" if placement.mirrored else list(placement.devices))
    unsaid = {*(() if problem.memory.kv else ("kv",)), *(() if kept_said(problem) else KEPT)}
    return {
        "name": problem.name,
        "devices": problem.devices,
        "stages": problem.stages,
        "microbatches": problem.microbatches,
        "placement": devices or "auto",
        "time_unit": problem.time_unit,
        "lanes": problem.lanes,
        **layers_document(problem),
        **({} if problem.speed is None else {"speed": [*map(plain, problem.speed)]}),
        **({} if problem.links is None else {"links": [[*map(plain, row)] for row in problem.links]}),
        **units_document(problem),
        "costs": {key: _value(getattr(problem.costs, key)) for key in costs_said(problem)},
        "memory": {key: _value(getattr(problem.memory, key)) for key in keys_of("memory") if key not in unsaid},
        **step_document(problem),
    }


def _value(value: Any) -> Any:
    """Return a label or a number as it is, of entries one number or the list; None for None."""
    if isinstance(value, tuple):
        return entries_document(value)
    return value if value is None or isinstance(value, str) else plain(value)


def problem_values(content: dict[str, Any]) -> dict[str, Any]:
    """Return what a document says of a problem, exactly, by the parameters of make_problem. Raises ConfigError."""
    values: dict[str, Any] = {}
    for section, read in READERS.items():
        is_there = section and (section in content or section != "step")
        part = get(content, section, dict) if is_there else {} if section else content
        for key, value in part.items():
            full = f"{section}.{key}" if section else key
            inside = value.items() if isinstance(value, dict) else ()
            for name, one in ((full, value), *((f"{full}.{inner}", one) for inner, one in inside)):
                if one is None and name not in MAY_BE_NULL:
                    raise ConfigError(f"problem.{name}: must not be null")
            if full in BY_KEY:
                exactly = _exact_size if full == "speed" else read
                value = without_tried(value) if full == "slices" else value  # noqa: PLW2901
                values[BY_KEY[full].name] = in_file(BY_KEY[full], _entries_or_numbers(value, exactly))
            elif full == BLOCKS:
                values[BLOCKS] = value is True
            elif section or key not in SECTIONS:
                raise ConfigError(f"problem.{full}: unknown key; known here are {', '.join(keys_of(section))}")
    if "devices" not in values:
        raise ConfigError("'devices' is missing in 'problem'")
    if values.get("side") == []:  # of a step without side work
        del values["side"]
    return values


def read_problem(content: dict[str, Any]) -> Problem:
    """Return the problem of a document. Raises ConfigError that says where in it the value at fault stands."""
    try:
        return with_tried(_made(problem_values(content)), content)
    except ConfigError as error:
        field = BY_NAME.get(error.key or "")
        raise error.at(f"problem.{field.key}" if field else "problem") from None


def _made(values: Mapping[str, Any]) -> Problem:
    """Return the problem of a document's values, by the parameters of make_problem, with its layers if it has them.

    Raises ConfigError where the layers do not make the costs and the memory of the stages.
    """
    by_stage = make_problem(**{key: value for key, value in values.items() if key not in BY_LAYER})
    if "layers" not in values:
        return by_stage
    problem = make_problem(**by_layer(values))
    costs = replace(problem.costs, recompute=by_stage.costs.recompute)
    memory = replace(problem.memory, checkpoint=by_stage.memory.checkpoint)
    if memory.retain != by_stage.memory.retain and nearly_equal(
        *(_floats(part.memory.retain) for part in (by_stage, problem))
    ):
        by_stage = replace(by_stage, memory=replace(by_stage.memory, retain=memory.retain))  # means of many digits
    if replace(problem, costs=costs, memory=memory) != by_stage or problem.layers is None:
        raise ConfigError("do not make the costs and the memory of the stages", "layers")
    return replace(by_stage, layers=replace(problem.layers, blocks=values.get(BLOCKS, False)))


def _floats(values: Sequence[Exact]) -> list[float]:
    return [*map(float, values)]


def _entries_or_numbers(value: Any, read: Callable[[int | Decimal], Any]) -> Any:
    """Return a value with its numbers exact: of a mapping, by what each of its entries is."""
    if isinstance(value, dict):
        return {
            key: _entries_or_numbers(entry, _exact_size if key in (*SIZES, *SIDE_SIZES) else exact_time)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_entries_or_numbers(entry, read) for entry in value]
    return read(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else value


def exact_time(value: int | Decimal) -> Fraction:
    """Return a time that stands in a document. Raises ConfigError for one that is out of range."""
    if value and not -MOST_PLACES < Decimal(value).adjusted() < MOST_PLACES:
        raise ConfigError(f"{shown(value)} is out of range")
    return Fraction(value)


def _exact_size(value: int | Decimal) -> Fraction:
    time_or_size = exact_time(value)  # checks the range
    return simplest(value) if isinstance(value, Decimal) else time_or_size


READERS: dict[str, Callable[[Any], Any]] = {  # of the numbers of a problem, by its sections
    "": lambda value: value,
    "costs": exact_time,
    "memory": _exact_size,
    "step": lambda value: value,
}
