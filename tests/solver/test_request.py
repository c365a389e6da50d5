"""What a solve is asked, as one record, and its policy: defaults, comments, and that it reaches every part."""

from __future__ import annotations

import inspect
import re
from dataclasses import FrozenInstanceError, asdict, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.kinds import KEEP_ONLY, Allowed
from pipesched.solver import policy
from pipesched.solver.feasible import cases_of
from pipesched.solver.model import full_model
from pipesched.solver.policy import DEFAULT, CasePolicy, ExactPolicy, PortfolioPolicy, SolvePolicy
from pipesched.solver.portfolio import ruled_candidates
from pipesched.solver.request import SolveRequest
from pipesched.solver.solve import solve_request

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


V = pipesched.make_problem(devices=4, stages=8, microbatches=12, forward=5, backward=10, p2p=1, budget=3, placement="v")


def test_every_part_is_frozen() -> None:
    for part in [DEFAULT, *(getattr(DEFAULT, field.name) for field in fields(DEFAULT))]:
        assert is_dataclass(part)
        with pytest.raises(FrozenInstanceError):
            setattr(part, fields(part)[0].name, 1)


def test_every_number_has_a_unit_and_a_sentence() -> None:
    """In the comment behind it: the unit, a colon, and what it is for."""
    lines = Path(policy.__file__).read_text(encoding="utf-8").splitlines()
    numbers = [line for line in lines if re.match(r"    \w+: (int|float|tuple)", line)]
    assert len(numbers) == sum(map(len, asdict(DEFAULT).values()))
    assert [line for line in numbers if not re.search(r" = .+  # [\w x-]+: \w.{5,}[^.]$", line)] == []


def test_a_solve_takes_it() -> None:
    """Without time for rules of list scheduling, their best schedule is not found."""
    problem = pipesched.make_problem(devices=3, stages=6, microbatches=5, forward=5, backward=10, budget=2.5)
    hasty = SolvePolicy(portfolio=PortfolioPolicy(part=0.0))
    usual, poor = (
        solve_request(SolveRequest(problem, method="portfolio", advice=False, policy=each)).report
        for each in (DEFAULT, hasty)
    )
    assert usual is not None
    assert poor is not None
    assert (usual.source, usual.value) == ("list (longest-tail)", 195)
    assert poor.value > 195


@pytest.mark.parametrize("allowed", [KEEP_ONLY, Allowed(recompute=True)])
def test_every_case_has_it(allowed: Allowed) -> None:
    """Those of a solve, and those that advice tries."""
    asked = SolvePolicy(cases=CasePolicy(easy=1))
    assert all(case.policy is asked for case in cases_of(V, None, allowed, asked))
    assert all(case.policy is DEFAULT for case in cases_of(V, None, allowed))


def test_what_is_large_is_its_to_say() -> None:
    """Rules with every tie, and how CP-SAT searches, by the number of operations."""
    (case,) = cases_of(V, None, KEEP_ONLY, SolvePolicy(portfolio=PortfolioPolicy(slow=191)))
    assert case.index.size == 192
    assert not any(candidate.source.startswith("list (none") for candidate in ruled_candidates(case))
    (case,) = cases_of(V, None, KEEP_ONLY, SolvePolicy(cases=CasePolicy(easy=191), exact=ExactPolicy(relaxed=191)))
    assert not full_model(case, 0, 10_000).is_small
