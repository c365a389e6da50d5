"""Many cases at once: each takes what a replay of its own says; and which form of the kernels runs."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pipesched.core import arrays, kernels, timing
from pipesched.core.arrays import compiled_kernels
from pipesched.core.tasks import Edges, TaskGraph
from pipesched.core.timing import CaseSweep, earliest_times

CASES = 3


FORMS: list[Any] = [None, kernels, *([compiled_kernels()] if compiled_kernels() else [])]  # None: level by level


def drawn(random: Random) -> tuple[TaskGraph, list[list[int]]]:
    """Tasks, of which some stand nowhere, in orders that can run with edges from earlier tasks to later ones."""
    count, machines = random.randint(1, 12), random.randint(1, 4)
    orders: list[list[int]] = [[] for _ in range(machines)]
    names = random.sample(range(count), count)
    standing = names[: random.randint(1, count)]
    for task in standing:
        random.choice(orders).append(task)
    pairs = [sorted(random.sample(range(len(standing)), 2)) for _ in range(random.randint(0, 2 * len(standing) - 2))]
    lags = [random.choice([0, 0, 3]) for _ in pairs]
    edges = Edges([standing[a] for a, _ in pairs], [standing[b] for _, b in pairs], lags)
    absent = Edges(names[len(standing) :], [standing[0]] * (count - len(standing)))
    return TaskGraph([random.randint(0, 5) for _ in range(count)], [0] * count, (1,), [edges, absent]), orders


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [np.int64, np.float64, object])
@given(random=st.randoms(use_true_random=False))
def test_each_case_is_a_replay(form: Any, kind: Any, random: Random) -> None:
    """In a table of all ends, and in few vectors part by part."""
    graph, orders = drawn(random)
    swept = CaseSweep(len(graph), orders, graph.edges)
    edges = graph.edges.where(np.isin(graph.edges.before, [task for order in orders for task in order]))
    lag = np.array([0 if edge < 0 else int(graph.edges.lag[edge]) for edge in swept.edges.tolist()], dtype=kind)
    lengths = np.array([[random.randint(0, 9) for _ in range(CASES)] for _ in swept.tasks], dtype=kind)
    lasts = np.array([rows[-1] for rows in swept.rows if len(rows)])
    vector, count = swept.vectors(lasts)
    ends = np.zeros((count, CASES), dtype=kind)
    delays = np.repeat(lag[:, None], CASES, axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "compiled_kernels", lambda: form)
        whole = swept.ends(lengths, delays)
        step = random.randint(1, 4)
        for begin in range(0, len(swept), step):
            swept.advance(begin, lengths[begin : begin + step], ends, vector, lag)
    for case in range(CASES):
        durations = [0] * len(graph)
        for task, length in zip(swept.tasks.tolist(), lengths[:, case].tolist(), strict=True):
            durations[task] = int(length)
        times = earliest_times(graph.changed(durations=durations, edges=edges), orders)
        assert [times.ends[task] for task in swept.tasks.tolist()] == whole[:, case].tolist()
    assert (ends[vector[lasts]] == whole[lasts]).all()
    assert swept.longest(whole.astype(np.int64), delays.astype(np.int64)).sum() >= CASES


def test_a_longest_path() -> None:
    """It goes back over the first of the waits that are as late, and over delays; nothing else is marked."""
    edges = Edges([0, 1, 0], [2, 2, 3])
    swept = CaseSweep(4, [[0], [1], [2], [3]], edges)
    lengths = np.array([[4, 1], [4, 5], [2, 2], [3, 3]])[swept.tasks]
    ends = swept.ends(lengths)
    found = swept.longest(ends)[np.argsort(swept.tasks)]
    assert found.T.tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]
    delays = np.zeros((3, 2), dtype=np.int64)
    delays[swept.edges == 0] = 9
    delayed = swept.longest(swept.ends(lengths, delays), delays)[np.argsort(swept.tasks)]
    assert delayed.T.tolist() == [[1, 0, 1, 0]] * 2


def test_few_vectors() -> None:
    """A chain needs two: what is read is written again, but no row writes over what it waits for."""
    swept = CaseSweep(9, [range(9)], Edges((), ()))
    assert swept.vectors(np.array([8]))[1] == 2
    assert swept.vectors(np.arange(9))[1] == 9


needs_compiled = pytest.mark.skipif(arrays.form_of_kernels() == "plain Python", reason="no kernels are compiled here")


@needs_compiled
def test_what_is_compiled_is_of_this_source() -> None:
    """After an edit of a kernel, `python setup.py build_ext --inplace` compiles it; until then plain Python runs."""
    assert arrays.form_of_kernels() == "compiled"


@needs_compiled
def test_stale_kernels_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled file of another source is left alone, and people are told."""
    monkeypatch.setattr(arrays, "crc32", {}.get)
    assert arrays._found.__wrapped__() == (None, None, "plain Python, because the compiled ones are stale")
