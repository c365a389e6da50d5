"""Texts of charts: the labels of slots, counts, and the names of parameters."""

from __future__ import annotations

from collections.abc import Callable

LABELS = ("auto", "microbatch", "op", "stage", "none")
Spelling = Callable[[str], str]  # turns the parameters in a text, which stand in backticks, into what a reader types


def as_parameters(text: str) -> str:
    """Return a text without the backticks around its parameters, for a reader who calls functions."""
    return text.replace("`", "")


MEASURED_MEMORY = "memory as planned: traces hold none"  # of a measured schedule


def counted(number: int, what: str, plural: str = "s") -> str:
    """Return a count as text: `1 stage`, `2 stages`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}{plural}"


def with_unit(name: str, unit: str) -> str:
    """Return the name of an axis, a column or a colour with its unit, if there is one: `makespan (ms)`."""
    return f"{name} ({unit})" if unit else name
