"""A schedule that competes in a solve."""

from __future__ import annotations

from typing import NamedTuple

from pipesched.pipeline.schedule import Schedule


class Candidate(NamedTuple):
    """A schedule, and what found it: in words, the family whose plan it is, if any, and the search that made it."""

    source: str
    schedule: Schedule
    family: str | None = None
    search: str = ""
