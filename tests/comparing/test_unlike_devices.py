"""Devices of other speeds and links between them, where a problem is swept, derived from a model, or read again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched.cli.compare import read_sweep
from pipesched.config.load import load_values
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse
from pipesched.errors import ConfigError
from pipesched.estimation.trace import trace

PLAIN = "devices: 4\nmicrobatches: 8\nspeed: [1, 2, 1, 1]\ncosts: {forward: 5, backward: 10}"
MODEL: dict[str, Any] = {
    "model": "gpt2-xl",
    "hardware": "h100-sxm",
    "parallel": {"gpus": 4, "pipeline": 4},
    "batch": {"sequence": 512, "global": 8},
}


def test_a_sweep_of_one_device() -> None:
    """Device 2 takes each value, the others keep theirs; a range may have decimals, both ends included."""
    swept = read_sweep("speed[2]=0.5:1:0.25", load_values(PLAIN, {}), ["1f1b"])
    problems = [point.comparison[0].outcome.problem for point in swept.points]  # type: ignore[union-attr]
    assert [point.value for point in swept.points] == [0.5, 0.75, 1]
    assert [problem.speed for problem in problems] == [(1, 2, 0.5, 1), (1, 2, 0.75, 1), (1, 2, 1, 1)]
    assert swept.field == "speed[2]"


@pytest.mark.parametrize("base", [{}, {"speed": 2}, {"speed": {1: 3}}])
def test_a_sweep_over_any_form_of_speed(base: dict[str, Any]) -> None:
    """What is varied is laid over numbers by device, one number for all, and nothing."""
    swept = pipesched.sweep("devices: 3", "speed[0]", [0.5], ["1f1b"], overrides=base)
    others = {"{}": (1, 1), "{'speed': 2}": (2, 2), "{'speed': {1: 3}}": (3, 1)}[str(base)]
    assert swept.points[0].comparison[0].outcome.problem.speed == (0.5, *others)  # type: ignore[union-attr]


def test_a_device_that_is_not_there() -> None:
    """A sweep of a device that the problem lacks says so."""
    with pytest.raises(ConfigError, match="device 7 is out of range"):
        pipesched.sweep(PLAIN, "speed[7]", [1], ["1f1b"])


def test_documents_round_trip() -> None:
    """A document of every family with thirds as speeds and asymmetric links is read to the same problem and times."""
    problem = pipesched.make_problem(
        devices=4,
        stages=8,
        microbatches=6,
        forward=[1, 2, 3, 4, 5, 6, 7, 1.5],
        overlap=9,
        p2p=0.5,
        speed=[1, Fraction(1, 3), 0.7, 1.3],
        links=[[0, 1, 2, 3], [1, 0, "0.25", 1], [4, 5, 0, 6], [7, 8, 9, 0]],
    )
    for name in ("1f1b", "interleaved-overlap", "zb-v", "dualpipe", "chimera", "list"):
        outcome = pipesched.run(problem, name)
        text = dump(document(outcome))
        again = parse(text, "x.json")
        assert again.problem == outcome.problem
        assert dump(document(again)) == text
        assert pipesched.check(again) == []


def test_links_replace_the_network_of_a_model() -> None:
    """Beside a model links replace the derived latency, but not one that is given; speed divides its costs."""
    plain = pipesched.load(None, **MODEL)
    links: dict[str, Any] = {"links": {"size": 2, "inside": 1, "between": 3}}
    linked = pipesched.load(None, **MODEL, **links, speed={2: 0.8})
    both = pipesched.load(None, **MODEL, **links, p2p=0.5)
    assert any(plain.costs.p2p)
    assert not any(linked.costs.p2p)
    assert set(both.costs.p2p) == {0.5}
    with pytest.raises(ConfigError, match="`links` were given"):
        trace(pipesched.estimate(None, **MODEL, **links), "stage.0.p2p")
    assert linked.speed == (1, 1, 0.8, 1)
    assert pipesched.run(linked, "1f1b").schedule.makespan > pipesched.run(plain, "1f1b").schedule.makespan


def test_solve_is_no_longer_than_a_family_on_devices_that_differ() -> None:
    """On every placement and with each cut of layers a solve knows speeds and links, and its bound holds."""
    for sizes in ({"stages": 8}, {"layers": 13, "chunks": 2}):
        given: dict[str, Any] = {"devices": 4, "microbatches": 4, "speed": [1, 0.7, 3, 1], **sizes}
        problem = pipesched.make_problem(**given, links={"size": 2, "inside": 1, "between": 3})
        found = pipesched.solve(problem, time_limit=0.5, workers=1, advice=False)
        shortest = min(pipesched.run(problem, name).schedule.makespan for name in ("interleaved", "hanayo"))
        assert found.bound.value <= found.schedule.makespan <= shortest
