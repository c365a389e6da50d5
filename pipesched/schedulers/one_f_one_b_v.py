"""1F1B-V: full backwards on a V, at about two thirds of 1F1B's memory."""

from __future__ import annotations

from fractions import Fraction

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.best_block import Design, best_of, costing, of_the_mean
from pipesched.schedulers.block import Block, busiest
from pipesched.schedulers.family import Family

PERIOD = 6


@of_the_mean
def one_f_one_b_v(problem: Problem, *, objective: str = "span") -> Plan:
    """Run the block of `unit_block`, stretched to the given costs, or with its own costs, whichever is better."""
    block, unit = unit_block(problem.devices), costing(problem, Fraction(0))
    designs = [Design(design, block.scaled(Fraction(busiest(design), PERIOD))) for design in (unit, problem)]
    return best_of(problem, designs, most_chunks(problem), objective)


def most_chunks(problem: Problem) -> int:
    """Return the published memory."""
    unit = costing(problem, Fraction(0))
    return unit_block(problem.devices).scaled(Fraction(busiest(unit), PERIOD)).peak(unit)


def unit_block(devices: int) -> Block:
    """Return the block for B = 2F, with F as the unit of time: forwards every 1, backwards (from stage 2P-1) every 2.

    After every third backward there is a pause of 3, so that no two operations of a device meet modulo the period 6.
    """
    stages = 2 * devices
    slot = stages + (3 if devices % 3 == 0 else 0)
    since_pause = (3 - (devices + 2) % 3) % 3
    backwards = []
    for _ in range(stages):
        if since_pause == 3:
            slot, since_pause = slot + 3, 0
        backwards.append(slot)
        slot, since_pause = slot + 2, since_pause + 1
    return Block({"F": range(stages), "B": backwards[::-1]}, PERIOD)


FAMILY = Family(
    name="1f1b-v",
    plan=one_f_one_b_v,
    placement="v",
    chunks=2,
    needs="S = 2P, any M",
    bubble="by simulation",
    memory="about 4P/3 chunks (4, 6, 12, 22 at P = 2, 4, 8, 16)",
    paper="Pipeline Parallelism with Controllable Memory (Qi et al. 2024, arXiv 2405.15362)",
    elsewhere="the authors' Megatron fork",
    options=("objective",),
    is_slow=True,
    most_chunks=most_chunks,
)
