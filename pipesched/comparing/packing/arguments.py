"""What `pack` is given, checked: the lengths of documents, how they are shared out, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any, NamedTuple

from pipesched.checks import require_sequence, require_whole, shown
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.problem import Problem, require_problem
from pipesched.pipeline.quantities import exact
from pipesched.schedulers.family import Family

AUTO = "auto"  # the least number of microbatches for which a packing is found
MOST_TOKENS = 10**12  # of a document, and of a microbatch


class Sorted(NamedTuple):
    """Documents from long to short, and the index of each among those given: of equal lengths the lower first."""

    lengths: list[int]
    indices: list[int]


def read_lengths(given: Any) -> list[int]:
    """Return the lengths of documents as ints. Raises ConfigError about `lengths`, with the entry at fault."""
    values = given
    if getattr(given, "ndim", None) is not None:  # an array
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise ConfigError(f"must be whole numbers in one dimension, not an array of {given.dtype}", "lengths")
        values = given.tolist()
    values = require_sequence(list(values) if isinstance(values, range) else values, "lengths")
    if not values:
        raise ConfigError("must hold a document at least", "lengths")
    if {*map(type, values)} != {int} or min(values) < 1 or max(values) > MOST_TOKENS:
        for entry, value in enumerate(values):
            require_whole(value, "lengths", least=1, most=MOST_TOKENS, entry=entry)
    return [*map(int, values)]


def by_length(lengths: Sequence[int], cap: int) -> Sorted:
    """Return documents from long to short. Raises ConfigError for one above the cap."""
    indices = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    if lengths[indices[0]] > cap:
        index = next(index for index, length in enumerate(lengths) if length > cap)
        raise ConfigError(f"document {index} has {lengths[index]} tokens, the cap is {cap}", "lengths")
    return Sorted([lengths[index] for index in indices], indices)


def read_count(value: Any, default: int) -> int | None:
    """Return a number of microbatches; None for "auto". Raises ConfigError about `microbatches`."""
    if value is None:
        return default
    if isinstance(value, str) and value == AUTO:
        return None
    if not isinstance(value, Integral):
        raise ConfigError(f"must be a whole number of at least 1, or {AUTO}, not {shown(value)}", "microbatches")
    return require_whole(value, "microbatches", least=1)


def read_attention(value: Any) -> Fraction:
    """Return a part from 0 to 1. Raises ConfigError about `attention`."""
    try:
        part = exact(value)
    except ValueError:
        part = Fraction(-1)
    if not 0 <= part <= 1:
        raise ConfigError(f"must be a number from 0 to 1, not {shown(value)}", "attention")
    return part


def require_alike(problem: Any) -> Problem:
    """Return a problem whose microbatches are alike. Raises ConfigError about what makes them differ."""
    checked = require_problem(problem)
    if checked.sizes is not None:
        raise ConfigError("must be of microbatches alike; those of this one have sizes of their own", "problem")
    if (checked.costs.microbatches, checked.memory.microbatches) != (None, None):
        raise ConfigError("must be of microbatches alike; this one has costs of each microbatch", "problem")
    if not checked.slices.is_plain:
        raise ConfigError("must be of whole microbatches; this one has `slices`", "problem")
    if checked.costs.overlap is not None and checked.cutter is None:
        raise ConfigError(
            "is one time for all microbatches, and packed ones differ; leave it out, and a pair takes both its parts",
            "overlap",
        )
    return checked


def require_plain(chosen: Family) -> Family:
    """Return a family that needs no options. Raises NotApplicable."""
    if chosen.required:
        named = ", ".join(f"`{option}`" for option in chosen.required)
        raise NotApplicable(f"{chosen.name} needs {named}, which a packing does not take", "algorithm")
    return chosen
