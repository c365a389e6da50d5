"""The words that `status` and `stopped_by` of a result can be, as JSON documents spell them."""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """An enumeration whose members are texts, and print as them."""

    __str__ = str.__str__


class Status(Word):
    """What is known about a result: proved optimal, the best that a search found, or one algorithm's answer."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    HEURISTIC = "heuristic"


class StoppedBy(Word):
    """What ended a search.

    A proof, a gap that was good enough, the time limit, a stop event or Ctrl-C ("interrupt"), or the method itself,
    which had nothing left to try ("search").
    """

    PROOF = "proof"
    GAP = "gap"
    TIME_LIMIT = "time limit"
    INTERRUPT = "interrupt"
    SEARCH = "search"
