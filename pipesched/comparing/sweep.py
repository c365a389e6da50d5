"""Comparisons by `sweep` at several values of one number, or of one word, of a config or of an option of families.

It finds what is varied, makes a problem of each value (`varied_points`), and compares at all (`compared_points`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesched.checks import MOST_WORKERS, require_mapping, require_name, require_number, require_whole, shown
from pipesched.comparing.compare import Algorithms, candidates, comparison_calls, problem_of_plans, run_calls
from pipesched.config.load import load_values
from pipesched.config.values import problem_of, put
from pipesched.errors import ConfigError, Given
from pipesched.executors.opening import chosen
from pipesched.pipeline.problem.declared import BY_KEY, BY_NAME, VARIED as FIELDS
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import (
    TIME,
    OutOfLimits,
    Unit,
    count_of,
    exact,
    first_entries,
    has_unit,
    is_several,
    plain,
    read_number,
    to_fraction,
)
from pipesched.results.comparison import VARIED_WORDS, Comparison, Sweep, SweepPoint
from pipesched.schedulers.options import GROUP_SIZE, VARIED, checked_option
from pipesched.schedulers.registry import family, is_known

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pipesched.config.values import Values
    from pipesched.pipeline.problem.shapes import Field

MOST_VALUES = 10_000
WHOLES = {"shard": "level", "messages": "queue"}  # what a word is of a mapping that is varied
_ONE_DEVICE = re.compile(r"speed\[([0-9]{1,8})\]", re.ASCII)


def sweep(
    path_or_text: str | Path | None,
    field: str,
    values: Sequence[Any],
    algorithms: Algorithms | None = None,
    *,
    plans: Mapping[str, Any] | Sequence[str | Path] | None = None,
    overrides: Mapping[str, Any] | None = None,
    each: Mapping[str, Mapping[str, Any]] | None = None,
    jobs: int = 1,
    executor: Executor | str | None = None,
    listener: Callable[[str], None] | None = None,
    **options: Any,
) -> Sweep:
    """Compare algorithms at several values of one number, or at several words.

    Args:
        path_or_text: As for `load`; None is the problem of the first schedule among `plans`, else the built-in default.
        field: What to vary: a parameter of `make_problem` (`microbatches`), or its key in a config (`costs.forward`);
            `speed[2]` is the speed of device 2 alone. Or `shard`, what data-parallel ranks divide, and `shard.ahead`,
            `shard.ranks`, `shard.reduce`, `shard.gather`. Or `messages`. Or an option: `order`, `side_rule`, ..,
            one of a function too, where it is a number.
        values: The values it takes, at most 10,000; texts with units too ("250us"), and words: of `shard` its levels,
            of `messages` free, edge, pair, rank and device, of `shard.ahead` numbers, full and auto, of `order` given,
            verl, longest, shortest and best, of `side_rule` first and bubbles, of `group_size` numbers and best.
        algorithms: As for `compare`, like `plans`, `each`, `jobs`, `executor` and the `options` of families.
        listener: Called with the name of each algorithm or plan, and the value, as its turn comes.
        overrides: Values that replace those of the config at every point, by the parameters of `make_problem`; None is
            the default. What is varied cannot stand there too.

    Raises:
        ConfigError: For a field that cannot be varied, a bad value, and whatever `load` and `compare` raise.
    """
    given = {} if overrides is None else require_mapping(overrides, "values by the parameters they set", "overrides")
    listed, read = first_entries(values, MOST_VALUES) if is_several(values) else [], candidates(plans)
    if not listed:
        raise ConfigError(f"must list at least one value, not {shown(values)}", "values")
    if len(listed) > MOST_VALUES:
        raise ConfigError(f"must list at most {MOST_VALUES:,} values", "values")
    base = load_values(problem_of_plans(read) if path_or_text is None else path_or_text, given)
    if not is_option(str(field), algorithms):
        # A varied `backward` replaces its halves, and a varied half `backward`, unless there are all three. An override
        # of what is replaced would have no effect.
        varied, halves = varied_field(field), {"backward_input", "backward_weight"}
        others = halves if varied.name == "backward" else {"backward"} if varied.name in halves else set()
        others = set() if {"backward", *halves} <= base.keys() else others
        for name, value in given.items() if _device_of(varied) is None else ():
            if value is not None and (name in others or (name == varied.name and replaces(varied, value))):
                raise ConfigError(f"gives `{name}`, which `field` {varied.key} varies or replaces", "overrides")
    key, points = varied_points(base, field, listed, algorithms)
    settings: dict[str, Any] = {"plans": read, "each": each, "jobs": jobs, "executor": executor}
    settings["listener"] = listener
    return Sweep(key, compared_points(points, algorithms, **settings, **options))


# A value of what a sweep varies, the problem at it, and the options of families that it sets.
VariedPoint = tuple[int | float | str, Problem, Mapping[str, Any]]


def is_option(field: str, algorithms: Algorithms | None) -> bool:
    """Return whether a field is an option that may be varied: that of a function too, where one is compared."""
    named = [algorithms] if isinstance(algorithms, str) or callable(algorithms) else algorithms or ()
    own = (family(one) for one in named if field not in VARIED and is_known(one, loads=True))
    return field in VARIED or any(one.origin and field in one.options for one in own)


def varied_points(
    base: Values, field: str, values: Sequence[Any], algorithms: Algorithms | None
) -> tuple[str, list[VariedPoint]]:
    """Return the key of what a sweep varies, and its points: of values of a config, or of an option of families.

    Raises ConfigError for a field that is none of these, and for a bad value.
    """
    if not is_option(field, algorithms):
        varied = varied_field(field)
        return varied.key, [(*point, {}) for point in sweep_points(base, varied, values)]
    problem = problem_of(base)
    listed = [
        checked_option(family("interleaved"), field, value)
        if field == GROUP_SIZE
        else require_name(VARIED_WORDS[field], value, field, "values")
        if field in VARIED
        else plain(Fraction(require_number(value, "values")))
        for value in values
    ]
    return field, [(value, problem, {field: value}) for value in listed]


def compared_points(
    points: Sequence[VariedPoint],
    algorithms: Algorithms | None,
    *,
    plans: Mapping[str, Any] | Sequence[str | Path] | None = None,
    each: Mapping[str, Mapping[str, Any]] | None = None,
    jobs: int = 1,
    executor: Executor | str | None = None,
    listener: Callable[[str], None] | None = None,
    **options: Any,
) -> tuple[SweepPoint, ...]:
    """Compare algorithms on each problem, all in one executor, and return the points by their values.

    Raises ConfigError, also for an option that the points set themselves.
    """
    for key in {key for _, _, own in points for key in own if options.get(key) is not None}:
        raise ConfigError("has no effect in a sweep that varies it", key)
    read, runs = candidates(plans), chosen(executor, require_whole(jobs, "jobs", most=MOST_WORKERS))
    calls = [comparison_calls(problem, algorithms, read, each, {**options, **own}) for _, problem, own in points]
    turns = (f"{call[1]} at {value}" for (value, *_), at_point in zip(points, calls, strict=True) for call in at_point)
    hear = None if listener is None else lambda _: listener(next(turns))
    entries = iter([*run_calls([call for at_point in calls for call in at_point], runs, hear)])
    found = []
    for (at, problem, own), at_point in zip(points, calls, strict=True):
        compared = []
        for entry in islice(entries, len(at_point)):  # without the options that the point sets
            kept = {key: value for key, value in entry.options.items() if key not in own}
            compared.append(replace(entry, options=kept))
        found.append(SweepPoint(at, Comparison(tuple(compared), problem.time_unit)))
    return tuple(found)


def replaces(varied: Field, given: Any) -> bool:
    """Return whether a sweep replaces what is given of the parameter that it varies, which may be other entries."""
    whole = WHOLES.get(varied.name)
    if whole is None or not isinstance(given, (str, Mapping)):
        return True
    return (_entry_of(varied) or whole) in ({whole: given} if isinstance(given, str) else given)


def _entry_of(varied: Field) -> str:
    """Return which entry of a mapping is varied, "" for a value as a whole."""
    return varied.key.partition(".")[2] if varied.key.startswith(f"{varied.name}.") else ""


def sweep_points(base: Values, field: Field, values: Sequence[Any]) -> list[tuple[int | float | str, Problem]]:
    """Return each value with the problem in which `field` has it. Raises ConfigError for a bad value."""
    points = list[tuple[int | float | str, Problem]]()
    parameter, device, entry = BY_NAME[field.name] if _entry_of(field) else field, _device_of(field), _entry_of(field)
    others = base["speed"].value if "speed" in base else {}  # of the other devices
    if device is not None and not is_several(others) and not isinstance(others, Mapping):
        others = [others] * count_of("devices", base["devices"].value)
    for value, is_word in [(value, _is_word(value, field)) for value in values]:
        changed = dict(base)
        whole: Any = {entry: value} if entry else value
        if device is not None:
            whole = {**(others if isinstance(others, Mapping) else dict(enumerate(others))), device: value}
        put(changed, parameter, Given(whole))
        try:
            problem = problem_of(changed)
        except ConfigError as error:
            if error.key != field.name or not is_word:
                raise
            raise ConfigError(f"{field.key} {value}: {error.message}", "values") from None
        shown_value = value
        if not is_word and field.dimension is not None and has_unit(value):  # in the problem's unit
            label = problem.time_unit if field.dimension is TIME else problem.memory.unit
            shown_value = plain(read_number(value, Unit(field.dimension, label), field.name))
        elif not is_word:
            shown_value = plain(exact(value))
        points.append((shown_value, problem))
    return points


def _is_word(value: Any, field: Field) -> bool:
    """Return whether a value is a word that may be varied. Raises ConfigError for one that is no number either."""
    words = VARIED_WORDS.get(field.key, ())
    if words and not field.shape.is_number:
        require_name(words, value, "value", "values")
    is_word = isinstance(value, str) and value in words
    if is_word or (field.dimension is not None and has_unit(value)):
        return is_word
    try:
        to_fraction(value)
    except OutOfLimits:
        pass  # which the problem says, about its key
    except ValueError:
        others = f", nor one of {', '.join(words)}" if words else ""
        raise ConfigError(f"{shown(value)} is no number{others}", "values") from None
    return False


def _device_of(field: Field) -> int | None:
    found = _ONE_DEVICE.fullmatch(field.key)
    return int(found[1]) if found else None


def varied_field(name: str) -> Field:
    """Return the field that a sweep varies, by its parameter or its key. Raises ConfigError."""
    if not isinstance(name, str):
        raise ConfigError(f"must be the name of a field, not {shown(name)}", "field")
    if _ONE_DEVICE.fullmatch(name):
        return BY_NAME["speed"]._replace(key=name, argument="speed")
    for field in FIELDS:
        if name in (field.name, field.key, field.key.rpartition(".")[2]):
            return field
    what = f"{shown(name)} cannot be varied" if name in BY_KEY or name in BY_NAME else f"unknown field {shown(name)}"
    raise ConfigError(f"{what}; known are {', '.join(field.key for field in FIELDS)}", "field")
