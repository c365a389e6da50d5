"""Placements: each by name, what they refuse, and the mirrored one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.placement import PLACEMENTS, Placement, named_placement, placement_name
from tests.oracle.alike import device_of


@pytest.mark.parametrize(
    ("name", "devices", "stages", "devices_of_stages"),
    [
        ("linear", 4, 4, [0, 1, 2, 3]),
        ("linear", 2, 6, [0, 0, 0, 1, 1, 1]),
        ("linear", 3, 5, [0, 0, 1, 1, 2]),
        ("linear", 1, 3, [0, 0, 0]),
        ("loop", 4, 8, [0, 1, 2, 3, 0, 1, 2, 3]),
        ("loop", 2, 3, [0, 1, 0]),
        ("v", 4, 8, [0, 1, 2, 3, 3, 2, 1, 0]),
        ("v", 1, 2, [0, 0]),
        ("wave", 2, 8, [0, 1, 1, 0, 0, 1, 1, 0]),
        ("wave", 3, 6, [0, 1, 2, 2, 1, 0]),
        ("bidirectional", 4, 4, [0, 1, 2, 3]),
        ("bidirectional", 4, 8, [0, 1, 2, 3, 3, 2, 1, 0]),
        ("bidirectional", 2, 8, [0, 1, 1, 0, 0, 1, 1, 0]),
    ],
)
def test_by_name(name: str, devices: int, stages: int, devices_of_stages: list[int]) -> None:
    """Where each named placement puts the stages, written out by hand (v as the config's reference lists it)."""
    placement = named_placement(name, devices, stages)
    assert list(placement.devices) == devices_of_stages
    assert placement.mirrored == (name == "bidirectional")


@given(st.sampled_from(sorted(PLACEMENTS)), st.integers(1, 6), st.integers(1, 24))
def test_sizes(name: str, devices: int, stages: int) -> None:
    """A placement takes S >= P; v only 2P, wave multiples of 2P, bidirectional P too; and it uses every device."""
    takes = {"v": stages == 2 * devices, "wave": stages % (2 * devices) == 0}
    takes["bidirectional"] = stages == devices or takes["wave"]
    if stages >= devices and takes.get(name, True):
        placement = named_placement(name, devices, stages)
        assert len(placement.devices) == stages
        assert set(placement.devices) == set(range(devices))
    else:
        with pytest.raises(ConfigError):
            named_placement(name, devices, stages)


@pytest.mark.parametrize(("name", "nearest"), [("v", "8"), ("wave", "8"), ("bidirectional", "8 or 16")])
def test_wrong_sizes_name_what_is_needed(name: str, nearest: str) -> None:
    """A number of stages that does not suit is answered with one that does."""
    with pytest.raises(ConfigError, match=nearest) as caught:
        make_problem(devices=4, stages=10, placement=name)
    assert caught.value.key == "placement"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0, 1, 2, 0], "device 2 is out of range; devices are 0 to 1"),
        ([0, -1, 1, 0], "device -1"),
        ([0, 0, 0, 0], "device 1 is left without a stage"),
        ([0, 1], "one device for each of the 4 stages"),
        ([0, 1, True, 0], "device numbers"),
        ([0, 1, "x", 0], "device numbers"),
        ([0, 1, None, 0], "device numbers"),
        ([0, 0.5, 1, 0], "device numbers"),
        ([0, float("nan"), 1, 0], "device numbers"),
        ("lop", "did you mean 'loop'"),
        (7, "a name or a list of devices"),
        ({"linear"}, "a name or a list of devices"),
        ([[0, 1, 1, 0], [0, 1, 1, 0]], r"the second list must mirror the first, as \[1, 0, 0, 1\] does"),
        ([[0, 1, 1, 0], [1, 0]], "one device for each of the 4 stages; this one has 2"),
        ([[0, 1, 1, 0], [1, 0, 0, "x"]], "device numbers"),
        ([[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]], "one device for each of the 4 stages; this one has 3"),
        ([[[0, 1, 1, 0], [1, 0, 0, 1]], [1, 0, 0, 1]], "the second list must mirror the first"),
    ],
)
def test_bad_values(value: Any, message: str) -> None:
    """A placement that cannot be is a ConfigError of the key `placement` that says what is wrong."""
    with pytest.raises(ConfigError, match=message) as caught:
        make_problem(devices=2, stages=4, placement=value)
    assert caught.value.key == "placement"


@pytest.mark.parametrize("value", [[0, 1, 1, 0], (0, 1, 1, 0), [0, "1", 1.0, Decimal(0)], np.array([0, 1, 1, 0])])
def test_lists_of_device_numbers(value: Any) -> None:
    """Device numbers may be written in any way in which a whole number may be."""
    assert make_problem(devices=2, stages=4, placement=value).placement == Placement((0, 1, 1, 0))


@given(st.permutations([0, 1, 2, 0, 2]))
def test_two_lists(devices_of_stages: list[int]) -> None:
    """Two lists, of which the second mirrors the first, are two copies; a config says them so again."""
    both = [devices_of_stages, [2 - device for device in devices_of_stages]]
    placement = make_problem(devices=3, stages=5, placement=both).settled_placement
    assert placement == Placement(tuple(devices_of_stages), mirrored=True)
    assert (placement.written, placement.said) == (both, f"{devices_of_stages} in both directions")


@given(st.integers(1, 4), st.integers(0, 2), st.integers(1, 2))
def test_two_copies_by_name(devices: int, waves: int, parts: int) -> None:
    """What a config says of two copies makes the same placement, also of stages in parts."""
    stages = devices * max(2 * waves, 1)
    placement = named_placement("bidirectional", devices, stages).in_blocks(stages * parts)
    again = make_problem(devices=devices, stages=stages * parts, placement=placement.written)
    assert again.placement == placement
    assert parts > 1 or placement.written == placement_name(placement, devices) == "bidirectional"


@pytest.mark.parametrize("value", ["auto", None])
def test_left_to_the_algorithm(value: str | None) -> None:
    """`auto` and None leave the placement open."""
    assert make_problem(devices=2, stages=4, placement=value).placement is None


@pytest.mark.parametrize("name", ["auto", "linear", "loop"])
def test_fewer_stages_than_devices(name: str) -> None:
    """A device without a stage is refused, whatever the placement."""
    with pytest.raises(ConfigError, match="4"):
        make_problem(devices=4, stages=3, placement=name)


@given(st.sampled_from(sorted(PLACEMENTS)), st.integers(1, 5), st.integers(1, 2))
def test_stages_on_are_those_that_run_there(name: str, devices: int, waves: int) -> None:
    """A device holds the weights of exactly the stages that some microbatch runs there."""
    stages = {"bidirectional": devices, "v": 2 * devices}.get(name, 2 * devices * waves)
    problem = make_problem(devices=devices, stages=stages, microbatches=4, placement=name)
    for device in range(devices):
        run_there = [s for s in range(stages) if device in {device_of(problem, s, mb) for mb in range(4)}]
        assert problem.settled_placement.stages_on(device) == run_there


def test_unsettled_placement() -> None:
    """Asking an `auto` problem where its stages live is an error, not a guess."""
    with pytest.raises(ConfigError, match="not settled"):
        _ = make_problem(devices=2).settled_placement
