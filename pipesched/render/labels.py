"""Words of charts: what may stand in a slot, and numbers of things."""

from __future__ import annotations

LABELS = ("auto", "microbatch", "op", "stage", "none")


def counted(number: int, what: str, plural: str = "s") -> str:
    """`1 stage`, `2 stages`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}{plural}"
