"""The placements that a solve tries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched.checks import require_name, require_sequence, shown
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.placement import PLACEMENTS, Placement, named_placement
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.recut import settled

AUTO = "auto"


def placed(problem: Problem, names: str | Sequence[str] | None) -> list[Problem]:
    """Return `problem` on each placement to try: its own if it has one, else those of `names`.

    None or `auto` means all that suit the stages but bidirectional, which keeps two copies of the weights. Raises
    NotApplicable when no name suits the number of stages, ConfigError for an unknown name, and for names where the
    problem has its placement already.
    """
    if problem.placement is not None:
        if names is not None:
            raise ConfigError(
                f"the problem has its `placement` already, not {shown(names)} to choose from", "placement"
            )
        return [problem]
    listed = [AUTO] if names is None else [names] if isinstance(names, str) else require_sequence(names, "placement")
    if not listed:
        raise ConfigError("must name at least one placement", "placement")
    problems: dict[Placement, Problem] = {}
    reasons = []
    for name in listed:
        require_name((AUTO, *PLACEMENTS), name, "placement", "placement")
        try:
            for placement in _called(problem, name):
                problems.setdefault(placement, settled(problem, placement))
        except ConfigError as error:
            reasons.append(error.message)
    if not problems:
        raise NotApplicable("; ".join(reasons), "placement")
    return list(problems.values())


def _called(problem: Problem, name: str) -> Iterator[Placement]:
    """Yield the placements of a name; for `auto` linear, and where the stages allow it loop, v of blocks and wave."""
    devices, stages = problem.devices, problem.stages
    if name != AUTO:
        yield named_placement(name, devices, stages)
        return
    yield named_placement("linear", devices, stages)
    if stages % devices == 0:
        yield named_placement("loop", devices, stages)
    if stages % (2 * devices) == 0:
        yield named_placement("v", devices, 2 * devices).in_blocks(stages)
        yield named_placement("wave", devices, stages)
