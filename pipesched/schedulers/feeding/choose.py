"""The option `order` of every family: microbatches by rule, as listed, or in the best order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipesched.checks import joined
from pipesched.errors import ConfigError
from pipesched.pipeline.feeding import equals
from pipesched.schedulers.feeding.fed_family import FedFamily
from pipesched.schedulers.feeding.ordering import Ordering
from pipesched.schedulers.feeding.rules import BEST, VERL, Order, given, verl


def ordering_of(known: FedFamily, wanted: Any) -> Ordering | None:
    """Return the order that is `wanted`: a list, or one of WORDS; None for a word where all microbatches are alike.

    Raises ConfigError for a list that is no order of the microbatches.
    """
    problem = known.problem
    if not isinstance(wanted, str):
        return Ordering(require_order(wanted, problem.microbatches))
    if len(set(equals(problem))) == 1:
        return None
    if wanted == BEST:
        return _best(known)
    return Ordering(verl(problem) if wanted == VERL else given(problem), wanted)


def _best(known: FedFamily) -> Ordering:
    if known.family.looks_at_each or known.problem.has_step:  # whose slots and lanes depend on times
        from pipesched.schedulers.feeding.best_of_plans import best_of_plans

        return best_of_plans(known)
    from pipesched.schedulers.feeding.best import best_of_positions

    return best_of_positions(known)


def require_order(order: Sequence[int], microbatches: int) -> Order:
    """Return `order` if it lists every microbatch once. Raises ConfigError, about `order`."""
    due, times = range(microbatches), Counter(order)
    outside = sorted(one for one in times if one not in due)
    twice = sorted(one for one, count in times.items() if one in due and count > 1)
    missing = [one for one in due if one not in times]
    wrong = [
        f"{joined([*map(str, numbers)])} {many if len(numbers) > 1 else single}"
        for numbers, single, many in (
            (missing, "is missing", "are missing"),
            (twice, "stands twice", "stand twice"),
            (outside, "is no microbatch", "are no microbatches"),
        )
        if numbers
    ]
    if wrong:
        each = f"each of the microbatches 0 to {microbatches - 1}"
        raise ConfigError(f"must list {each} once: {'; '.join(wrong)}", "order")
    return tuple(order)
