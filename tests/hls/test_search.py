"""The searches as callers know them: their answers, and what they take."""

from __future__ import annotations

from inspect import signature
from typing import Any

from pipesched import hls

GRAPH = hls.parse_program("p = a+b\nq = e+f\nr = c+d\ns = g+h\ny = p*r + q*s")
UNITS = hls.make_units({"add": 2, "mul": 1})


def test_answers_of_a_small_sum() -> None:
    """Each search proves its answer, on one worker with a seed."""
    settings: dict[str, Any] = {"time_limit": 20, "workers": 1, "seed": 3}
    found = hls.solve(GRAPH, UNITS, **settings)
    assert (found.objective, found.bound, found.status) == (4, 4, "optimal")
    loop = hls.pipeline(GRAPH, UNITS, **settings)
    assert (loop.objective, loop.bound) == (3, 3)
    table = hls.compare_rules(GRAPH, UNITS, **settings)
    assert table.optimum.objective == min(result.latency for result in table.results.values()) == 4


def test_all_searches_take_the_same_settings() -> None:
    """What may be said of one search may be said of all, with the same defaults."""
    kinds = {str(list(signature(one).parameters.values())) for one in (hls.solve, hls.pipeline, hls.compare_rules)}
    assert len(kinds) == 1
    assert [*signature(hls.solve).parameters] == ["graph", "units", "time_limit", "workers", "seed"]
