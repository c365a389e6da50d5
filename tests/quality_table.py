"""Tables of golden values: what a heuristic reached on named cases, and must go on reaching.

`scripts/quality.py` prints every table as it is now, for a change that improves on the golden values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import pytest


@dataclass(frozen=True)
class Table:
    """Golden values: for each variant of a heuristic what it alone reaches on each case.

    `reach(variant, case)` computes it anew (None: nothing found). It must be no worse: no more, or with `rising` no
    less. `limit(case)` is a value that nothing can beat, so that what only looks better fails too. Raises ValueError
    for a table that cannot fail: one without variants or cases, or without a golden value for each.
    """

    reach: Callable[[str, str], int | None]
    limit: Callable[[str], int]
    variants: Sequence[str]
    cases: Sequence[str]
    golden: Mapping[str, Sequence[int | None]]
    rising: bool = False

    takes_gaps: ClassVar[bool] = False  # while scripts/quality.py fills them

    def __post_init__(self) -> None:
        if not self.variants or not self.cases:
            raise ValueError("a table without variants or without cases never fails")
        if self.golden.keys() != set(self.variants) and not self.takes_gaps:
            differing = sorted(self.golden.keys() ^ set(self.variants))
            raise ValueError(f"rows and variants differ, in {differing}: run scripts/quality.py --write")
        for variant, row in self.golden.items():
            if (len(row) != len(self.cases) or set(row) == {None}) and not self.takes_gaps:
                raise ValueError(f"{variant}: {row} for {len(self.cases)} cases: run scripts/quality.py --write")

    @property
    def entries(self) -> list[tuple[str, str]]:
        """Return every variant with every case."""
        return list(product(self.variants, self.cases))

    def check(self, variant: str, case: str) -> None:
        """Fail if a variant is worse on a case than it was, or better than anything can be."""
        golden, limit = self.golden[variant][self.cases.index(case)], self.limit(case)
        reached = self.reach(variant, case)
        said = f"{variant}, {case}: reached {reached}, golden {golden}, limit {limit}"
        sign = -1 if self.rising else 1
        if golden is not None:
            assert reached is not None, said
            assert sign * reached <= sign * golden, said
        if reached is not None:
            assert sign * reached >= sign * limit, said


def golden_test(table: Table, *, nightly: bool = False) -> Callable[[str, str], None]:
    """Return a test that no variant of a table is worse on any case than it was."""

    @pytest.mark.parametrize(("variant", "case"), table.entries)
    def checked(variant: str, case: str) -> None:
        table.check(variant, case)

    return pytest.mark.nightly(checked) if nightly else checked
