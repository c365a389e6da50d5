"""What a command may leave to a search of its time limit, which holds from its start to its last line.

Before the search come the start of Python and the reading of the problem, after it what is printed. That is estimated
by the number of operations: at the pace of a slow core, since nothing can be left out any more once it has begun.
"""

from __future__ import annotations

from time import monotonic, process_time

_began: list[float] = []


def begin() -> None:
    """Take note that the process of the command line has just begun."""
    _began.append(monotonic() - process_time())


def elapsed() -> float:
    """Return the seconds since the process began; 0 in a process that is not the command line's."""
    return monotonic() - _began[0] if _began else 0.0


def most_classified(limit: float) -> int:
    """Return of how many operations idle time is classified under a time limit in seconds."""
    from pipesched.solver.policy import DEFAULT

    policy = DEFAULT.command
    return int((policy.classes_least + policy.classes_part * limit) / policy.classes)


def left_for_search(limit: float, operations: int, *, documents: int, chart: bool, classes: bool) -> float:
    """Return the seconds of a time limit that a search for a schedule of so many operations may take.

    After it so many documents are written, a chart is drawn, and the classes of idle time are looked for.
    """
    from pipesched.solver.policy import DEFAULT

    policy = DEFAULT.command
    each = documents * policy.document + chart * policy.chart + classes * policy.classes
    return max(limit - elapsed() - policy.first_line - operations * each, min(policy.least, limit))
