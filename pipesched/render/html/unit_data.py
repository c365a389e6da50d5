"""What a page knows of operations and precedences: values unit by unit, each list of them once.

A unit is one slice of one microbatch. Where all units have the same, its number stands there; else a list with the
number of the column that has it unit by unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.lowering import PrecedenceRow, precedence_rows
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem

Cell = int | list[int]


class Columns:
    """The columns, each once."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, ...], int] = {}

    def cell(self, values: Sequence[int]) -> Cell:
        """Return what stands for the values of all units."""
        if len({*values}) == 1:
            return values[0]
        return [self.numbers.setdefault(tuple(values), len(self.numbers))]


def unit_data(problem: Problem, index: OpIndex) -> dict[str, Any]:
    """Return what the page reads of rows, precedences and pairs."""
    columns = Columns()
    data = {
        "rows": [*_rows(problem, index, columns)],
        "given": [*_given(problem, index, columns)],
        "arcs": [*_arcs(problem, index, columns)],
        "overlap": None if problem.model.overlap is None else [*map(columns.cell, problem.model.overlap.tolist())],
    }
    return {**data, "columns": [*columns.numbers], "slices": index.slices}


def _rows(problem: Problem, index: OpIndex, columns: Columns) -> Iterator[tuple[Cell, ...]]:
    """Yield what the operations of each row last, take at their start and give back at their end."""
    model = problem.model
    for letter in index.letters:
        tables = (model.ticks[KINDS[letter].cost], model.takes(letter), model.gives(letter))
        for rows in zip(*(table.tolist() for table in tables), strict=True):
            yield tuple(map(columns.cell, rows))


def _given(problem: Problem, index: OpIndex, columns: Columns) -> Iterator[tuple[int, Cell]]:
    """Yield each row behind which a forward already gives something back, and how much."""
    for letter in index.letters:
        given = KINDS[letter].forward_gives
        for stage, sizes in enumerate(problem.model.column(given).tolist() if given is not None else ()):
            yield index.row_of(index.row(letter, stage).start), columns.cell(sizes)


def _arcs(problem: Problem, index: OpIndex, columns: Columns) -> Iterator[tuple[int | list[int], ...]]:
    """Yield the precedences between rows: two rows, latency, boundary; the first unit and the one behind the last.

    The operation before may be of another slice of the same microbatch: the last number says how many further on.
    """

    def rows_of(row: PrecedenceRow) -> tuple[int, int, int, int]:
        before, after = row.before.start, row.after.start
        return index.row_of(before), index.row_of(after), row.boundary, before % index.units - after % index.units

    for (before, after, boundary, further), rows in groupby(precedence_rows(problem, index), rows_of):
        lags: dict[int, int] = {}
        for row in rows:
            lags.update((number % index.units, row.lag) for number in row.after)
        first, behind = min(lags), max(lags) + 1
        lag = columns.cell([lags.get(unit, 0) for unit in range(index.units)])
        if len({*lags.values()}) == 1:
            lag = lags[first]
        yield before, after, lag, boundary, first, behind, further
