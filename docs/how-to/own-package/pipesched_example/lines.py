"""A file format: a line for each device, with blanks between its operations."""

import pipesched


def dump(outcome: pipesched.Outcome) -> str:
    """Return the text of a file."""
    plan = outcome.schedule.plan
    rows = (plan.slots(device) for device in range(outcome.problem.devices))
    return "".join(" ".join(map(str, row)) + "\n" for row in rows)


def load(text: str) -> list[list[str]]:
    """Return the operations of each device."""
    return [line.split() for line in text.splitlines()]


LINES = pipesched.file_format("lines", ".lines", dump, load)
