"""Given plans and building blocks on the problem of a comparison.

Only their orders count. Costs, memory and sizes are those of the problem, whose stages are fused to those of the plan,
or whose layers are cut anew for it, as they are for algorithms; what cannot be for the problem says why.
"""

from __future__ import annotations

from dataclasses import replace

from pipesched.checks import shown
from pipesched.comparing.contestants import BLOCK, Contestant, GivenAlgorithm
from pipesched.config.algorithm import Algorithm
from pipesched.config.imported import timed_by
from pipesched.errors import ConfigError, InvalidSchedule, NotApplicable
from pipesched.file_formats.pytorch_program import planned
from pipesched.pipeline.arguments import read_placement
from pipesched.pipeline.check import checked
from pipesched.pipeline.plan import placement_of
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.recut import can_be_cut, fuse, open_cut, settled
from pipesched.pipeline.schedule import schedule_plan
from pipesched.results.outcome import Outcome, run


def scheduled(problem: Problem, name: str, given: Contestant) -> Outcome:
    """Return the checked schedule of a plan or block for a problem.

    Raises NotApplicable with the reason why it cannot be for this problem, and ConfigError for a bad option of a block.
    """
    if isinstance(given, GivenAlgorithm):
        return _run(problem, name, given)
    if given.plan is None:
        raise NotApplicable(given.refusal)
    file = given.file or "the plan"
    try:
        placement = placement_of(given.plan) if given.placement is None else given.placement
        fitted = timed_by(given.plan, placement, problem, file).fitted
        return Outcome(name, checked(schedule_plan(fitted, planned(fitted, given.plan))))
    except ConfigError as error:
        lacks = "the problem has " if error.key == "problem" else ""
        raise NotApplicable(f"{lacks}{error.message}") from None
    except InvalidSchedule as error:
        raise NotApplicable(str(error)) from None


def _run(problem: Problem, name: str, given: GivenAlgorithm) -> Outcome:
    algorithm, file = given.algorithm, given.file
    if given.devices is not None and given.devices != problem.devices:
        raise NotApplicable(f"the problem has {problem.devices} devices, but {file} has {shown(given.devices)}")
    fitted = _fused(problem, algorithm)
    if given.placement is not None:
        fitted = _placed(problem, fitted, given)
    with algorithm.located():
        return replace(run(fitted, algorithm.name, **algorithm.options), algorithm=name)


def _fused(problem: Problem, algorithm: Algorithm) -> Problem:
    """Return `problem` with the stages of a block, and its own placement; as it is for other algorithms.

    Its stages are fused to those, or its layers cut anew into them.
    """
    starts = algorithm.options.get("forward") if algorithm.name == BLOCK else None
    stages = len(starts) if isinstance(starts, (list, tuple)) else 0
    if not stages or stages == problem.stages or stages < problem.devices:
        return problem
    if can_be_cut(problem):
        return open_cut(problem, stages)
    fused = fuse(problem, stages)
    if problem.placement is None:
        return fused
    placement = replace(problem.placement, devices=problem.placement.devices[:: problem.stages // stages])
    if placement.in_blocks(problem.stages) != problem.placement:
        raise NotApplicable(f"the placement of the problem does not let its stages be fused into {stages}", "placement")
    return replace(fused, placement=placement)


def _placed(problem: Problem, fitted: Problem, given: GivenAlgorithm) -> Problem:
    """Return the problem with the placement of a file, which must be that of the problem where it has one."""
    try:
        placement = read_placement(given.placement, fitted.devices, fitted.stages)
    except ConfigError as error:
        raise NotApplicable(f"placement of {given.file}: {error.message}", "placement") from None
    if placement is None:
        return fitted
    if problem.placement is not None and placement.in_blocks(problem.stages) != problem.placement:
        raise NotApplicable(f"{given.file} places its stages otherwise than the problem does", "placement")
    return settled(fitted, placement)
