"""The rules of list scheduling, each alone under the budget of whole devices, are no worse than they were."""

from __future__ import annotations

from pipesched.solver.portfolio import RULES, listed, pools
from tests.quality_cases import best_value, bound_of, keeping
from tests.quality_problems import PROBLEMS
from tests.quality_table import Table, golden_test


def reached(rule: str, case: str) -> int | None:
    """Return the makespan of the list schedule."""
    known = keeping(case)
    return best_value(known, listed(known, rule, pools(known)[-1], RULES[rule](known)))


RULED = Table(
    reached,
    bound_of,
    variants=tuple(RULES),
    cases=tuple(PROBLEMS),
    golden={
        "backward-first": (33, 181, 2690, 67, 234, 69, 338, 215, 1960, 105),
        "deepest-backward-first": (33, 181, 2690, 65, 244, 69, 343, 215, 1980, 99),
        "longest-tail": (32, 181, 2690, 74, 228, 72, 318, 215, 1900, 94),
        "forward-first": (34, 190, 2800, 65, 235, 72, 321, 215, 2060, 97),
        "backward-deep-first": (33, 181, 2690, 67, 250, 69, 338, 215, 1960, 105),
        "least-slack": (33, 181, 2690, 74, 240, 72, 353, 216, 1960, 92),
        "weights-before-forward": (34, 204, 2690, 79, 246, 69, 367, 226, 1960, 116),
    },
)

test_each_rule_of_list_scheduling = golden_test(RULED)
