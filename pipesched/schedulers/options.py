"""The options of algorithms: a table of keys, shapes and meanings, and the check of given values."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from operator import attrgetter
from typing import Any, NamedTuple

from pipesched.checks import cut, require_flag, require_name, shown
from pipesched.core.ties import PRIORITIES, TIES
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.problem import MOST_OPERATIONS
from pipesched.pipeline.quantities import require_limits, to_fraction
from pipesched.pipeline.units_of_measure import first_entries, is_several
from pipesched.schedulers.family import Family
from pipesched.schedulers.feeding.fed_plan import BEST, WORDS

COUNT, WHOLE, FLAG, WORD, PERIOD, STARTS = "count", "whole number", "flag", "word", "period", "starts"
STAGES, FULL = "stages", "full"  # so many of the first stages, or all
GROUPS, GROUP_SIZE = "groups", "group_size"  # a count, or best
MICROBATCHES = "microbatches"  # a list of all of them, or a word for one
RECOMPUTE, OFFLOAD, ORDER, SIDE_RULE = "recompute", "offload", "order", "side_rule"
COMMON = (RECOMPUTE, OFFLOAD, ORDER, SIDE_RULE)  # what every family takes
VARIED = (ORDER, SIDE_RULE, GROUP_SIZE)  # those that a sweep may vary
LONGEST = 24  # letters of a list beside a name
FIRST, BUBBLES = SIDE_RULES = ("first", "bubbles")  # by which side work stands among the slots of a family
OBJECTIVES = {  # each as a key of schedules, with the other to break ties
    "span": attrgetter("span_ticks", "makespan_ticks"),
    "makespan": attrgetter("makespan_ticks", "span_ticks"),
}


class Option(NamedTuple):
    """One option: its key, its shape, what it means, and the allowed names of a word.

    `in_config`: it may stand in a config only, because it is too long for a command line.
    """

    key: str
    shape: str
    help: str
    names: tuple[str, ...] = ()
    in_config: bool = False


OF_BLOCKS = (
    ("period", PERIOD, "block: the time from one microbatch to the next"),
    ("forward", STARTS, "block: when F starts on each stage, after its microbatch begins"),
    ("backward", STARTS, "block: when B starts on each stage"),
    ("backward_input", STARTS, "block: when I starts on each stage, instead of B"),
    ("backward_weight", STARTS, "block: when W starts on each stage; default: the first free time after I"),
    ("peak", COUNT, "block: chunks that a device may hold; default: what the block holds by residence"),
    ("squeeze", FLAG, "block: move operations up where time and memory allow (default), or keep its order"),
)
OPTIONS: dict[str, Option] = {
    option.key: option
    for option in (
        Option(
            GROUP_SIZE,
            GROUPS,
            "interleaved: microbatches in a row on a chunk, or best; default P if it divides M",
            (BEST,),
        ),
        Option("lifo", FLAG, "naive: backwards in reverse order"),
        Option("priority", WORD, f"list: {', '.join(PRIORITIES)}", tuple(PRIORITIES)),
        Option(
            "tie", WORD, "list: dfs (lifo), bfs, fifo, input, reverse, random, most-descendants, pairing", tuple(TIES)
        ),
        Option("objective", WORD, "zb-auto and the V schedules: span (default), makespan", tuple(OBJECTIVES)),
        Option("seed", WHOLE, "list: seed of the random tie"),
        *(Option(*one, in_config=True) for one in OF_BLOCKS),
        Option(
            RECOMPUTE,
            STAGES,
            "every algorithm: run forwards again, of all stages or the first N; of a model by layers: N layers a stage",
        ),
        Option(
            OFFLOAD,
            STAGES,
            "every algorithm: move the activations of all or the first N stages to host memory (costs.offload)",
        ),
        Option(
            ORDER,
            MICROBATCHES,
            "every algorithm: feed the microbatches in this order: given (default), verl (its rule), longest or"
            " shortest first, best, or a list",
            WORDS,
        ),
        Option(
            SIDE_RULE,
            WORD,
            "every algorithm: side work where devices would wait: bubbles (default), or before and behind all: first",
            SIDE_RULES,
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
        takes = ", ".join(f"`{option}`" for option in known)
        near = get_close_matches(key, known, n=1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise NotApplicable(f"{family.name} has no option `{key}`; {hint}it takes {takes}", key)
    return None if value is None else _shaped(OPTIONS[key], value)


def _shaped(option: Option, value: Any) -> Any:
    """Return a value of the shape of an option. Raises ConfigError."""
    key, shape = option.key, option.shape
    if shape == FLAG:
        return require_flag(value, key)
    if shape == WORD:
        return require_name(option.names, value, key, key)
    if shape in (COUNT, WHOLE):
        return _whole(value, key, least=int(shape == COUNT))
    if shape in (GROUPS, STAGES):
        return _counted(value, key, BEST if shape == GROUPS else FULL)
    if shape == MICROBATCHES:
        return _microbatches(value, option)
    return value  # the block checks periods and starts, because it knows the stages


def _counted(value: Any, key: str, word: str) -> Any:
    """Return a word, or a whole number. Raises ConfigError."""
    try:
        return value if value == word else _whole(value, key, least=1, also=f"{word} or ")
    except ConfigError as error:
        near = isinstance(value, str) and get_close_matches(value, [word])
        raise ConfigError(f"{error.message}; did you mean {word!r}?" if near else error.message, key) from None


def _microbatches(value: Any, option: Option) -> str | tuple[int, ...]:
    """Return a word for an order, or a list of microbatches; of a single one the number alone will do."""
    if isinstance(value, str):
        return require_name(option.names, value, option.key, option.key)
    listed = first_entries(value, MOST_OPERATIONS) if is_several(value) else [value]
    return tuple(_whole(one, option.key, least=0) for one in listed)


def _whole(value: Any, key: str, least: int, also: str = "") -> int:
    try:
        number = to_fraction(value)  # never rounded
        require_limits(number)
    except ValueError:
        number = None
    if number is None or number.denominator != 1 or number < least:
        raise ConfigError(f"must be {also}a whole number of at least {least}, not {shown(value)}", key)
    return int(number)
