"""Slices of a model's microbatches: each one's part of the work of a stage, products and attention core apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any

from pipesched.errors import ConfigError
from pipesched.estimation.items import Items, Stage
from pipesched.estimation.terms import ATTENTION, total
from pipesched.pipeline.quantities import rounded
from pipesched.pipeline.unit_arguments import read_slices
from pipesched.pipeline.units import SHARED, Slices, with_attentions
from pipesched.pipeline.units_of_measure import TIME, Unit


def sliced(given: Any, stages: Sequence[Stage], microbatches: Sequence[Items]) -> Slices:
    """Return the slices that the parameter `slices` of make_problem means, by the attention of each stage and kind.

    Where it gives attention or parts of the work itself, these count.

    `microbatches` are the items of each, of which the mean counts. Raises ConfigError for microbatches of several
    documents: a slice of them may hold any part of any.
    """
    if any(len(documents) > 1 for items in microbatches for documents in items.setup.batch.lengths or ()):
        raise ConfigError("cut microbatches of one document each; `batch.lengths` has several in one", "slices")
    mapping = {**given} if isinstance(given, Mapping) else {"count": given}
    unit = Unit(TIME, "ms")
    if {"attention", "work"} & {key for key, value in mapping.items() if value is not None}:
        return read_slices(mapping, len(stages), unit)
    columns = [[items.stage(stage.begin, stage.end) for stage in stages] for items in microbatches]
    attentions = tuple(tuple(_attention(column, [key]) for column in zip(*columns, strict=True)) for key in SHARED)
    whole = _attention([*chain.from_iterable(columns)], SHARED)
    slices = read_slices({**mapping, "attention": whole}, len(stages), unit)
    if slices.rule is not None:
        return replace(slices, rule=replace(slices.rule, attentions=attentions))
    return with_attentions(slices, attentions)


def _attention(stages: Sequence[Stage], kinds: Sequence[str]) -> Fraction:
    """Return the part of the attention core in the time of these kinds of some stages."""
    core = whole = Fraction(0)
    for stage in stages:
        for item in stage.held:
            for kind in kinds:
                terms = getattr(item.times, kind)
                whole += Fraction(total(terms))
                core += Fraction(total(term for term in terms if term.kind == ATTENTION))
    return rounded(core / whole) if whole else Fraction(0)
