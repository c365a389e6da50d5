"""Integers, rounded up: times and memory are integers inside, and a lower bound may be rounded up only."""

from __future__ import annotations


def ceil_div(amount: int, parts: int) -> int:
    """Return amount / parts, rounded up to a whole number."""
    return -(-amount // parts)


def round_up(amount: int, quantum: int) -> int:
    """Return the least multiple of `quantum` that is no less than `amount`."""
    return ceil_div(amount, quantum) * quantum
