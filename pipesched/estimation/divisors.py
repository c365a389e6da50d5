"""Numbers that divide another one, all of them or the nearest ones for a message."""

from __future__ import annotations

from math import isqrt


def divisors(number: int) -> tuple[int, ...]:
    """Return the numbers that divide another, ascending."""
    small = [size for size in range(1, isqrt(number) + 1) if number % size == 0]
    return tuple(sorted({*small, *(number // size for size in small)}))


def nearest_divisors(number: int, of: int) -> str:
    """Return as text the divisors of a number that are nearest to another one, below and above it."""
    below = [size for size in divisors(of) if size <= number][-1:]
    above = [size for size in divisors(of) if size > number][:1]
    return " or ".join(map(str, below + above))


def nearest_multiples(number: int, of: int) -> str:
    """Return as text the multiples that are nearest to a number, below and above it."""
    low = number // of * of
    return f"{low} or {low + of}" if low else f"{of}"
