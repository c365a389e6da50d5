"""Tables of golden values can fail, and what scripts/quality.py writes into a test file is what is reached."""

from __future__ import annotations

import ast

import pytest

from quality import golden_nodes
from tests.quality_table import Table

REACHED: dict[str, dict[str, int | None]] = {"quick": {"a": 5, "b": 7}, "slow": {"a": 4, "b": None}}


def table(golden: dict[str, tuple[int | None, ...]], *, rising: bool = False, limit: int = 4) -> Table:
    """Make a table of two variants on two cases."""
    return Table(
        lambda variant, case: REACHED[variant][case],
        lambda _: limit,
        variants=("quick", "slow"),
        cases=("a", "b"),
        golden=golden,
        rising=rising,
    )


@pytest.mark.parametrize(
    "golden",
    [
        {},
        {"quick": (5, 7)},
        {"quick": (5, 7), "slow": ()},
        {"quick": (5, 7), "slow": (4,)},
        {"quick": (5, 7), "slow": (None, None)},
        {"quick": (5, 7), "slow": (4, None), "old": (1, 2)},
    ],
)
def test_a_table_without_all_its_values_is_refused(golden: dict[str, tuple[int | None, ...]]) -> None:
    with pytest.raises(ValueError, match="quality"):
        table(golden)


def test_a_table_without_variants_or_cases_is_refused() -> None:
    for variants, cases in (((), ("a",)), (("quick",), ())):
        with pytest.raises(ValueError, match="never fails"):
            Table(lambda _variant, _case: 1, lambda _: 1, variants, cases, {})


def test_what_is_no_worse_passes() -> None:
    for variant, case in table({"quick": (5, 8), "slow": (4, None)}).entries:
        table({"quick": (5, 8), "slow": (4, None)}).check(variant, case)


def test_what_is_worse_fails() -> None:
    with pytest.raises(AssertionError, match="quick, b: reached 7, golden 6, limit 4"):
        table({"quick": (5, 6), "slow": (4, None)}).check("quick", "b")
    with pytest.raises(AssertionError, match="quick, a: reached 5, golden 6, limit 9"):
        table({"quick": (6, 6), "slow": (4, None)}, rising=True, limit=9).check("quick", "a")


def test_what_is_not_found_any_more_fails() -> None:
    with pytest.raises(AssertionError, match="slow, b: reached None, golden 9"):
        table({"quick": (5, 7), "slow": (4, 9)}).check("slow", "b")


def test_what_is_better_than_anything_can_be_fails() -> None:
    with pytest.raises(AssertionError, match="slow, a: reached 4, golden 4, limit 5"):
        table({"quick": (5, 7), "slow": (4, None)}, limit=5).check("slow", "a")
    with pytest.raises(AssertionError, match="quick, b: reached 7, golden 7, limit 6"):
        table({"quick": (5, 7), "slow": (4, None)}, rising=True, limit=6).check("quick", "b")


def test_where_golden_values_stand() -> None:
    text = "A = Table(reached, limit, golden={'x': (1, 2)})\nB = Other(golden={})\n"
    assert [(name, ast.literal_eval(node)) for name, node in golden_nodes(text)] == [("A", {"x": (1, 2)})]
