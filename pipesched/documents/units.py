"""Microbatches that differ in the JSON document of a schedule: writing them, and what they are for make_problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipesched.checks import require_whole, shown
from pipesched.documents.json_text import plain_values, require_finite
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import STEP_TIMES, Entry
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.unit_arguments import WHOLE_ONLY
from pipesched.pipeline.units import FORWARD_ONLY, unit_values
from pipesched.results.outcome import Outcome
from pipesched.schedulers.feeding.choose import require_order
from pipesched.schedulers.feeding.ordering import Ordering
from pipesched.schedulers.feeding.rules import BEST
from pipesched.schedulers.options import ORDER
from pipesched.schedulers.registry import FAMILIES, family
from pipesched.text.fields import keys_of

TRIED = "tried"  # of slices: which numbers of them a family tried, each with its makespan
ORDERING = "ordering"  # what is known of the best order
IN_FORWARDS = ("forward", "p2p")  # costs of forward passes alone


def costs_said(problem: Problem) -> list[str]:
    """Return which costs a document says: of forwards alone only theirs, of slices none of whole microbatches.

    Those of a step it says where there is one.
    """
    if problem.mode == FORWARD_ONLY:
        return [*IN_FORWARDS, *(("gather",) if problem.has_step else ())]
    unused: tuple[str, ...] = ("backward",) if problem.costs.split else ("backward_input", "backward_weight")
    unused += () if problem.has_step else (*STEP_TIMES, "tied")
    refused = WHOLE_ONLY if problem.slices.count > 1 else ()
    return [key for key in keys_of("costs") if key not in (*unused, *refused)]


def units_document(problem: Problem) -> dict[str, Any]:
    """Return what makes microbatches differ, as a config gives it; what is as of whole alike ones is left out."""
    found, tried = unit_values(problem.sizes, problem.slices, problem.mode), problem.slices.tried
    if tried:
        found["slices"][TRIED] = [list(pair) for pair in tried]
    return found


def entries_document(entries: Sequence[Entry]) -> Any:
    """Return one number where all entries are one (0 where there is none), else the list; of a table, rows in it."""
    if not entries:
        return 0
    rows = [[*map(plain, entry)] if isinstance(entry, tuple) else plain(entry) for entry in entries]
    return rows[0] if not isinstance(rows[0], list) and all(row == rows[0] for row in rows) else rows


def without_tried(value: Any) -> Any:
    """Return what a document says of slices without the numbers of them that were tried, which no config gives."""
    return {key: one for key, one in value.items() if key != TRIED} if isinstance(value, dict) else value


def with_tried(problem: Problem, content: Mapping[str, Any]) -> Problem:
    """Return a problem with the numbers of slices that its document says were tried. Raises ConfigError."""
    slices = content.get("slices")
    tried = slices.get(TRIED, []) if isinstance(slices, dict) else []
    if not isinstance(tried, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in tried):
        raise ConfigError(
            f"must list numbers of slices, each with its makespan, not {shown(tried)}", "slices", entry=TRIED
        )
    pairs = tuple((_count(count), require_finite(makespan, "slices.tried")) for count, makespan in tried)
    return replace(problem, slices=replace(problem.slices, tried=tuple(map(tuple, plain_values(pairs)))))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"must be numbers of slices, not {shown(value)}", "slices", entry=TRIED)
    return value


def order_document(outcome: Outcome) -> dict[str, Any]:
    """Return in which order microbatches are fed, where they differ or an order was asked for."""
    if not is_of_units(outcome):
        return {}
    return ordering_document(outcome.ordering or Ordering(outcome.order))


def is_of_units(outcome: Outcome) -> bool:
    """Return whether the document of a schedule is one of microbatches that differ, or are fed in an order."""
    return outcome.problem.has_units or outcome.ordering is not None


def ordering_document(ordering: Ordering) -> dict[str, Any]:
    """Return an order, and of the best one what is known of it: how it was found, and what the rules take."""
    said = {key: getattr(ordering, key) for key in ("exact", "tried", "given", "verl")}
    return {ORDER: [*ordering.order], **({ORDERING: said} if ordering.rule == BEST else {})}


def read_ordering(content: Mapping[str, Any], microbatches: int | None = None) -> Ordering | None:
    """Return the order that a document or a row says, the best one with what is known of it; None where it says none.

    A row does not say how many microbatches there are.
    Raises ConfigError.
    """
    order = content.get(ORDER)
    if order is None:
        return None
    if not isinstance(order, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in order):
        raise ConfigError(f"must list microbatches, not {shown(order)}", ORDER)
    fed = require_order(order, len(order) if microbatches is None else microbatches)
    if ORDERING not in content:
        return Ordering(fed)
    said = content[ORDERING] if isinstance(content[ORDERING], dict) else {}
    if not isinstance(said.get("exact"), bool):
        raise ConfigError(f"must say whether the order is `exact`, not {shown(content[ORDERING])}", ORDERING)
    makespans = {key: _makespan(said, key) for key in ("given", "verl")}
    return Ordering(fed, BEST, said["exact"], require_whole(said.get("tried"), f"{ORDERING}.tried"), **makespans)


def _makespan(said: Mapping[str, Any], key: str) -> int | float | None:
    value = said.get(key)
    if value is None:
        return None
    number: int | float = plain_values(require_finite(value, f"{ORDERING}.{key}"))
    return number


def fed_by(problem: Problem, ordering: Ordering | None) -> Problem:
    """Return a problem whose microbatches go the ways on which that order feeds them, where there are two."""
    if ordering is None or problem.placement is None:
        return problem
    return replace(problem, placement=problem.placement.fed(ordering.order))


def known_ordering(schedule: Schedule, ordering: Ordering | None) -> Ordering | None:
    """Return the order of a document where it says more than its schedule does."""
    if ordering is None or ordering.rule == BEST or not schedule.problem.has_units:
        return ordering
    return None if ordering.order == schedule.order else ordering


def wrong_order(outcome: Outcome) -> Iterator[str]:
    """Yield a sentence where the schedule does not feed the microbatches in the order that its document says.

    A family that plans each order anew may begin with others than the first ones of its order.
    """
    schedule = outcome.schedule
    if outcome.algorithm in FAMILIES and family(outcome.algorithm).looks_at_each:
        return
    index, placement = schedule.plan.index, schedule.problem.settled_placement
    row = index.row("F", 0)[:: index.slices]
    ways: dict[bool, list[int]] = {False: [], True: []}
    for microbatch in outcome.order:
        ways[placement.is_second(microbatch, index.microbatches)].append(schedule.start_ticks[row[microbatch]])
    if any(starts != sorted(starts) for starts in ways.values()):
        yield f"order is {shown([*outcome.order])} in the document; its schedule feeds {shown([*schedule.order])}"
