"""What can go wrong, and how the command line answers it.

`ConfigError` is bad input (exit code 2). `NoSchedule` is a well-posed question whose answer is no (exit code 1), and so
is `Inexpressible`: a framework has no such schedule. `InvalidSchedule` is a plan or a schedule that breaks the rules of
its problem; `Deadlock` is the plan whose operations wait for each other in a cycle. `WorkerDied` is a call that ended
the processes it ran in.

Messages name parameters, in backticks, never the options of the command line: `group_size`, `costs.offload`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

Place = int | str | tuple[int | str, ...]  # in a list, a mapping, or several of these in each other


class PipeschedError(Exception):
    """Base of every error that pipesched raises on purpose."""


class PipeschedWarning(UserWarning):
    """What to know of pipesched itself: a defect that was worked around, or a part that nobody has tried."""


class ConfigError(PipeschedError):
    """Bad input: the text says what is wrong, where it stands, and what is allowed.

    `message` is the text alone. `key` is the parameter at fault, if there is one (`forward`, `group_size`), and `entry`
    the index at fault where that is a list, the name where it is a mapping, both or more where they hold each other.
    `where` says where the value was given: in a file (`model.yaml:3: costs.forward`), or by an option of the command
    line.
    """

    def __init__(
        self, message: str, key: str | None = None, *, entry: Place | None = None, where: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.key, self.entry, self.where = message, key, entry, where

    def __str__(self) -> str:
        subject, entry = self.where or self.key, () if self.entry is None else self.entry
        steps = entry if isinstance(entry, tuple) else (entry,)
        place = "".join(f".{step}" if isinstance(step, str) else f"[{step}]" for step in steps)
        return f"{subject}{place}: {self.message}" if subject else self.message

    def at(self, where: str) -> ConfigError:
        """Return the same error, saying `where` the value at fault was given."""
        return type(self)(self.message, self.key, entry=self.entry, where=where)

    def about(self, key: str) -> ConfigError:
        """Return the same error about the parameter `key`; one that names a parameter already stays as it is."""
        return self if self.key else type(self)(self.message, key, entry=self.entry, where=self.where)


class Given(NamedTuple):
    """A value that a user gave, and where it stands in a file (`file:line: key`); None: an override, from elsewhere.

    `inside` says of a mapping where each of its entries stands, by name, and of lists of lists where each of them does,
    by index; `built_in` that it is of the built-in default.
    """

    value: Any
    where: str | None = None
    inside: Mapping[str, str] = MappingProxyType({})
    built_in: bool = False


def located(error: ConfigError, values: Mapping[str, Given]) -> ConfigError:
    """Return an error that says where the value at fault stands, if it stands in a file."""
    given = values.get(error.key or "")
    if given is None:
        return error
    first = error.entry[0] if isinstance(error.entry, tuple) else error.entry
    where = given.inside.get(re.split(r"[.\[]", str(first))[0], given.where)
    return error if where is None else error.at(where)


@contextmanager
def blame(key: str | None, entry: Place | None = None, head: str = "") -> Iterator[None]:
    """Let a ConfigError, inside the block, be about that parameter and its entry, or about none; `head` comes first."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{head}{error.message}", key, entry=entry) from None


class WrongOperation(ConfigError):
    """A plan names an operation that it cannot have: out of range, twice, or one that stands nowhere else in it."""


class NotApplicable(ConfigError):
    """The algorithm cannot run this problem; the message names the rule that it breaks and the nearest valid values."""

    def __str__(self) -> str:
        return super().__str__() if self.where else self.message


class OwnCodeFailed(NotApplicable):
    """A function of a user raised something, or returned what it should not; the text names its file and line."""


class Remedy(str):
    """The text of a change that would make a schedule possible.

    `key` is the parameter that it changes, `budget` or `recompute` say.
    """

    key: str

    def __new__(cls, text: str, key: str = "") -> Remedy:
        made = super().__new__(cls, text)
        made.key = key
        return made


class NoSchedule(PipeschedError):
    """No schedule meets the limits.

    `device`, `floor` and `budget` (in the problem's memory unit) are given when one device's memory is the reason.
    `would_fit` lists changes that would make it possible: texts, each with the `key` of the parameter that it changes.
    """

    def __init__(
        self,
        reason: str,
        *,
        device: int | None = None,
        floor: float | None = None,
        budget: float | None = None,
        would_fit: Sequence[Remedy] = (),
    ) -> None:
        super().__init__(reason)
        self.reason, self.device, self.floor, self.budget = reason, device, floor, budget
        self.would_fit = tuple(would_fit)


class InvalidSchedule(PipeschedError):
    """A plan or schedule breaks rules of its problem; `violations` holds a sentence for each breach."""

    def __init__(self, message: str, violations: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations) or (message,)


class Deadlock(InvalidSchedule):
    """Operations of a plan wait for each other in a cycle.

    `cycle` holds (task, machine) pairs: each task waits for the entry of `awaited` at the same position, which stands
    behind the next pair's task in that machine's order. The core speaks of numbers; the pipeline layer says the same
    with operations and devices.
    """

    def __init__(self, message: str, cycle: Sequence[tuple[int, int]] = (), awaited: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.cycle, self.awaited = tuple(cycle), tuple(awaited)


class Inexpressible(PipeschedError):
    """A framework has no such schedule; `nearest` is the name of the algorithm of its nearest one."""

    def __init__(self, message: str, nearest: str = "") -> None:
        super().__init__(message)
        self.nearest = nearest


class RankFailed(PipeschedError):
    """A rank of a training run failed, or is gone; the text names it, and the operation that it ran.

    `text` is that without the `hint`, what may help; `trace` is the traceback of what was raised. Both may be empty.
    """

    def __init__(self, message: str, *, hint: str = "", trace: str = "") -> None:
        super().__init__(message)
        self.text, self.hint, self.trace = message, hint, trace

    def __str__(self) -> str:
        return f"{self.text}; hint: {self.hint}" if self.hint else self.text


class ModelFailed(RankFailed):
    """The user's model, data or loss raised an exception; the text says its type, its message and where."""


class WorkerDied(PipeschedError):
    """The process of a worker ended while it ran a call, and again when the call was repeated; the text names it."""


class WorkerTraceback(Exception):
    """The traceback of an exception in a worker: its cause here."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"
