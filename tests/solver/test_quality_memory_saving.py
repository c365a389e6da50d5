"""Each rule that saves memory, on one order that is over its budget, makes no worse schedules than it did."""

from __future__ import annotations

from functools import partial

from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.kinds import Allowed
from pipesched.solver.case import Candidate
from pipesched.solver.saving_portfolio import saving_rules, with_savings
from tests.quality_cases import best_value, limit_of_saving, roomy, saving
from tests.quality_problems import SAVING
from tests.quality_table import Table, golden_test

EVERY_RULE = {str(rule): rule for rule in saving_rules(Allowed(True, True))}


def reached(base: str, rule: str, case: str) -> int | None:
    """Return the makespan of the list schedule by the rule `base`, with its memory saved."""
    known = saving(case)
    if not known.allowed.offload and "offload" in rule:
        return None
    plan = with_savings(roomy(case, base), known.allowed, EVERY_RULE[rule])
    return None if plan is None else best_value(known, [Candidate(rule, schedule_plan(known.problem, plan))])


BACKWARDS_FIRST = Table(
    partial(reached, "weights-before-forward"),
    limit_of_saving,
    variants=tuple(EVERY_RULE),
    cases=tuple(SAVING),
    golden={
        "offload, 1 spare": (78, 71, 1360, None, 100, 153, 171),
        "offload": (82, 75, 1360, None, 104, 161, 173),
        "offload, 2 spare": (78, 69, 1360, None, 100, 152, 173),
        "offload or recompute, 1 spare": (84, 72, 1360, None, 104, 173, 183),
        "offload or recompute": (80, 68, 1360, None, 99, 163, 185),
        "offload or recompute, 2 spare": (84, 76, 1360, None, 104, 173, 189),
        "recompute": (80, 68, 1360, 2180, 99, 173, 185),
        "full recompute": (94, 82, 1680, 2720, 119, 178, 199),
    },
)
FORWARDS_FIRST = Table(
    partial(reached, "forward-first"),
    limit_of_saving,
    variants=tuple(EVERY_RULE),
    cases=tuple(SAVING),
    golden={
        "offload, 1 spare": (86, 79, 1450, None, 102, 146, 163),
        "offload": (88, 81, 1490, None, 106, 147, 180),
        "offload, 2 spare": (86, 87, 1450, None, 102, 145, 163),
        "offload or recompute, 1 spare": (92, 78, 1490, None, None, None, 176),
        "offload or recompute": (86, 76, 1470, None, 103, 162, 176),
        "offload or recompute, 2 spare": (92, 84, 1490, None, None, None, 180),
        "recompute": (86, 76, 1480, 2380, None, None, 178),
        "full recompute": (100, 88, 1680, 2590, None, None, 190),
    },
)

test_each_rule_that_saves_memory_where_backwards_come_first = golden_test(BACKWARDS_FIRST)
test_each_rule_that_saves_memory_where_forwards_come_first = golden_test(FORWARDS_FIRST)
