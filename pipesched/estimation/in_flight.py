"""How many microbatches of each of its stages a device holds at once under an algorithm, whatever the costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from pipesched.errors import PipeschedError
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.placement import Placement
from pipesched.schedulers.registry import family

ENOUGH = 4  # rounds of the pipeline after which a device holds no more

Counts = tuple[int, ...]  # microbatches of each stage of a device, in the order of its stages


def most_in_flight(placement: Placement, microbatches: int, algorithm: str | None) -> tuple[tuple[Counts, ...], ...]:
    """Return the largest counts that each device holds at once; without a plan of the algorithm one of each stage."""
    return _most_in_flight(placement, _enough(placement, microbatches), algorithm)


def most_of_first(placement: Placement, microbatches: int, algorithm: str) -> int | None:
    """Return how many microbatches the first stage holds at most at once; None where that grows with their number."""
    device, enough = placement.devices[0], _enough(placement, microbatches)
    numbers = {enough, min(microbatches, enough + placement.last + 1)}  # with another round of the pipeline no more
    each = {max(counts[0] for counts in _most_in_flight(placement, number, algorithm)[device]) for number in numbers}
    return each.pop() if len(each) == 1 else None


def _enough(placement: Placement, microbatches: int) -> int:
    rounds = ENOUGH * (placement.last + 1)
    return microbatches if microbatches <= rounds else rounds + microbatches % (placement.last + 1)


@lru_cache(maxsize=1024)
def _most_in_flight(placement: Placement, microbatches: int, algorithm: str | None) -> tuple[tuple[Counts, ...], ...]:
    devices, plan = placement.last + 1, None
    stages = [placement.stages_on(device) for device in range(devices)]
    if algorithm is not None:
        counts: dict[str, Any] = {"devices": devices, "stages": len(placement.devices), "microbatches": microbatches}
        problem = make_problem(**counts, placement=placement, backward_input=1, backward_weight=1)
        chosen = family(algorithm)
        with suppress(PipeschedError):  # then the algorithm makes no plan
            if chosen.requires is not None:
                chosen.requires(problem)
            plan = chosen.plan(problem)
    if plan is None:
        return tuple(((1,) * len(here),) for here in stages)
    return tuple(_largest(held_counts(plan, device), here) for device, here in enumerate(stages))


def held_counts(plan: Plan, device: int) -> Iterator[dict[int, int]]:
    """Yield how many microbatches of each stage a device holds after each forward, which in a pair comes first."""
    index, counts = plan.index, dict[int, int]()
    kinds = [KINDS[letter] for letter in index.letters for _ in range(index.stages)]
    changes = [1 if one.takes == "activation" else -int(one.gives in ("activation", "retained")) for one in kinds]
    for slot in plan.orders[device]:
        for number in (slot, plan.pairs[slot]) if slot in plan.pairs else (slot,):
            change = changes[index.row_of(number)] if number < index.passes else 0  # beside passes nothing is taken
            if change:
                stage = index.stage_of(number)
                counts[stage] = counts.get(stage, 0) + change
            if change > 0:
                yield dict(counts)


def _largest(held: Iterable[dict[int, int]], stages: Sequence[int]) -> tuple[Counts, ...]:
    """Return the largest counts: none of them is below another."""
    found = {tuple(counts.get(stage, 0) for stage in stages) for counts in held}
    largest: list[Counts] = []
    for one in sorted(found, reverse=True):  # none is below one that comes later
        if not any(all(mine <= theirs for mine, theirs in zip(one, other, strict=True)) for other in largest):
            largest.append(one)
    return tuple(reversed(largest))
