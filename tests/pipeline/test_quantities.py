"""Exact numbers, many at once and with units of their own."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import lcm
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document
from pipesched.file_formats.files import Text, read_document
from pipesched.pipeline.problem.quantities import (
    MEMORY,
    TIME,
    Unit,
    canonical,
    exact,
    has_unit,
    in_one_scale,
    plain_numbers,
    read_number,
    to_fraction,
)

numbers = st.one_of(
    st.integers(-1, 2 * 10**12),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 100),
    st.decimals(0, 10**6, places=4).map(float),
    st.sampled_from([0.1 + 0.2, 1e-9, 1e-10, -0.0, 123456789.25, 999999999, 1234567890]),
)
shares = st.one_of(
    st.integers(0, 10**6), st.decimals(0, 10**6, places=5).map(float), st.fractions(0, 9), st.floats(0, 9)
)


@given(st.lists(numbers, max_size=5), st.sampled_from([None, 9]))
def test_plain_numbers(values: list[Any], most_digits: int | None) -> None:
    """They are what each is alone, read or rounded; what one of them is refused for is left to others."""
    found = plain_numbers(values, most_digits)
    if found is not None:
        alone = tuple(canonical((to_fraction if most_digits is None else exact)(value)) for value in values)
        assert (found, [*map(type, found)]) == (alone, [*map(type, alone)])


def test_plain_numbers_of_users() -> None:
    """Whole numbers and short decimals are read at once; no others are."""
    assert plain_numbers([3, 0, 0.25, 2.0], 9) == (3, 0, 0.25, 2)
    for value in (1.23456789012, 1234567891, -1, 1e-10, 2e12, True, "1", Fraction(1, 3)):
        assert plain_numbers([1, value], 9) is None


@given(st.lists(shares.filter(lambda one: not isinstance(one, float) or one == 0 or one > 1e-300), max_size=5))
def test_in_one_scale(values: list[Any]) -> None:
    """They are whole multiples of 1/scale, the least scale for which they are."""
    ints, scale = in_one_scale(values)
    exactly = [to_fraction(value) for value in values]
    assert [Fraction(one, scale) for one in ints] == exactly
    assert scale == lcm(1, *(one.denominator for one in exactly))


# Values with units of their own: exact in the unit of the problem, or refused with what would make them so.

BY_KEY = {"time_unit": TIME, "memory.unit": MEMORY}
SIZES = {  # of the units, written again, in the smallest of their kind
    "time_unit": {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
    "memory.unit": {
        "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
        "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    },
}  # fmt: skip
PAIRS = [(key, *pair) for key, sizes in SIZES.items() for pair in product(sizes, sizes)]
CONFIG = "devices: 2\nmicrobatches: 4\n"


@given(st.decimals(0, 999, places=2), st.sampled_from(PAIRS), st.sampled_from(["", " ", "  "]))
def test_a_value_means_the_same_in_every_unit(number: Decimal, case: tuple[str, str, str], blank: str) -> None:
    """Number times size of its unit is what was read times the size of the problem's unit, exactly."""
    key, own, target = case
    dimension, text = BY_KEY[key], f"{number}{blank}{own}"
    due = Fraction(number) * SIZES[key][own] / SIZES[key][target]
    assert has_unit(text)
    if dimension is MEMORY or not 0 < due < Fraction(1, 10**9):
        assert read_number(text, Unit(dimension, target), "forward") == due
    else:
        with pytest.raises(ConfigError, match=f"is too small: .*, or 0 .in {target}.; choose another `time_unit`"):
            read_number(text, Unit(dimension, target), "forward")


@given(st.decimals(-999, 999, places=3), st.sampled_from(["", "ms", "GB", "ticks"]))
def test_plain_numbers_are_in_the_unit_of_the_problem(number: Decimal, label: str) -> None:
    """Whatever the label says, a number without a unit is what it was."""
    assert read_number(str(number), Unit(TIME, label), "forward") == Fraction(number)
    assert not has_unit(str(number))


@pytest.mark.parametrize("label", ["ms", "msec", "Milliseconds", " ms "])
def test_labels_may_be_spelled_out(label: str) -> None:
    assert read_number("250us", Unit(TIME, label), "forward") == Fraction(1, 4)


@pytest.mark.parametrize("text", ["250us", "250 us", "250µs", "250 μs", "0.25ms", ".25 ms", "2.5e-1ms", "+250e3ns"])
def test_spellings(text: str) -> None:
    """A blank, either micro sign and an exponent are fine."""
    assert read_number(text, Unit(TIME, "ms"), "forward") == Fraction(1, 4)


def test_a_problem_holds_plain_numbers() -> None:
    """make_problem takes texts with units, in lists too, and the problem is the one of plain numbers."""
    plain = pipesched.make_problem(
        devices=2, forward=[0.25, 1], backward=2, p2p=0.01, activation=0.5, budget=8, static=1.5, time_unit="ms",
        unit="GB",
    )  # fmt: skip
    measured = pipesched.make_problem(
        devices=2, forward=["250us", "1ms"], backward="2 ms", p2p="10us", activation="500MB", budget="8GB",
        static="0.0015TB", time_unit="ms", unit="GB",
    )  # fmt: skip
    assert measured == plain
    assert measured.costs.forward == (0.25, 1)


def test_a_config_and_its_overrides() -> None:
    """In a file and on top of it, the unit key may stand anywhere."""
    text = (
        f"{CONFIG}costs: {{forward: [250us, 1 ms], backward: 2ms}}\nmemory: {{budget: 8GB, unit: GB}}\ntime_unit: ms\n"
    )
    problem = pipesched.load(text, p2p="10us", activation="1GiB")
    assert (problem.costs.forward, problem.costs.p2p) == ((0.25, 1), (0.01,))
    assert set(map(to_fraction, problem.memory.activation)) == {Fraction(2**30, 10**9)}


@pytest.mark.parametrize("size", ["1kB", "1234.567MB", "500MB", "1B", "80GB"])
@pytest.mark.parametrize("unit", ["GiB", "TiB", "GB", "KiB"])
def test_documents_hold_converted_memory(size: str, unit: str) -> None:
    """What is no short decimal in the unit of the problem is read back from JSON as the same number."""
    problem = pipesched.make_problem(devices=2, activation=size, unit=unit)
    outcome = read_document(Text(dump(document(pipesched.run(problem, "1f1b"))), "kept.json"))
    assert isinstance(outcome, pipesched.Outcome)
    assert outcome.problem.memory == problem.memory
    assert json.loads(dump(document(outcome)))["problem"]["memory"]["unit"] == unit


@pytest.mark.parametrize(
    ("field", "values", "read"),
    [("p2p", ["250us", 1, "2ms"], [0.25, 1, 2]), ("memory.budget", ["9000MB", "10GB"], [9, 10])],
)
def test_sweeps_over_values_with_units(field: str, values: list[str], read: list[float]) -> None:
    """The points are plain numbers in the unit of the problem."""
    text = f"{CONFIG}time_unit: ms\nmemory: {{unit: GB}}\n"
    sweep = pipesched.sweep(text, field, values, "1f1b")
    assert [point.value for point in sweep] == read
    with pytest.raises(ConfigError, match="'5ms' is no number"):
        pipesched.sweep(text, "microbatches", ["5ms"], "1f1b")
