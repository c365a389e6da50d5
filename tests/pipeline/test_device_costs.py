"""Devices of other speeds and links between them: what operations last, what edges cost, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from pipesched import ConfigError, Problem, make_problem, run
from pipesched.core.timing import Times
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.check.check import check, violations
from pipesched.pipeline.plan.schedule import schedule_plan, timed_schedule
from pipesched.pipeline.problem.costs import at_speed
from pipesched.schedulers.registry import family

SPEED: dict[str, Any] = {"speed": [1, 1, 0.8, 1]}
LINKS: dict[str, Any] = {"links": {"size": 2, "inside": 1, "between": 3}}
GOLDEN = {  # makespans of equal devices, with SPEED, with LINKS, with both
    "naive": (165, 195, 175, 205),
    "1f1b": (165, 191.25, 195, 210),
    "eager-1f1b": (165, 182.5, 175, 192.5),
    "interleaved": (142.5, 166.25, 168.5, 186.625),
    "looped-bfs": (142.5, 172.5, 152.5, 182.5),
    "dualpipe": (130, 155, 149, 162.5),
}


def of_four(**given: Any) -> Problem:
    """Four devices, and what is given."""
    return make_problem(devices=4, **given)


@pytest.mark.parametrize("name", GOLDEN)
def test_makespans_of_devices_that_differ(name: str) -> None:
    """P4 M8, F 5 and B 10 of a device: makespans by hand of equal devices, other speeds, other links, and both."""
    chunks = family(name).chunks if isinstance(family(name).chunks, int) else 1
    chunks = 2 if name in ("interleaved", "looped-bfs") else chunks
    costs: dict[str, Any] = {"forward": Fraction(5, chunks), "backward": Fraction(10, chunks), "stages": 4 * chunks}
    found = [
        run(of_four(microbatches=8, **costs, **more), name).schedule.makespan
        for more in ({}, SPEED, LINKS, {**SPEED, **LINKS})
    ]
    assert tuple(found) == GOLDEN[name]


@pytest.mark.parametrize(
    ("cost", "speed", "lasts"),
    [
        ("5", "0.8", "6.25"),
        ("1", "0.7", "1.42857143"),
        ("1", "3", "0.333333333"),
        ("2", "3", "0.666666667"),
        ("0.000001", "7", "0.000000142857143"),
        ("100000000.5", "1", "100000000.5"),
        ("200000001", "2", "100000001"),  # half up
        ("0", "0.5", "0"),
    ],
)
def test_a_cost_at_a_speed(cost: str, speed: str, lasts: str) -> None:
    """A cost is divided by the speed and rounded half up to nine digits; at speed 1 it is as it was."""
    assert at_speed(Fraction(cost), Fraction(speed)) == Fraction(lasts)


def test_transfers_last_their_cost_on_every_device() -> None:
    """O and L take as long on a slow device; F, B and R there take longer."""
    problem = make_problem(
        devices=1, microbatches=1, forward=2, backward=4, recompute=3, offload=5, speed=["0.5"], placement="linear"
    )
    assert {letter: problem.ticks.of(letter)[0] / problem.ticks.per_unit for letter in "FBIWROL"} == {
        "F": 4, "B": 8, "I": 4, "W": 4, "R": 6, "O": 5, "L": 5,
    }  # fmt: skip


def test_links_have_a_direction() -> None:
    """An edge costs p2p and the link from its device; gradients go from the next stage's device back."""
    problem = make_problem(devices=2, p2p=2, links=[[0, 1], [5, 0]], placement="linear")
    assert (problem.ticks.mean["p2p"], problem.ticks.mean["p2p_back"]) == ((3,), (7,))


def test_no_latency_inside_a_device() -> None:
    """Neighbouring stages of one device are linked by nothing, whatever p2p and the links are."""
    problem = make_problem(devices=2, stages=4, p2p=2, links=[[0, 1], [1, 0]], placement="v")
    assert problem.ticks.mean["p2p"] == (3, 0, 3)


FORMS = [
    {"links": {"size": 2, "inside": 1, "between": 3}},
    {"links": {"groups": [[1, 0], [2, 3]], "inside": 1, "between": 3}},
    {"links": [[0, 1, 3, 3], [1, 0, 3, 3], [3, 3, 0, 1], [3, 3, 1, 0]]},
    {"links": {"size": 2, "inside": "1000us", "between": "3ms"}, "time_unit": "ms"},
]


@pytest.mark.parametrize("given", FORMS)
def test_forms_of_links(given: dict[str, Any]) -> None:
    """Groups of a size, groups that are listed, a matrix, and latencies with units are the same links."""
    assert of_four(**given).links == ((0, 1, 3, 3), (1, 0, 3, 3), (3, 3, 0, 1), (3, 3, 1, 0))


def test_a_last_group_may_be_smaller() -> None:
    """Three devices in groups of two: the last is alone."""
    assert make_problem(devices=3, links={"size": 2, "inside": 1, "between": 3}).links == (
        (0, 1, 3),
        (1, 0, 3),
        (3, 3, 0),
    )


@pytest.mark.parametrize("speed", [[1, 1, Decimal("0.8"), 1], {2: 0.8}, {"2": "0.8"}, (1, 1, "0.8", 1)])
def test_forms_of_speed(speed: Any) -> None:
    """A list, or numbers by device, the others 1."""
    assert of_four(speed=speed).speed == (1, 1, 0.8, 1)


WRONG = [
    ({"speed": [1, 1]}, "speed: a list here needs 4 numbers"),
    ({"speed": [1, 0, 1, 1]}, "speed: device 1 needs a speed from 0.001 to 1000, not 0"),
    ({"speed": {2: 1001}}, "speed: device 2 needs"),
    ({"speed": {4: 1}}, "speed: device 4 is out of range"),
    ({"speed": {"two": 1}}, "speed: 'two' is no device"),
    ({"speed": "fast"}, "speed: must be a number"),
    ({"links": 4}, "links: must be {size: 4"),
    ({"links": [[0, 1], [1, 0]]}, "links: needs 4 lists"),
    ({"links": [[0, 1], [1, 0], [1, 1], [1, 1]]}, "links: from device 0: needs 4 numbers"),
    ({"links": [[0, 1, 1, 1]] * 4}, "links: device 1 reaches itself in 0, not in 1"),
    ({"links": [[0, 1, 1, "x"]] * 4}, "links: from device 0 to 3: must be a number"),
    ({"links": {"size": 0, "inside": 1, "between": 1}}, "links: `size` must be a whole number"),
    ({"links": {"size": 2, "groups": [[0]], "inside": 1, "between": 1}}, "links: one of `size` and `groups`"),
    ({"links": {"size": 2, "inside": 1}}, "links: `between` is missing"),
    ({"links": {"size": 2, "inside": 1, "between": -1}}, "links: `between`: must be at least 0"),
    ({"links": {"size": 2, "inside": 1, "within": 1}}, "links: unknown key 'within'"),
    ({"links": {"groups": [[0, 1], [1, 2, 3]], "inside": 1, "between": 1}}, "links: `groups` name device 1 twice"),
    ({"links": {"groups": [[0, 1], [3]], "inside": 1, "between": 1}}, "links: `groups` miss device 2"),
    ({"links": {"groups": [[0, 1], [2, 7]], "inside": 1, "between": 1}}, "links: device 7 is out of range"),
    ({"links": {"groups": 3, "inside": 1, "between": 1}}, "links: `groups` are lists of devices"),
]


@pytest.mark.parametrize(("given", "text"), WRONG, ids=[text for _, text in WRONG])
def test_what_is_refused(given: dict[str, Any], text: str) -> None:
    """Bad lengths, speeds, groups and matrices name the key and the device."""
    with pytest.raises(ConfigError) as caught:
        of_four(**given)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(("more", "broken"), [(SPEED, "2F0 lasts 5, not 6.25"), (LINKS, "1F0 starts at 5, before")])
def test_the_check_knows_speeds_and_links(more: dict[str, Any], broken: str) -> None:
    """A schedule of equal devices breaks the rules of devices that differ, and its own schedule keeps them."""
    costs: dict[str, Any] = {"forward": 5, "backward": 10, "microbatches": 8, "placement": "linear"}
    plain, other = of_four(**costs), of_four(**costs, **more)
    schedule = run(plain, "1f1b").schedule
    ticks = other.ticks.per_unit // plain.ticks.per_unit
    starts, ends = ([time * ticks for time in column] for column in (schedule.start_ticks, schedule.end_ticks))
    claimed = timed_schedule(other, schedule.plan, Times(starts, ends), schedule.graph)
    assert any(sentence.startswith(broken) for sentence in violations(claimed))
    assert check(schedule_plan(other, schedule.plan)) == []


def test_ticks_are_the_same_for_fused_stages() -> None:
    """Times of a problem, of its stages fused and on every placement may be compared, whatever is rounded."""
    problem = of_four(stages=8, forward=["1", "0.3", "7", "0.01", "2", "5", "6", "1.7"], speed=[1, "0.7", 3, "0.9"])
    units = {
        run(problem, name).problem.ticks.per_unit for name in ("1f1b", "interleaved", "hanayo", "dualpipe", "zb-v")
    }
    assert units == {problem.ticks.per_unit}


def test_a_bound_of_mixed_backwards_counts_b_as_it_is_rounded() -> None:
    """dualpipe mixes B with I and W; B is rounded once, I and W each, and no bound is above the makespan."""
    outcome = run(of_four(microbatches=8, forward=1, backward=2, speed=["0.7", 3, 7, "0.9"]), "dualpipe")
    assert lower_bound(outcome.schedule).ticks <= outcome.schedule.makespan_ticks
