"""Two jobs on shared machines: the least length is that of the best of all interleavings."""

from __future__ import annotations

from functools import cache

from hypothesis import given, strategies as st

from pipesched.core.bounds import JobPiece, least_length

JOBS = st.lists(st.builds(JobPiece, st.integers(0, 2), st.integers(1, 5)), max_size=5)


def by_every_order(first: list[JobPiece], second: list[JobPiece]) -> int:
    """The least length over all orders in which pieces may start, each as early as its job and its machine allow."""

    @cache
    def rest(i: int, j: int, ends: tuple[int, int], free: tuple[int, ...]) -> int:
        found = [max(ends)] if i == len(first) and j == len(second) else []
        for job, number, pieces in ((0, i, first), (1, j, second)):
            if number < len(pieces):
                machine, ticks = pieces[number]
                end = max(ends[job], free[machine]) + ticks
                now = (end, ends[1]) if job == 0 else (ends[0], end)
                after = tuple(end if one == machine else until for one, until in enumerate(free))
                found.append(rest(i + (job == 0), j + (job == 1), now, after))
        return min(found)

    return rest(0, 0, (0, 0), (0, 0, 0))


@given(JOBS, JOBS)
def test_least_length_is_that_of_the_best_interleaving(first: list[JobPiece], second: list[JobPiece]) -> None:
    """Of small chains all interleavings are tried; which job is named first does not matter."""
    assert least_length(first, second) == by_every_order(first, second) == least_length(second, first)


@given(JOBS, JOBS)
def test_pieces_of_no_length_are_left_out(first: list[JobPiece], second: list[JobPiece]) -> None:
    """They occupy no machine, wherever they stand."""
    nothing = JobPiece(0, 0)
    spread = [piece for one in first for piece in (nothing, one)] + [nothing]
    assert least_length(spread, second) == least_length(first, second)


def test_a_layer_by_hand() -> None:
    """Compute 4, network 3, compute 4 twice: the second job computes while the first is on the network, and waits 1."""
    job = [JobPiece(0, 4), JobPiece(1, 3), JobPiece(0, 4)]
    assert least_length(job, job) == 16
    assert least_length(job, job[:2]) == 12
