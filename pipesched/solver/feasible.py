"""The variants of a solve: a problem becomes one search (`Variant`) for each placement that the budget allows.

A solve calls in this order `placed` (or `placed_with`, for several numbers of stages), `with_fused`, `feasible` and
`as_variants`; `variants_of` does it for advice. At the end stand budgets, which the search for a frontier lowers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import gcd

from pipesched.checks import require_name, require_sequence, shown
from pipesched.errors import ConfigError, NoSchedule, NotApplicable, Remedy
from pipesched.pipeline.bounds.memory import least_capacity, least_held, require_least_capacity
from pipesched.pipeline.layers.recut import fuse, open_cut, settled
from pipesched.pipeline.plan.step import WEIGHTS
from pipesched.pipeline.problem.kinds import KEEP_ONLY, MemorySavings
from pipesched.pipeline.problem.placement import PLACEMENTS, Placement, named_placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import canonical, plain, rounded, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.solver.choosing import ChoosingVariant
from pipesched.solver.policy import DEFAULT, SolvePolicy
from pipesched.solver.recompute_offload import PlainVariant, RecomputeOffloadVariant
from pipesched.solver.step_variant import StepRecomputeOffloadVariant, StepVariant
from pipesched.solver.variant import Variant

AUTO = "auto"


def placed(problem: Problem, names: str | Sequence[str] | None) -> list[Problem]:
    """Return `problem` on each placement to try: its own if it has one, else those of `names`.

    None or `auto` means all that suit the stages but bidirectional, which keeps two copies of the weights. Raises
    NotApplicable when no name suits the number of stages, ConfigError for an unknown name, and for names where the
    problem has its placement already.
    """
    if problem.placement is not None:
        if names is not None:
            what = f"the problem has its `placement` already, not {shown(names)} to choose from"
            raise ConfigError(what, "placement")
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
                problems.setdefault(placement, _split_as(problem, settled(problem, placement)))
        except ConfigError as error:
            reasons.append(error.message)
    if not problems:
        raise NotApplicable("; ".join(reasons), "placement")
    found = [*problems.values()]
    return found if len({one.ticks.per_unit for one in found}) == 1 else _in_same_ticks(found)


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


def _split_as(problem: Problem, made: Problem) -> Problem:
    """Return `made` with the backward split or whole as in `problem`: a model that is cut anew derives that anew."""
    split = problem.costs.split
    return made if made.costs.split == split else replace(made, costs=replace(made.costs, split=split))


def _in_same_ticks(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems whose ticks are alike, so that they may be compared: devices' speeds make other ones of cuts."""
    finest = max(problem.ticks.per_unit for problem in problems)
    return [
        one if one.ticks.per_unit == finest else replace(one, costs=replace(one.costs, resolution=finest))
        for one in problems
    ]


def placed_with(problem: Problem, names: str | Sequence[str] | None, chunks: Sequence[int]) -> list[Problem]:
    """Return `problem` with each number of stages a device (none: its own) on each placement to try.

    Raises as `placed` does, where no placement suits any of them.
    """
    found: list[Problem] = []
    reasons: dict[str, NotApplicable] = {}
    for count in chunks or [0]:
        stages = count * problem.devices or problem.stages
        try:
            other = problem if stages == problem.stages else open_cut(problem, stages)
            found += placed(_split_as(problem, other), names)
        except NotApplicable as error:
            reasons.setdefault(error.message, error)
    if not found:
        raise NotApplicable("; ".join(reasons), next(iter(reasons.values())).key)
    return found


def with_fused(problem: Problem, names: str | Sequence[str] | None, placed_ones: Sequence[Problem]) -> list[Problem]:
    """Return the placed ones, and those with fused stages where that lets a device hold more weights whole at once.

    With weights divided (`Shard`), a device has `ahead` of its stages whole. A family that fuses stages counts larger
    ones: of 4 stages fused to 2, `ahead` 1 is as many weights as 2 of 4.
    """
    chunks, rest = divmod(problem.stages, problem.devices)
    ahead, found = problem.sharding.ahead, [*placed_ones]  # ahead is a word where all are whole, or it is settled later
    if rest or problem.placement is not None or not problem.sharding.divides(WEIGHTS) or isinstance(ahead, str):
        return found
    if min([ahead] if isinstance(ahead, int) else ahead) < chunks:
        for size in (size for size in range(2, chunks + 1) if chunks % size == 0):
            with suppress(NotApplicable):
                found += placed(fuse(problem, problem.stages // size), names)
    return _in_same_ticks(found)


def feasible(problems: Sequence[Problem], allowed: MemorySavings = KEEP_ONLY) -> list[Problem]:
    """Return those of `problems` whose budgets hold one microbatch. Raises NoSchedule, with changes that would help."""
    fitting, reasons = list[Problem](), list[tuple[Problem, NoSchedule]]()
    for problem in problems:
        try:
            require_least_capacity(least_held(problem), allowed)
            fitting.append(problem)
        except NoSchedule as error:
            reasons.append((problem, error))
    if fitting:
        return fitting
    nearest, reason = min(reasons, key=lambda pair: least_budget(pair[0], allowed))
    least = Fraction(least_budget(nearest, allowed), nearest.grains.per_unit)
    typed = f"{shown(plain(rounded(least, up=True)))} {nearest.memory.unit}"
    text = f"a budget of {typed} on every device, the smallest that any order can keep"
    would_fit = [Remedy(text, "budget"), *(one for one in reason.would_fit if one.key != "budget")]
    raise NoSchedule(reason.reason, device=reason.device, floor=reason.floor, budget=reason.budget, would_fit=would_fit)


def as_variants(
    problems: Sequence[Problem], objective: str, allowed: MemorySavings, policy: SolvePolicy
) -> list[Variant]:
    """Return a variant for each problem on its placement."""
    found = list[Variant]()
    for one in problems:
        of_passes = RecomputeOffloadVariant if any(allowed) else PlainVariant
        kind = (StepRecomputeOffloadVariant if any(allowed) else StepVariant) if one.has_step else of_passes
        if one.costs.chooses:
            found.append(ChoosingVariant(one, objective, kind, allowed, policy=policy))
        else:
            found.append(kind(one, objective, *([allowed] if any(allowed) else []), policy=policy))
    return found


def variants_of(
    problem: Problem, names: str | Sequence[str] | None, allowed: MemorySavings, policy: SolvePolicy = DEFAULT
) -> list[Variant]:
    """Return a variant of the makespan for each placement with room for a microbatch. Raises as `feasible` does."""
    return as_variants(feasible(placed(problem, names), allowed), "makespan", allowed, policy)


def least_budget(problem: Problem, allowed: MemorySavings = KEEP_ONLY) -> int:
    """Return the smallest budget for all devices that any order fits, in grains. List scheduling fits it."""
    least = least_held(problem)
    return max(least_capacity(least, device, allowed) + least.static_grains[device] for device in range(least.devices))


def least_step(problem: Problem, allowed: MemorySavings) -> int:
    """Return the least difference in grains that two peaks can have: the next budget of a frontier is so much lower.

    Peaks are sums of these rows (`Grains.rows`): what a stage takes (activation), what of it stays from I to W
    (retained), what it keeps instead (checkpointed), and keys and values (cached).
    """
    names = ["activation", "retained", *(["checkpointed"] if allowed.recompute else [])]
    names += ["cached"] if problem.slices.count > 1 or problem.mode == FORWARD_ONLY else []
    return gcd(*chain(*chain(*(problem.grains.rows[name] for name in names)))) or 1


def within(problem: Problem, budget: int) -> Problem:
    """Return the problem under a budget in grains on every device, or its own where that is lower."""
    limit = canonical(to_fraction(budget) / problem.grains.per_unit)
    own = problem.memory.budget or (limit,) * problem.devices
    return replace(problem, memory=replace(problem.memory, budget=tuple(min(limit, most) for most in own)))
