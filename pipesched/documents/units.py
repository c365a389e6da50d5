"""Microbatches that differ in the JSON document of a schedule: writing them, and what they are for make_problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from pipesched.checks import shown
from pipesched.documents.json_text import plain_values, require_finite
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import Entry
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.unit_arguments import WHOLE_ONLY
from pipesched.pipeline.units import FORWARD_ONLY, SHARED, Shares, Sizes, Slices
from pipesched.text.fields import keys_of

TRIED = "tried"  # of slices: which numbers of them a family tried, each with its makespan
IN_FORWARDS = ("forward", "p2p")  # costs of forward passes alone


def costs_said(problem: Problem) -> list[str]:
    """Return which costs a document says: of forwards alone only theirs, of slices none of whole microbatches."""
    if problem.mode == FORWARD_ONLY:
        return [*IN_FORWARDS]
    unused = ("backward",) if problem.costs.split else ("backward_input", "backward_weight")
    refused = WHOLE_ONLY if problem.slices.count > 1 else ()
    return [key for key in keys_of("costs") if key not in (*unused, *refused)]


def units_document(problem: Problem) -> dict[str, Any]:
    """Return what makes microbatches differ, as a config gives it; what is as of whole alike ones is left out."""
    return {
        **({} if problem.sizes is None else {"sizes": _sizes(problem.sizes)}),
        **({} if problem.slices.is_plain else {"slices": _slices(problem.slices)}),
        **({"mode": problem.mode} if problem.mode == FORWARD_ONLY else {}),
    }


def _sizes(sizes: Sizes) -> dict[str, list[int | float]]:
    return {field.name: [*map(plain, getattr(sizes, field.name))] for field in fields(sizes)}


def _slices(slices: Slices) -> dict[str, Any]:
    return {
        "count": slices.count,
        "tokens": _shares(slices.tokens),
        "work": {key: _by_stage(getattr(slices, key)) for key in SHARED},
        "overhead": plain(slices.overhead),
        **({TRIED: [list(pair) for pair in slices.tried]} if slices.tried else {}),
    }


def _by_stage(rows: Sequence[Shares]) -> list[Any]:
    return [_shares(row) for row in rows] if len(rows) > 1 else _shares(rows[0])


def _shares(shares: Shares) -> list[int | float]:
    return [*map(plain, shares)]


def entries_document(entries: Sequence[Entry]) -> Any:
    """Return one number where all entries are one (0 where there is none), else the list; of a table, rows in it."""
    if not entries:
        return 0
    rows = [[*map(plain, entry)] if isinstance(entry, tuple) else plain(entry) for entry in entries]
    return rows[0] if not isinstance(rows[0], list) and all(row == rows[0] for row in rows) else rows


def without_tried(value: Any) -> Any:
    """Return what a document says of slices without the numbers of them that were tried, which no config gives."""
    return {key: one for key, one in value.items() if key != TRIED} if isinstance(value, dict) else value


def with_tried(problem: Problem, content: Mapping[str, Any]) -> Problem:
    """Return a problem with the numbers of slices that its document says were tried. Raises ConfigError."""
    slices = content.get("slices")
    tried = slices.get(TRIED, []) if isinstance(slices, dict) else []
    if not isinstance(tried, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in tried):
        raise ConfigError(
            f"must list numbers of slices, each with its makespan, not {shown(tried)}", "slices", entry=TRIED
        )
    pairs = tuple((_count(count), require_finite(makespan, "slices.tried")) for count, makespan in tried)
    return replace(problem, slices=replace(problem.slices, tried=tuple(map(tuple, plain_values(pairs)))))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"must be numbers of slices, not {shown(value)}", "slices", entry=TRIED)
    return value
