"""A sweep: one field of the problem at several values."""

from __future__ import annotations

import pytest

from pipesched.config.fields import OPTIONS, PLACEMENT
from pipesched.config.load import load_problem, sweep_problems
from pipesched.errors import ConfigError

NUMERIC = sorted(option for option, field in OPTIONS.items() if field.shape != PLACEMENT)


@pytest.mark.parametrize(
    ("sweep", "key"),
    [
        ("microbatches=4,8", "microbatches"),
        ("--microbatches=4,8", "microbatches"),
        ("forward=4,8", "costs.forward"),
        ("costs.forward=4,8", "costs.forward"),
        ("p2p = 4 , 8", "costs.p2p"),
        ("recompute=4,8", "costs.recompute"),
        ("recompute-cost=4,8", "costs.recompute"),
        ("recompute_cost=4,8", "costs.recompute"),
        ("budget=4,8", "memory.budget"),
        ("mem-budget=4,8", "memory.budget"),
    ],
)
def test_field_by_any_of_its_names(sweep: str, key: str) -> None:
    """A field is named by its key, the last part of it, or its option; each value is that option's override."""
    (option,) = [option for option, field in OPTIONS.items() if field.key == key]
    field, points, _ = sweep_problems(None, {}, sweep)
    assert field == key
    assert points == [(value, load_problem(None, {option: value})) for value in ("4", "8")]


@pytest.mark.parametrize("option", NUMERIC)
def test_every_numeric_option_can_be_swept(option: str) -> None:
    """Each option that takes numbers can be swept, a half of the backward together with the other half."""
    halves = {"--backward-input": "1", "--backward-weight": "1"}
    given = halves if option in halves else {}
    value = "8" if option in ("--stages", "--microbatches") else "1"
    field, points, _ = sweep_problems(None, given, f"{option.strip('-')}={value}")
    assert (field, len(points)) == (OPTIONS[option].key, 1)


def test_sweep_goes_on_top_of_the_options() -> None:
    """The other options hold at every point, and the swept field replaces an option of the same field."""
    _, points, _ = sweep_problems(None, {"--devices": "2", "--microbatches": "99"}, "microbatches=1,2")
    assert [(point.devices, point.microbatches) for _, point in points] == [(2, 1), (2, 2)]


@pytest.mark.parametrize(
    ("sweep", "fragments"),
    [
        ("", ["--sweep", "unknown field", "microbatches"]),
        ("foo=1", ["--sweep", "unknown field 'foo'", "microbatches"]),
        ("name=1", ["--sweep", "'name' cannot be swept"]),
        ("placement=loop", ["--sweep", "cannot be swept"]),
        ("microbatches", ["--sweep", "no values", "microbatches=4,8,16,32"]),
        ("microbatches=", ["--sweep", "no values"]),
        ("microbatches=,", ["--sweep", "no values"]),
        ("microbatches=4,abc", ["--sweep", "'abc' is no number"]),
        ("microbatches=4,nan", ["--sweep", "'nan' is no number"]),
        ("microbatches=0", ["--microbatches", "at least 1", "not 0"]),
        ("microbatches=2.5", ["--microbatches", "whole number", "2.5"]),
        ("stages=8,2", ["--stages", "number of devices (4)", "not 2"]),
        ("forward=-1", ["--forward", "at least 0"]),
        ("budget=0", ["--mem-budget", "more than 0"]),
        ("forward=1e400", ["--forward", "more than 9 digits"]),
        ("forward=1e99999999999999999999", ["1e99999999999999999999"]),
    ],
)
def test_bad_sweep(sweep: str, fragments: list[str]) -> None:
    """A bad field or value of a sweep is told by what was found and what is known."""
    with pytest.raises(ConfigError) as error:
        sweep_problems(None, {}, sweep)
    for fragment in fragments:
        assert fragment in str(error.value)
