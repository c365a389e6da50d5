"""The advice in the section `solver` of a schedule's document, written and read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pipesched.checks import shown
from pipesched.documents.json_text import plain_values
from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import plain
from pipesched.results.outcome import Advice, SolveReport


def advice_document(advice: Sequence[Advice]) -> list[dict[str, Any]]:
    """Return advice as it stands in a document; fractions that are no decimals stay texts, as they may be typed."""
    return [one._asdict() for one in advice]


def advice_of(content: object) -> tuple[Advice, ...] | None:
    """Return the advice in a document, None where it has none. Raises ConfigError for what is none."""
    if content is None:
        return None
    if not isinstance(content, list) or not all(isinstance(one, Mapping) for one in content):
        raise ConfigError(f"solver: 'advice' must be a list of changes, not {shown(content)}")
    return tuple(map(_advice, content))


def wrong_advice(report: SolveReport) -> Iterator[str]:
    """Yield a sentence for each piece of advice that another claim contradicts."""
    values = [one.makespan_at_most for one in report.advice or ()]
    for one in report.advice or ():
        where = f"solver.advice, {one.change}: the difference is {one.difference}"
        if one.difference >= 0:
            yield f"{where}, which does not help"
        difference = Fraction(one.makespan_at_most) - Fraction(report.value_ticks, report.bound.per_unit)
        if round((Fraction(one.difference) - difference) * report.bound.per_unit):
            yield f"{where}, and from {report.value} to {one.makespan_at_most} it is {plain(difference)}"
    if values != sorted(values):
        yield "solver.advice is not in the order of its makespans"


def _advice(content: Mapping[str, Any]) -> Advice:
    change = content.get("change")
    if not isinstance(change, str) or not change.isprintable():
        raise ConfigError(f"solver: 'change' of 'advice' must be one line of text, not {shown(change)}")
    least, difference = _time(content, "makespan_at_most"), _time(content, "difference")
    return Advice(change, least, difference, _arguments(content, "solve"), _arguments(content, "problem"))


def _time(content: Mapping[str, Any], key: str) -> int | float:
    value = content.get(key)
    if not isinstance(value, (int, float, Decimal)) or isinstance(value, bool):
        raise ConfigError(f"solver: {key!r} of 'advice' must be a number, not {shown(value)}")
    return plain(Fraction(value))


def _arguments(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key, {})
    if not isinstance(value, Mapping):
        raise ConfigError(f"solver: {key!r} of 'advice' must hold parameters by their names, not {shown(value)}")
    return {name: plain_values(entry) for name, entry in value.items()}
