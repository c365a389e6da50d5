"""The searches as callers know them: the same answers as with limits, and what they take."""

from __future__ import annotations

from inspect import signature
from typing import Any

from pipesched import hls
from pipesched.core.cpsat import Limits
from pipesched.hls import modulo, outcome

GRAPH = hls.parse_program("p = a+b\nq = e+f\nr = c+d\ns = g+h\ny = p*r + q*s")
UNITS = hls.make_units({"add": 2, "mul": 1})


def test_answers_are_those_of_the_search_with_limits() -> None:
    """Each public search is the one below it, with the numbers as its limits."""
    settings: dict[str, Any] = {"time_limit": 20, "workers": 1, "seed": 3}
    limits = Limits(seconds=20, workers=1, seed=3)
    found, due = hls.solve(GRAPH, UNITS, **settings), outcome.solve(GRAPH, UNITS, limits)
    assert (found.objective, found.bound, found.status) == (due.objective, due.bound, "optimal") == (4, 4, "optimal")
    loop, own = hls.pipeline(GRAPH, UNITS, **settings), modulo.pipeline(GRAPH, UNITS, limits)
    assert (loop.objective, loop.bound) == (own.objective, own.bound)
    table, rules = hls.compare_rules(GRAPH, UNITS, **settings), outcome.compare_rules(GRAPH, UNITS, limits)
    assert (table.results, table.remarks) == (rules.results, rules.remarks)


def test_all_searches_take_the_same_settings() -> None:
    """What may be said of one search may be said of all, with the same defaults."""
    kinds = {str(list(signature(one).parameters.values())) for one in (hls.solve, hls.pipeline, hls.compare_rules)}
    assert len(kinds) == 1
    assert [*signature(hls.solve).parameters] == ["graph", "units", "time_limit", "workers", "seed"]
