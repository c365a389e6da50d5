"""The policy of a solve: its defaults, its comments, and that it reaches every part."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.pipeline.kinds import KEEP_ONLY, Allowed
from pipesched.solver import policy
from pipesched.solver.feasible import cases_of
from pipesched.solver.model import full_model
from pipesched.solver.policy import DEFAULT, CasePolicy, ExactPolicy, PortfolioPolicy, SolvePolicy
from pipesched.solver.portfolio import ruled_candidates
from pipesched.solver.request import SolveRequest
from pipesched.solver.solve import solve_request

V = pipesched.make_problem(devices=4, stages=8, microbatches=12, forward=5, backward=10, p2p=1, budget=3, placement="v")

DEFAULTS: dict[str, dict[str, Any]] = {
    "portfolio": {
        "part": 0.15, "slow": 1_000, "one_limit": 10_000, "pauses": (0, 2, 10), "looser": (1.5, 2, 3, None),
        "held": (1.0, 0.5, 0.0), "fruitless": 30,
    },
    "cases": {
        "first_part": 0.65, "justification_part": 0.1, "windows_part": 0.6,
        "easy": 300, "large": 3_500, "most_steps": 2_000_000,
    },
    "exact": {
        "before": 4e-4, "after": 5e-5, "relaxed": 1_000, "probed": 2_000,
    },
    "windows": {
        "first_size": 120, "least_size": 30, "most_size": 1_000, "fruitless": 300, "effort": 0.1,
    },
    "periods": {
        "part": 0.4, "unrolled": 20_000, "most_microbatches": 3, "most_on_device": 24,
        "first_runs": 2, "fruitless": 2, "most_runs": 64, "width": 100,
        "children": 12, "second": (0.0, 0.05, 0.15),
    },
    "advice": {
        "part": 0.1, "a_second": 80_000, "brief": 20_000,
    },
    "command": {
        "first_line": 0.2, "chart": 4e-6, "document": 8e-6, "classes": 2e-5, "classes_part": 0.05,
        "classes_least": 0.1, "least": 1e-3,
    },
}  # fmt: skip


def test_the_defaults() -> None:
    """Those that were measured (docs/results/solver.md): whoever changes one measures anew."""
    assert asdict(DEFAULT) == DEFAULTS


def test_every_part_is_frozen() -> None:
    for part in [DEFAULT, *(getattr(DEFAULT, field.name) for field in fields(DEFAULT))]:
        assert is_dataclass(part)
        with pytest.raises(FrozenInstanceError):
            setattr(part, fields(part)[0].name, 1)


def test_every_number_has_a_unit_and_a_sentence() -> None:
    """In the comment behind it: the unit, a colon, and what it is for."""
    lines = Path(policy.__file__).read_text(encoding="utf-8").splitlines()
    numbers = [line for line in lines if re.match(r"    \w+: (int|float|tuple)", line)]
    assert len(numbers) == sum(map(len, DEFAULTS.values()))
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
