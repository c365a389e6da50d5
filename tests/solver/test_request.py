"""What a solve is asked, as one record: the parameters of `solve`, checked when it is made."""

from __future__ import annotations

import inspect
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched.errors import ConfigError
from pipesched.pipeline.kinds import Allowed
from pipesched.solver.policy import DEFAULT
from pipesched.solver.request import SolveRequest

PROBLEM = pipesched.make_problem(devices=2, microbatches=4)
NOT_PUBLIC = {"whole_limit": None, "keeps_cuts": False, "policy": DEFAULT}


def test_its_fields_are_the_parameters_of_solve() -> None:
    """With their defaults, so that a command hands over what it is given; and those that only a command has."""
    asked = {field.name: field.default for field in fields(SolveRequest) if field.init}
    parameters = inspect.signature(pipesched.solve).parameters
    public = {name: parameter.default for name, parameter in parameters.items()}
    del asked["problem"], public["problem"]
    assert asked == {**public, **NOT_PUBLIC}


def test_what_follows_from_it() -> None:
    """The limits, the problem with the backward as asked, what is allowed, and where the search begins."""
    start = pipesched.run(PROBLEM, "1f1b")
    given: dict[str, Any] = {"time_limit": Decimal("2.5"), "gap": Fraction(1, 4), "seed": 3, "split_backward": True}
    request = SolveRequest(PROBLEM, hint=start, **given)
    assert (request.limits.seconds, request.limits.gap, request.limits.seed) == (2.5, 0.25, 3)
    assert request.split_problem.costs.split
    assert not request.problem.costs.split
    assert request.allowed == Allowed(False, False)
    assert request.start is start.schedule
    assert request.runs is None


def test_a_budget_instead_of_the_problem_s() -> None:
    """As `load` takes it: a number, a list, an amount with a unit; stages are cut for it."""
    problem = pipesched.make_problem(devices=2, microbatches=4, static=[10, 30], activation=1, unit="GB")
    for budget, limits in ((40, (40, 40)), ([20, 40], (20, 40)), ("40000 MB", (40, 40))):
        changed = pipesched.make_problem(
            devices=2, microbatches=4, static=[10, 30], activation=1, unit="GB", budget=budget
        )
        request = SolveRequest(problem, budget=budget)
        assert (request.problem, request.problem.memory.budget, request.budget) == (changed, limits, None)
    layers: Any = {"devices": 2, "layers": 6, "microbatches": 4, "layer": {"activation": 1}, "last": {"forward": 3}}
    assert SolveRequest(pipesched.make_problem(**layers), budget=7).problem == pipesched.make_problem(
        **layers, budget=7
    )
    with pytest.raises(ConfigError, match=r"^budget: a list here needs 2 numbers"):
        pipesched.solve(problem, budget=[1, 2, 3])
