"""Numbers of a config: exact, with units, rounded."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import Problem, make_problem
from pipesched.config.load import load as load_problem, load_config
from pipesched.config.values import Source
from pipesched.pipeline.problem.quantities import (
    OutOfLimits,
    exact,
    grains_per_unit,
    in_units,
    parse_number,
    simplest,
    ticks_per_unit,
)


@st.composite
def decimals(draw: st.DrawFn) -> Decimal:
    """A decimal of at most 9 digits, as a user may write it."""
    places = draw(st.integers(0, 9))
    return Decimal(draw(st.integers(0, 10**9 - 1))).scaleb(-places)


@given(decimals())
def test_exact_is_the_same_for_every_spelling(number: Decimal) -> None:
    """A number means the same as Decimal, float, Fraction, text, and as int when it is whole."""
    value = exact(number)
    assert value == Fraction(str(number))
    assert exact(value) == exact(f" {number} ") == exact(f"{value.numerator}/{value.denominator}") == value
    assert exact(float(number)) == value
    assert exact(parse_number(str(number))) == value
    if value.denominator == 1:
        assert exact(int(number)) == value


@given(st.lists(decimals(), min_size=1, max_size=6))
def test_ticks_go_back_to_units(numbers: list[Decimal]) -> None:
    """Scaled to ticks and back, every number is the one that was written, and the scale is a power of ten."""
    values = [exact(number) for number in numbers]
    scale = ticks_per_unit(values)
    assert set(str(scale)[1:]) <= {"0"}
    for number, value in zip(numbers, values, strict=True):
        ticks = value * scale
        assert ticks.denominator == 1
        assert in_units(int(ticks), scale) == float(number)
    assert scale == 1 or any((value * (scale // 10)).denominator > 1 for value in values)


@given(st.lists(st.fractions(0, 100, max_denominator=60), min_size=1, max_size=6))
def test_grains_go_back_to_units(values: list[Fraction]) -> None:
    """Fractions such as thirds become whole grains, and come back from JSON's floats as the same fractions."""
    scale = grains_per_unit(values)
    for value in values:
        grains = value * scale
        assert grains.denominator == 1
        assert simplest(Decimal(repr(in_units(int(grains), scale)))) == value


@given(decimals())
def test_simplest_reads_decimals_back(number: Decimal) -> None:
    """A decimal written as a float is read back as that decimal."""
    assert simplest(Decimal(repr(float(number)))) == Fraction(number)


@pytest.mark.parametrize("value", [True, "five", "1/0", [5], float("nan"), Decimal("-Infinity"), 1j])
def test_exact_refuses(value: object) -> None:
    """What is no finite number is refused."""
    with pytest.raises(ValueError, match="not a"):
        exact(value)


@given(st.integers(0, 10**24 - 1), st.integers(0, 20))
def test_exact_rounds_half_up(digits: int, places: int) -> None:
    """A number of more than 9 significant digits is the one of 9 that the decimal module rounds it to."""
    number = Decimal(digits).scaleb(-places)
    if number and not Decimal("1e-9") <= number <= 10**12:
        with pytest.raises(OutOfLimits):
            exact(number)
        return
    assert (
        exact(number) == exact(str(number)) == Fraction(Context(prec=9, rounding=ROUND_HALF_UP).create_decimal(number))
    )


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        ("0.1234567885", Fraction(123456789, 10**9)),
        ("1.2345678949999", Fraction(123456789, 10**8)),
        ("999999999.95", 10**9),
        ("999999999999.5", 10**12),
        ("1234567895000", None),
        ("0.0000000009999", None),
        ("-1e13", None),
        ("1e-4001", None),
        ("1e400", None),
    ],
)
def test_rounding_and_limits(digits: str, value: int | Fraction | None) -> None:
    """Half a last digit is rounded up; magnitudes outside 1e-9 to 1e12 are refused, whatever they would round to."""
    if value is None:
        with pytest.raises(OutOfLimits, match=r"is too (large: at most 1e12|small: at least 1e-9, or 0)"):
            exact(Decimal(digits))
    else:
        assert exact(Decimal(digits)) == value


def test_floats_count_as_they_print() -> None:
    """Sums of floats lose what they have beyond 9 digits; fractions, which programs compute, keep all."""
    assert exact(0.1 + 0.2) == Fraction(3, 10)
    assert exact(Fraction(1, 3)) == exact("1/3") == Fraction(1, 3)


@pytest.mark.parametrize(
    "text",
    [*("", " ", ".", "e5", "1e", "1,5", "0x1", "1_0", "--1", "nan", "inf", "١", "1 2", "1/2"),
     "1e99999999999999999999", "1e-99999999999999999999", "9e9999999999999999999999999"],
)  # fmt: skip
def test_parse_number_refuses(text: str) -> None:
    """Only plain decimals are numbers."""
    with pytest.raises(ValueError, match=r"not a number|is too (large|small)"):
        parse_number(text)


Load = Callable[..., Problem]
SIZES = "devices: 2\nsizes:\n  work: [1, 2, 3]\n  activation: [3, 2, 1]\n"
SLICES = "devices: 2\nslices:\n  count: 4\n  attention: 0.5\n  overhead: 1\n"
OPEN = "devices: 2\nslices: {count: auto, most: 8, tokens: work, attention: 0.5}\n"


@pytest.mark.parametrize(
    ("text", "overrides", "meant"),
    [  # a file, what is laid over it, the same for make_problem
        (SIZES, {}, {"sizes": {"work": [1, 2, 3], "activation": [3, 2, 1]}}),
        (SIZES, {"sizes": {"work": [4, 5, 6]}}, {"sizes": {"work": [4, 5, 6], "activation": [3, 2, 1]}}),
        (SIZES, {"sizes": {"work": None}}, {"sizes": {"activation": [3, 2, 1]}}),
        (SIZES, {"sizes": None}, {}),
        (SIZES, {"microbatches": 3}, {"sizes": {"work": [1, 2, 3], "activation": [3, 2, 1]}}),
        (SLICES, {}, {"slices": {"count": 4, "attention": 0.5, "overhead": 1}}),
        (SLICES, {"slices": 2}, {"slices": {"count": 2, "attention": 0.5, "overhead": 1}}),
        (SLICES, {"slices": {"overhead": 0}}, {"slices": {"count": 4, "attention": 0.5}}),
        (SLICES, {"slices": {"count": 2, "work": [0.5, 0.5]}},
         {"slices": {"count": 2, "work": [0.5, 0.5], "overhead": 1}}),
        (SLICES, {"slices": None}, {}),
        (OPEN, {"slices": 2}, {"slices": {"count": 2, "tokens": "work", "attention": 0.5}}),
        (OPEN, {"slices": "auto"}, {"slices": {"count": "auto", "most": 8, "tokens": "work", "attention": 0.5}}),
        ("devices: 2\nslices: 4", {"slices": {"overhead": 1}}, {"slices": {"count": 4, "overhead": 1}}),
        ("devices: 2\nslices: 4", {"slices": 3}, {"slices": 3}),
        ("devices: 2\nmode: forward", {"mode": "train"}, {}),
        ("devices: 2\nmode: forward\nrounds: 2", {"rounds": 3}, {"mode": "forward", "rounds": 3}),
        ("devices: 2\nmode: forward\nslices: 2\ncosts: {backward: 3, recompute: 1, overlap: 3, offload: 2}", {},
         {"mode": "forward", "slices": 2}),
        ("devices: 2\nmemory: {kv: 0.5}", {"kv": 0.25}, {"kv": 0.25}),
        ("devices: 2\nsizes:", {}, {}),
        ("devices: 2\ncosts: {forward: [[1, 2, 3], 4]}", {}, {"forward": [[1, 2, 3], 4]}),
        ("devices: 2\ncosts: {forward: [[1, 2, 3], 4]}", {"forward": 2}, {"forward": 2}),
        ("devices: 2\ntime_unit: ms\ncosts: {p2p: [[1, 250us, 3]]}", {}, {"p2p": [[1, 0.25, 3]], "time_unit": "ms"}),
    ],
)  # fmt: skip
def test_meaning(load: Load, text: str, overrides: dict[str, Any], meant: dict[str, Any]) -> None:
    """Factors and how slices are cut go entry by entry on top of a file; a number of slices replaces their number."""
    assert load(text, **overrides) == make_problem(devices=2, **meant)


@pytest.mark.parametrize("overrides", [{"sizes": {"work": [1, 2, 3]}}, {"forward": [[1, 2, 3], *[4] * 7]}])
def test_lists_replace_the_microbatches_of_the_built_in_default(overrides: dict[str, Any]) -> None:
    """Without a config there are as many microbatches as the lists have."""
    assert load_problem(None, **overrides).microbatches == 3


def test_digits_that_count(load: Load) -> None:
    """A share of sixteen digits is the third that it spells; a factor of ten digits is rounded, and that is noted."""
    thirds = ", ".join(["0.3333333333333333"] * 3)
    problem = load(f"devices: 2\nslices: {{count: 3, tokens: [{thirds}], work: [{thirds}]}}")
    assert problem.slices == make_problem(devices=2, slices=3).slices
    text = "devices: 2\nsizes: {work: [1, 1.2345678912]}\nslices: {count: 2, overhead: 0.12345678912}\n"
    config = load_config(text, {})
    assert config.problem.sizes is not None
    assert config.problem.sizes.work[1] == 1.23456789
    assert config.rounded == (
        "<text>:2: sizes.work[1]: more than 9 digits, rounded to 1.23456789; 1 more number is rounded"
    )


LONG = Decimal("0.12345678951")
SETUP = {"model": "llama-3-8b", "parallel": {"gpus": 8, "pipeline": 4}, "batch": {"sequence": 4096, "global": 32}}


def note(text: str, **overrides: object) -> str | None:
    """What is said of a config with overrides."""
    return load_config(Source(text, "c.yaml"), overrides).rounded


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        ("devices: 2", {}, None),
        ("devices: 2", {"forward": 0.123456789, "activation": "1/3"}, None),
        ("devices: 2\ncosts: {forward: 0.12345678951}", {},
         "c.yaml:2: costs.forward: more than 9 digits, rounded to 0.12345679"),
        ("devices: 2\nmemory: {retain: [1, 0.1234567885]}", {"p2p": LONG},
         "c.yaml:2: memory.retain[1]: more than 9 digits, rounded to 0.123456789; 1 more number is rounded"),
        ("devices: 2", {"p2p": 0.1 + 0.2, "budget": [LONG, 12345678901], "name": "0.12345678951"},
         "`costs.p2p`: more than 9 digits, rounded to 0.3; 2 more numbers are rounded"),
        ("devices: 2\nlayers: 4\nlayer:\n  forward: 1\n  static: 12345.678951", {},
         "c.yaml:5: layer.static: more than 9 digits, rounded to 12345.679"),
        ("devices: 2\ntime_unit: ms\ncosts: {forward: 1.234567891234us}", {},
         "c.yaml:3: costs.forward: more than 9 digits, rounded to 1.23456789"),
        ("devices: 2\nalgorithm:\n  block:\n    period: 6.123456789012\n    forward: [0, 1]\n    backward: [4, 2]", {},
         "c.yaml:4: algorithm.block.period: more than 9 digits, rounded to 6.12345679"),
        ("devices: 2\nalgorithm: {list: {seed: 12345678901}}", {}, None),
    ],
)  # fmt: skip
def test_note(text: str, overrides: dict[str, object], said: str | None) -> None:
    """The note names the first place, a file's by its line, and how many more there are; whole numbers stay whole."""
    assert note(text, **overrides) == said


def test_rounding_in_a_setup(tmp_path: Path) -> None:
    """Numbers of GPUs and shares are rounded too, also in a file of shares; all else is of what they count as."""
    profile = tmp_path / "shares.yaml"
    profile.write_text("core: 0.25\nkernel: 8.12345678951\n")
    overrides = {
        **SETUP,
        "hardware": {"preset": "h100-sxm", "bandwidth": Decimal("3000.12345678")},
        "training": {"efficiency": str(profile)},
    }
    found = load_config(None, overrides)
    assert found.rounded is not None
    assert found.rounded.startswith("`hardware.bandwidth`: more than 9 digits, rounded to 3000.12346; 1 more number")
    assert found.setup is not None
    assert (found.setup.hardware.bandwidth, found.setup.hardware.efficiency.kernel) == (3000.12346, 8.12345679)
    with pytest.raises(pipesched.ConfigError, match=r"hardware\.bandwidth: 1E-10 is too small: at least 1e-9, or 0"):
        load_config(None, {**overrides, "hardware": {"preset": "h100-sxm", "bandwidth": Decimal("1e-10")}})
