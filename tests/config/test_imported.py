"""The problem of a foreign schedule: sizes and placement of the file, costs of the config."""

from __future__ import annotations

import pytest

from pipesched.config.imported import imported_problem
from pipesched.errors import ConfigError
from pipesched.pipeline.ops import Op
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import Plan, plan_from_slots
from pipesched.pipeline.problem import Problem

HOME = Placement((0, 1))


def plan(microbatches: int = 1) -> Plan:
    """Two stages on two devices, each forward only: what matters here is how many."""
    rows = [[Op(stage, "F", microbatch) for microbatch in range(microbatches)] for stage in range(2)]
    return plan_from_slots(rows, 2, microbatches)


def imported(**overrides: str) -> tuple[Problem, Problem]:
    """The problem of that plan under the built-in costs and some options."""
    options = {f"--{name.replace('_', '-')}": value for name, value in overrides.items()}
    return imported_problem(plan(), HOME, None, options, "x.csv")


def test_built_in_costs() -> None:
    """Without a config: the built-in costs, and every size from the file."""
    problem, given = imported()
    assert (problem.devices, problem.stages, problem.microbatches, problem.placement) == (2, 2, 1, HOME)
    assert (problem.costs.forward, problem.costs.backward) == ((5, 5), (10, 10))
    assert (given.placement, given.costs) == (None, problem.costs)


def test_groups_of_stages() -> None:
    """Six stages in the config are groups of three in the file."""
    problem, given = imported(stages="6", forward="1,2,3,4,5,6", placement="linear")
    assert (given.stages, problem.stages, problem.costs.forward) == (6, 2, (6, 15))
    assert problem.placement == HOME


@pytest.mark.parametrize("placement", ["1,0", "bidirectional"])
def test_another_placement(placement: str) -> None:
    """A placement that the file does not have is refused, and so are two copies of a stage."""
    with pytest.raises(ConfigError, match=r"--placement: x\.csv has its stages on devices \[0, 1\], not"):
        imported(placement=placement)
