"""The order in which microbatches are fed, in JSON documents: of a schedule, and in a row of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pipesched.checks import shown
from pipesched.documents.json_text import plain_values, require_finite
from pipesched.errors import ConfigError
from pipesched.pipeline.feeding import differs
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.results.outcome import Outcome
from pipesched.schedulers.feeding.ordering import Ordering
from pipesched.schedulers.feeding.rules import BEST, Order
from pipesched.schedulers.registry import KNOWN, family

FACTS = ("exact", "tried", "given", "verl")  # of the best order
KEYS = ("order", "ordering")  # of a schedule, or of a row


def feeding_document(outcome: Outcome, *, is_row: bool = False) -> dict[str, Any]:
    """Return the order of the microbatches, and after a search for the best one what is known of it.

    Nothing where none was asked for and the problem has no units; in a row, none that differ.
    """
    ordering, problem = outcome.ordering, outcome.problem
    if ordering is None and not (differs(problem) if is_row else problem.has_units):
        return {}
    best = ordering is not None and ordering.rule == BEST
    facts = {"ordering": {key: getattr(ordering, key) for key in FACTS}} if best else {}
    return {"order": list(outcome.order), **facts}


def with_streams(problem: Problem, content: Mapping[str, Any]) -> Problem:
    """Return the problem of a document: of a mirrored placement, the second half of the order goes the second way.

    Raises ConfigError for what is no order of its microbatches.
    """
    order = _order(problem, content)
    if order is None or problem.placement is None:
        return problem
    return replace(problem, placement=problem.placement.fed(order))


def _order(problem: Problem, content: Mapping[str, Any]) -> Order | None:
    """Return the order that a document says. Raises ConfigError."""
    said = content.get("order")
    if said is None:
        return None
    whole = isinstance(said, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in said)
    if not whole or sorted(said) != [*range(problem.microbatches)]:
        raise ConfigError(f"'order' must list each of the {problem.microbatches} microbatches once, not {shown(said)}")
    return tuple(said)


def read_ordering(schedule: Schedule, content: Mapping[str, Any]) -> Ordering | None:
    """Return what a document says of the order of a schedule; None where that is the schedule's own alone.

    Raises ConfigError.
    """
    order = _order(schedule.problem, content)
    if order is None:
        return None
    if "ordering" in content:
        return Ordering(order, BEST, **_facts(content["ordering"]))
    return Ordering(order) if order != schedule.order or not schedule.problem.has_units else None


def _facts(said: Any) -> dict[str, Any]:
    if not isinstance(said, dict) or {*said} != {*FACTS}:
        raise ConfigError(f"'ordering' must hold {', '.join(FACTS)}, not {shown(said)}")
    if not isinstance(said["exact"], bool):
        raise ConfigError(f"ordering.exact must be true or false, not {shown(said['exact'])}")
    numbers = {key: said[key] for key in FACTS[1:] if said[key] is not None}
    for key, number in numbers.items():
        require_finite(number, f"ordering.{key}")
    found: dict[str, Any] = plain_values({"exact": said["exact"], **dict.fromkeys(FACTS[2:]), **numbers})
    return found


def wrong_order(content: Mapping[str, Any], outcome: Outcome) -> Iterator[str]:
    """Yield a sentence where the order of a document is not that in which its schedule feeds the microbatches.

    An algorithm that plans each order anew may begin with other microbatches than the first ones of its order.
    """
    said, own = content.get("order", list(outcome.schedule.order)), list(outcome.schedule.order)
    plans_anew = outcome.algorithm in KNOWN and family(outcome.algorithm).looks_at_each
    if said != own and not plans_anew:
        yield f"order is {shown(said)} in the document; its schedule feeds {shown(own)}"
