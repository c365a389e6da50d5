"""What can go wrong, and how the command line answers it.

`ConfigError` is bad input (exit code 2). `NoSchedule` is a well-posed question whose answer is no (exit code 1).
`InvalidSchedule` is a plan or a schedule that breaks the rules of its problem; `Deadlock` is the plan whose
operations wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence


class PipeschedError(Exception):
    """Base of every error that pipesched raises on purpose."""


class ConfigError(PipeschedError):
    """Bad input: the message says what was found, where, and what is allowed.

    `key` is the dotted name of the value at fault, where one value is (for instance `costs.forward`).
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class NotApplicable(ConfigError):
    """An algorithm that cannot run this problem: the message names the rule and the nearest valid values."""


class NoSchedule(PipeschedError):
    """No schedule meets the limits.

    `device`, `floor` and `budget` (in the problem's memory unit) are given when one device's memory is the reason;
    `would_fit` lists changes that would make it possible.
    """

    def __init__(
        self,
        reason: str,
        *,
        device: int | None = None,
        floor: float | None = None,
        budget: float | None = None,
        would_fit: Sequence[str] = (),
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.device = device
        self.floor = floor
        self.budget = budget
        self.would_fit = tuple(would_fit)


class InvalidSchedule(PipeschedError):
    """A plan or schedule that breaks a rule of its problem; `violations` holds one sentence each."""

    def __init__(self, message: str, violations: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations) or (message,)


class Deadlock(InvalidSchedule):
    """Operations that wait for each other in a circle.

    `cycle` holds (task, machine) pairs: each task waits for the entry of `awaited` at the same place, which stands
    behind the next pair's task in that machine's order. The core speaks of numbers; the pipeline layer says the same
    with operations and devices.
    """

    def __init__(self, message: str, cycle: Sequence[tuple[int, int]] = (), awaited: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.cycle = tuple(cycle)
        self.awaited = tuple(awaited)
