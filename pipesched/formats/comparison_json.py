"""The JSON documents of comparisons and of lists of rows (version 1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pipesched.comparison import Entry
from pipesched.formats.schedule_json import metrics_document
from pipesched.outcome import Outcome
from pipesched.pareto import Standing
from pipesched.pipeline.quantities import parse_number, plain


def comparison_document(entries: Sequence[Entry]) -> dict[str, Any]:
    """Format "pipesched.comparison": a row an algorithm, in the order asked for."""
    return rows_document("comparison", map(_row, entries))


def sweep_document(field: str, points: Iterable[tuple[str, Sequence[Entry]]]) -> dict[str, Any]:
    """Format "pipesched.sweep": a row for each value of the field and each algorithm."""
    return rows_document(
        "sweep", ({field: _value(text), **_row(entry)} for text, entries in points for entry in entries)
    )


def pareto_document(entries: Sequence[Entry], places: Sequence[Standing]) -> dict[str, Any]:
    """Format "pipesched.pareto": a row a schedule, ranked, and last those that do not apply."""
    refused = (_row(entry) for entry in entries if entry.outcome is None)
    return rows_document("pareto", [*map(_pareto_row, places), *refused])


def check_document(outcome: Outcome, found: Sequence[str]) -> dict[str, Any]:
    """Format "pipesched.check": whether a schedule keeps every rule, and what it breaks."""
    return {
        "format": "pipesched.check",
        "version": 1,
        "algorithm": outcome.algorithm,
        "valid": not found,
        "fits": outcome.schedule.fits,
        "violations": list(found),
    }


def rows_document(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Format "pipesched.<name>": one object a row."""
    return {"format": f"pipesched.{name}", "version": 1, "rows": list(rows)}


def _row(entry: Entry) -> dict[str, Any]:
    if entry.outcome is None:
        return {"algorithm": entry.algorithm, "applicable": False, "reason": entry.reason}
    return {"algorithm": entry.algorithm, "applicable": True, "metrics": metrics_document(entry.outcome)}


def _pareto_row(standing: Standing) -> dict[str, Any]:
    return {
        "algorithm": standing.outcome.algorithm,
        **standing.options,
        "applicable": True,
        "metrics": metrics_document(standing.outcome),
        "dominated": standing.dominated_by is not None,
    }


def _value(text: str) -> int | float:
    return plain(Fraction(parse_number(text)))
