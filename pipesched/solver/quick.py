"""What a solve tries first, so that there is an answer soon: a list schedule of each placement, then quick families."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched.solver.candidate import Candidate
from pipesched.solver.case import Case


def quick_rounds(cases: Sequence[Case], order: Sequence[int]) -> Iterator[tuple[int, Iterator[Candidate]]]:
    """Yield the number of each case with a list schedule of it, then each again with the families that are quick."""
    yield from ((number, _listed(cases[number])) for number in order)
    yield from ((number, cases[number].quick_named_candidates()) for number in order)


def _listed(case: Case) -> Iterator[Candidate]:
    """Yield the quick list schedule of a case, if there is one."""
    candidate = case.quick_candidate()
    if candidate is not None:
        yield candidate
