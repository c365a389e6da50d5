"""V-Half: half of 1F1B's memory on a V, for some bubble."""

from __future__ import annotations

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.best_block import Waits, best_of, of_the_mean, published_peak, v_blocks
from pipesched.schedulers.family import Family


@of_the_mean
def v_half(problem: Problem, *, objective: str = "span") -> Plan:
    """Let a microbatch wait one operation at each hop down the V; or if that is better, its forwards at each hop up."""
    reflected = Waits(0, 1, 1, 0, forward_bottom=2)
    designs = [*v_blocks(problem, waits(problem)), *v_blocks(problem, reflected)]
    return best_of(problem, designs, most_chunks(problem), objective)


def waits(problem: Problem) -> Waits:
    """Return the published waits."""
    even = problem.devices % 2 == 0
    return Waits(1, 0, 1, 0, top=3 if even else 0, backward_bottom=1)


def most_chunks(problem: Problem) -> int:
    """Return the published memory."""
    return published_peak(problem, waits(problem))


FAMILY = Family(
    name="v-half",
    plan=v_half,
    placement="v",
    chunks=2,
    needs="S = 2P, any M; splits the backward",
    bubble="by simulation",
    memory="P+2 chunks (P+1 for odd P)",
    paper="Pipeline Parallelism with Controllable Memory (Qi et al. 2024, arXiv 2405.15362)",
    elsewhere="the authors' Megatron fork",
    options=("objective",),
    splits_backward=True,
    is_slow=True,
    most_chunks=most_chunks,
)
