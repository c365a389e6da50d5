"""The options of algorithms: OPTIONS, a table of keys, shapes and meanings, and `checked_options` of given values."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from operator import attrgetter
from typing import Any

from pipesched.checks import cut, require_flag, require_name, shown
from pipesched.core.listsched import PRIORITIES, TIES
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.problem.problem import MOST_OPERATIONS
from pipesched.pipeline.problem.quantities import TIME, first_entries, is_several, require_limits, to_fraction
from pipesched.pipeline.problem.shapes import Count, Either, Field, Flag, ListOf, Number, OneOf, ValueShape
from pipesched.schedulers.family import Family
from pipesched.schedulers.ordering import BEST, WORDS

FULL, GROUP_SIZE = "full", "group_size"
_STAGES = Either(OneOf(FULL), Count(), metavar="full|N")  # so many of the first stages, or all
_STARTS = ListOf(Number(TIME))
RECOMPUTE, OFFLOAD, ORDER, SIDE_RULE = "recompute", "offload", "order", "side_rule"
COMMON = (RECOMPUTE, OFFLOAD, ORDER, SIDE_RULE)  # what every family takes
VARIED = (ORDER, SIDE_RULE, GROUP_SIZE)  # those that a sweep may vary
TAKEN = (  # parameters of what takes options too, and keys of documents before theirs: no option is called so
    "algorithm", "algorithms", "config", "each", "executor", "family", "field", "file", "jobs", "judge", "like",
    "listener", "measured", "overrides", "path_or_text", "plans", "points", "problem", "timed", "values", "whole",
)  # fmt: skip
LONGEST = 24  # letters of a list beside a name
FIRST, BUBBLES = SIDE_RULES = ("first", "bubbles")  # by which side work stands among the slots of a family
OBJECTIVES = {  # each as a key of schedules, with the other to break ties
    "span": attrgetter("span_ticks", "makespan_ticks"),
    "makespan": attrgetter("makespan_ticks", "span_ticks"),
}

_block = partial(Field, flag=None)  # one without a flag stands in a config only: it is too long for a command line
OPTIONS: dict[str, Field] = {
    option.key: option
    for option in (
        Field(
            GROUP_SIZE,
            Either(OneOf(BEST), Count(), metavar="best|N"),
            "interleaved: microbatches in a row on a chunk, or best; default P if it divides M",
        ),
        Field("lifo", Flag(), "naive: backwards in reverse order"),
        Field("priority", OneOf(*PRIORITIES), f"list: {', '.join(PRIORITIES)}"),
        Field("tie", OneOf(*TIES), "list: dfs (lifo), bfs, fifo, input, reverse, random, most-descendants, pairing"),
        Field("objective", OneOf(*OBJECTIVES), "zb-auto and the V schedules: span (default), makespan"),
        Field("seed", Count(0), "list: seed of the random tie"),
        _block("period", Number(TIME, above=True), "block: the time from one microbatch to the next"),
        _block("forward", _STARTS, "block: when F starts on each stage, after its microbatch begins"),
        _block("backward", _STARTS, "block: when B starts on each stage"),
        _block("backward_input", _STARTS, "block: when I starts on each stage, instead of B"),
        _block("backward_weight", _STARTS, "block: when W starts on each stage; default: the first free time after I"),
        _block("peak", Count(), "block: chunks that a device may hold; default: what the block holds by residence"),
        _block("squeeze", Flag(), "block: move operations up where time and memory allow (default), or keep its order"),
        Field(
            RECOMPUTE,
            _STAGES,
            "every algorithm: run forwards again, of all stages or the first N; of a model by layers: N layers a stage",
        ),
        Field(
            OFFLOAD,
            _STAGES,
            "every algorithm: move the activations of all or the first N stages to host memory (costs.offload)",
        ),
        Field(
            ORDER,
            Either(OneOf(*WORDS), ListOf(Count(0)), metavar="NAME|LIST"),
            "every algorithm: feed the microbatches in this order: given (default), verl (its rule), longest or"
            " shortest first, best, or a list",
        ),
        Field(
            SIDE_RULE,
            OneOf(*SIDE_RULES),
            "every algorithm: side work where devices would wait: bubbles (default), or before and behind all: first",
        ),
    )
}


def options_of(family: Family) -> tuple[str, ...]:
    """Return the keys of all options that a family takes: its own, and those of every family."""
    return (*family.options, *COMMON)


def labelled(name: str, options: Mapping[str, Any]) -> str:
    """Return the name of an algorithm with what it recomputes and offloads, and its order: `1f1b, recompute full`."""
    given = {key: options[key] for key in COMMON if options.get(key) is not None}
    texts = {key: cut(",".join(map(str, one)), LONGEST) if is_several(one) else one for key, one in given.items()}
    return ", ".join([name, *(f"{key} {text}" for key, text in texts.items())])


def checked_options(family: Family, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a family, whole numbers as ints, without those that are None: these are not given.

    Raises ConfigError for a value of the wrong shape, NotApplicable for an option that the family does not have; both
    name the option.
    """
    checked = {key: checked_option(family, key, value) for key, value in options.items()}
    return {key: value for key, value in checked.items() if value is not None}


def checked_option(family: Family, key: str, value: Any) -> Any:
    """Return the value of one option of a family. Raises as `checked_options` does."""
    known = options_of(family)
    if key not in known:
        said = {option: f"`{option}`" for option in known}  # an own one has no flag, whatever its name
        said |= {option: option for option in family.options if family.origin}
        near, takes = get_close_matches(key, known, n=1), ", ".join(said.values())
        hint = f"did you mean {said[near[0]]}? " if near else ""
        raise NotApplicable(f"{family.name} has no option `{key}`; {hint}it takes {takes}", key)
    is_own = family.origin and key in family.options  # which the function itself looks at
    return value if value is None or is_own else _shaped(key, OPTIONS[key].shape, value)


def _shaped(key: str, shape: ValueShape, value: Any) -> Any:
    """Return a value of a shape: of a single microbatch the number alone will do. Raises ConfigError."""
    if isinstance(shape, Flag):
        return require_flag(value, key)
    if isinstance(shape, OneOf):
        return require_name(shape.words, value, key, key)
    if not isinstance(shape, Either):  # the block checks periods and starts, because it knows the stages
        return _whole(value, key, shape.least) if isinstance(shape, Count) else value
    word, other = shape.shapes
    assert isinstance(word, OneOf)
    if isinstance(other, ListOf) and isinstance(value, str):
        return require_name(word.words, value, key, key)
    if isinstance(other, ListOf):
        listed = first_entries(value, MOST_OPERATIONS) if is_several(value) else [value]
        return tuple(_whole(one, key, least=0) for one in listed)
    [name] = word.words
    try:
        return value if value == name else _whole(value, key, least=1, also=f"{name} or ")
    except ConfigError as error:
        near = isinstance(value, str) and get_close_matches(value, [name])
        raise ConfigError(f"{error.message}; did you mean {name!r}?" if near else error.message, key) from None


def _whole(value: Any, key: str, least: int, also: str = "") -> int:
    try:
        number = to_fraction(value)  # never rounded
        require_limits(number)
    except ValueError:
        number = None
    if number is None or number.denominator != 1 or number < least:
        raise ConfigError(f"must be {also}a whole number of at least {least}, not {shown(value)}", key)
    return int(number)
