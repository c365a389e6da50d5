"""V-Min: about a third of 1F1B's memory on a V. A microbatch never waits."""

from __future__ import annotations

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.best_block import Waits, best_of, of_the_mean, published_peak, v_blocks
from pipesched.schedulers.family import Family


@of_the_mean
def v_min(problem: Problem, *, objective: str = "span") -> Plan:
    """Let no microbatch wait; but two operations at the top of the V where 3 divides P and operations would collide."""
    return best_of(problem, v_blocks(problem, waits(problem)), most_chunks(problem), objective)


def waits(problem: Problem) -> Waits:
    """Return the published waits."""
    return Waits(0, 0, 0, 0, top=2 if problem.devices % 3 == 0 else 0)


def most_chunks(problem: Problem) -> int:
    """Return the published memory."""
    return published_peak(problem, waits(problem))


FAMILY = Family(
    name="v-min",
    plan=v_min,
    placement="v",
    chunks=2,
    needs="S = 2P, any M; splits the backward",
    bubble="by simulation; grows where f, b and w differ",
    memory="about 2P/3 + 2 chunks",
    paper="Pipeline Parallelism with Controllable Memory (Qi et al. 2024, arXiv 2405.15362)",
    elsewhere="the authors' Megatron fork",
    options=("objective",),
    splits_backward=True,
    is_slow=True,
    most_chunks=most_chunks,
)
