"""One stage a device, by the forwards before the first backward: sequential, 1F1B, eager 1F1B, 1F1B in pairs."""

from __future__ import annotations

from collections.abc import Callable

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.orders import forwards_over_backwards, one_forward_one_backward


def sequential(problem: Problem) -> Plan:
    """Run for each microbatch all forwards, then all backwards: a device runs F0 B0 F1 B1 ..."""
    return _in_turn(problem, lambda _: 0)


def one_f_one_b(problem: Problem) -> Plan:
    """Run P-d-1 forwards on device d; then F and B in turn while forwards are left; then the backwards left."""
    return _in_turn(problem, lambda device: problem.devices - device - 1)


def eager_1f1b(problem: Problem) -> Plan:
    """Run 2(P-d-1)+1 forwards on device d; then F and B in turn while forwards are left; then the backwards left."""
    return _in_turn(problem, lambda device: 2 * (problem.devices - device - 1) + 1)


def _in_turn(problem: Problem, warm_up: Callable[[int], int]) -> Plan:
    """Return the plan that runs `warm_up(d)` forwards on device d, then a forward and a backward in turn."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    orders = [
        one_forward_one_backward(index.row("F", device), index.row("B", device), warm_up(device))
        for device in range(problem.devices)
    ]
    return Plan(index, orders)


def one_f_one_b_overlap(problem: Problem) -> Plan:
    """Run 2(P-d-1)+1 forwards on device d; then pairs F&B while forwards are left; then the backwards left."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    orders, pairs = [], {}
    for device in range(problem.devices):
        warm_up = 2 * (problem.devices - device - 1) + 1
        order, paired = forwards_over_backwards(index.row("F", device), index.row("B", device), warm_up)
        orders.append(order)
        pairs.update(paired)
    return Plan(index, orders, pairs)


SEQUENTIAL = Family(
    name="sequential",
    plan=sequential,
    placement="linear",
    needs="any M",
    bubble="1 - 1/P",
    memory="1",
    paper="model parallelism without a pipeline",
    elsewhere="any framework",
    settled_order=True,
)
FAMILY = Family(
    name="1f1b",
    plan=one_f_one_b,
    placement="linear",
    needs="any M",
    bubble="(P-1)/(M+P-1)",
    memory="min(M, P-d)",
    paper="PipeDream-Flush (Narayanan et al. 2021, arXiv 2006.09503)",
    elsewhere="Megatron-LM, DeepSpeed, PyTorch Schedule1F1B (M >= P)",
    settled_order=True,
)
EAGER = Family(
    name="eager-1f1b",
    plan=eager_1f1b,
    placement="linear",
    needs="any M",
    bubble="(P-1)/(M+P-1), and p2p mostly hidden",
    memory="min(M, 2(P-d))",
    paper="Zhuang et al. 2023, arXiv 2211.05322",
    elsewhere="AlpaComm",
    settled_order=True,
)
OVERLAP = Family(
    name="1f1b-overlap",
    plan=one_f_one_b_overlap,
    placement="linear",
    needs="any M; costs.overlap says what a pair takes",
    bubble="by simulation",
    memory="min(M, 2(P-d))",
    paper="the case V = 1 of Megatron-LM's combined 1F1B",
    elsewhere="PPViz",
    settled_order=True,
)
