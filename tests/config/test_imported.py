"""The problem of a foreign schedule: sizes and placement of the file, costs of the config."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched.config.load import ImportedProblem, imported_problem, timed_by
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.plan import Plan, plan_from_slots
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.ops import Op
from pipesched.pipeline.problem.placement import Placement

HOME = Placement((0, 1))


def plan(microbatches: int = 1) -> Plan:
    """Two stages on two devices, each forward only: what matters here is how many."""
    rows = [[Op(stage, "F", microbatch) for microbatch in range(microbatches)] for stage in range(2)]
    return plan_from_slots(rows, 2, microbatches)


def imported(**overrides: Any) -> ImportedProblem:
    """The problem of that plan under the built-in costs and some overrides."""
    return imported_problem(plan(), HOME, None, overrides, "x.csv")


def test_built_in_costs() -> None:
    """Without a config: the built-in costs, and every size from the file."""
    problem, given = imported()
    assert (problem.devices, problem.stages, problem.microbatches, problem.placement) == (2, 2, 1, HOME)
    assert (problem.ticks.mean["forward"], problem.ticks.mean["backward"]) == ((5, 5), (10, 10))
    assert (given.placement, given.costs) == (None, problem.costs)


def test_groups_of_stages() -> None:
    """Six stages in the config are groups of three in the file."""
    problem, given = imported(stages=6, forward=[1, 2, 3, 4, 5, 6], placement="linear")
    assert (given.stages, problem.stages, problem.ticks.mean["forward"]) == (6, 2, (6, 15))
    assert problem.placement == HOME


@pytest.mark.parametrize("placement", [[1, 0], "bidirectional"])
def test_another_placement(placement: str | list[int]) -> None:
    """A placement that the file does not have is refused, and so are two copies of a stage."""
    with pytest.raises(ConfigError, match=r"^placement: x\.csv has its stages on devices \[0, 1\], not"):
        imported(placement=placement)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"devices": 4}, "4 devices, but x.csv has 2"),
        ({"stages": 3}, "3 stages, but x.csv has 2"),
        ({"microbatches": 2}, "2 microbatches, but x.csv has 1"),
    ],
)
def test_sizes_that_the_file_does_not_have(sizes: dict[str, int], said: str) -> None:
    """An override that contradicts the file names itself, and both sizes; a config says where it stands."""
    (name,) = sizes
    with pytest.raises(ConfigError) as refusal:
        imported(**sizes)
    assert str(refusal.value) == f"{name}: {said}"
    config = "".join(f"{key}: {value}\n" for key, value in {"devices": 2, "microbatches": 1, **sizes}.items())
    with pytest.raises(ConfigError, match=rf"^<text>:\d: {name}: {said}$"):
        imported_problem(plan(), HOME, config, {}, "x.csv")


def test_the_costs_of_a_problem() -> None:
    """The same with the costs of a problem: of one that groups stages too, while sizes and placement must agree."""
    problem = make_problem(devices=2, stages=4, microbatches=1, forward=[1, 2, 3, 4], placement=[0, 0, 1, 1])
    fitted, given = timed_by(plan(), HOME, problem, "x.csv")
    assert (given, fitted.stages, fitted.ticks.mean["forward"], fitted.placement) == (problem, 2, (3, 7), HOME)
    with pytest.raises(ConfigError, match=r"^problem: 2 microbatches, but x\.csv has 1$"):
        timed_by(plan(), HOME, make_problem(devices=2, microbatches=2), "x.csv")
    with pytest.raises(ConfigError, match=r"^placement: x\.csv has its stages on devices \[0, 1\], not \[1, 0\]$"):
        timed_by(plan(), HOME, make_problem(devices=2, microbatches=1, placement=[1, 0]), "x.csv")
