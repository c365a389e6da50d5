"""The order in which devices issue messages: a file's, PyTorch's, or the best one found."""

from __future__ import annotations

from pipesched.errors import ConfigError
from pipesched.pipeline.message_programs import pytorch_programs, resolved, without_messages
from pipesched.pipeline.messages import BEST, OF_FILE, PYTORCH
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem


def with_messages(problem: Problem, plan: Plan) -> tuple[Problem, Plan]:
    """Return the problem with the order of its messages named, and the plan with them, or without where none queue.

    Messages that a plan has already stay as they are. Raises ConfigError where the order is to be that of a file, which
    has none, and InvalidSchedule where devices wait in a circle.
    """
    known = problem.messages
    if known is None:
        return problem, without_messages(plan)
    if plan.messages:
        return resolved(problem, known.order or OF_FILE), plan
    if known.order == OF_FILE:
        raise ConfigError("file: the plan says no SEND and RECV", "messages", entry="order")
    order = known.order or PYTORCH
    return resolved(problem, order), pytorch_programs(problem, plan)
