"""What of the times of a stage is the core of attention, which grows with the square of a document's length."""

from __future__ import annotations

from pipesched.estimation.items import Item, Stage
from pipesched.estimation.setup import SELECTIVE, Setup
from pipesched.estimation.terms import ATTENTION, PER_MS, RECOMPUTE, Terms, total


def core_time(stage: Stage, operation: str) -> int:
    """Return the microseconds of the core in an operation of one microbatch, recompute included."""
    setup = stage.items.setup
    own = sum(_item_core(item, operation, setup) for item in stage.held)
    if operation != "backward_input":
        return own
    return own + sum(_item_core(stage.items.each[number], "recompute", setup) for number in stage.again)


def _item_core(item: Item, operation: str, setup: Setup) -> int:
    terms: Terms = getattr(item.times, operation)
    core = _of_kind(terms, ATTENTION)
    if any(term.kind == RECOMPUTE for term in terms):  # of the core alone, or of a whole forward
        selective = setup.training.recompute == SELECTIVE
        core += _of_kind(terms, RECOMPUTE) if selective else _of_kind(item.times.forward, ATTENTION)
    return min(round(core * PER_MS), item.time(operation))


def _of_kind(terms: Terms, kind: str) -> float:
    return float(total(term for term in terms if term.kind == kind))
