"""Numbers near another one that divide, for messages."""

from __future__ import annotations

from math import isqrt


def nearest_divisors(number: int, of: int) -> str:
    """Return as text the divisors of a number that are nearest to another one, below and above it."""
    small = [size for size in range(1, isqrt(of) + 1) if of % size == 0]
    divisors = sorted({*small, *(of // size for size in small)})
    below = [size for size in divisors if size <= number][-1:]
    above = [size for size in divisors if size > number][:1]
    return " or ".join(map(str, below + above))


def nearest_multiples(number: int, of: int) -> str:
    """Return as text the multiples that are nearest to a number, below and above it."""
    low = number // of * of
    return f"{low} or {low + of}" if low else f"{of}"
