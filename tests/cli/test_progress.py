"""The line of progress on stderr."""

from __future__ import annotations

from pipesched.cli.progress import line
from pipesched.solver.search import Event


def test_line() -> None:
    """Elapsed, incumbent with its source, bound, gap, stage; in the user's unit of time."""
    event = Event("CP-SAT, loop", 1.25, 33, "justification", 30)
    assert line(event, event.seconds) == "  1.2 s  best 33 (justification)  bound 30  gap 10.00%  CP-SAT, loop"


def test_line_before_anything_is_found() -> None:
    """No incumbent, no bound."""
    assert line(Event("bounds", 0, None, "", 0), 0.04) == "  0.0 s  bounds"
    assert line(Event("bounds", 0, None, "", 285), 0.04) == "  0.0 s  bound 285  bounds"
