"""Heuristics, windows, exact models and bounds of a solve are no worse on named cases than they were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain

from pipesched import schedule_plan
from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.solver.model import full_model
from pipesched.solver.neighbourhood import Neighbourhood, NeighbourhoodModel, improve
from pipesched.solver.policy import DEFAULT, NeighbourhoodPolicy, PortfolioPolicy, SolvePolicy
from pipesched.solver.portfolio import PLAIN_RULES, RULES, justify, listed, named_candidates, pools, ruled_candidates
from pipesched.solver.recompute_offload import recompute_offload_rules, with_savings
from pipesched.solver.variant import Candidate, Variant
from plain_model import plain_model
from tests.quality_table import (
    PROBLEMS,
    SAVING,
    SMALL,
    SMALL_SAVING,
    TIGHT,
    Table,
    best_value,
    bound_of,
    golden_test,
    keeping,
    limit_of_saving,
    roomy,
    saving,
)


def reached(part: str, case: str) -> int | None:
    """Return the least makespan of a part of the portfolio."""
    known = keeping(case)
    if part == "named":
        return best_value(known, named_candidates(known))
    if part == "quick":
        return best_value(known, known.quick_ruled_candidates())
    sources = tuple(f"list ({rule}," for rule in PLAIN_RULES) if part == "plain" else ("list",)
    return best_value(known, (found for found in ruled_candidates(known) if found.source.startswith(sources)))


PORTFOLIO = Table(
    reached,
    bound_of,
    variants=("named", "ruled", "plain", "quick"),
    cases=tuple(PROBLEMS),
    golden={
        "named": (31, 178, 2690, 59, 227, 69, 367, 221, 1960, 107),
        "ruled": (32, 181, 2690, 58, 226, 69, 318, 206, 1900, 92),
        "plain": (33, 181, 2690, 67, 234, 69, 343, 215, 1960, 94),
        "quick": (33, 181, 2690, 59, 226, 69, 329, 215, 2040, 105),
    },
)

test_each_part_of_the_portfolio = golden_test(PORTFOLIO)


# The rules of list scheduling, each alone under the budget of whole devices, are no worse than they were.


def reached_rules(rule: str, case: str) -> int | None:
    """Return the makespan of the list schedule."""
    known = keeping(case)
    return best_value(known, listed(known, rule, pools(known)[-1], RULES[rule](known)))


RULED = Table(
    reached_rules,
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


# Shares of the budget for each stage: list schedules under them are no worse than they were.

SEVERAL_STAGES = ("v", "uneven v", "loop", "uneven loop", "wave", "scattered")


def reached_shares(pause: str, case: str) -> int | None:
    """Return the least makespan of all rules under these shares."""
    known = keeping(case)

    def candidates() -> Iterator[Candidate]:
        choice = next(choice for choice in pools(known) if choice.name == f", {pause}")
        for rule in RULES.values():
            yield from listed(known, pause, choice, rule(known))

    return best_value(known, candidates())


SHARED = Table(
    reached_shares,
    bound_of,
    variants=[f"shares {pause}" for pause in DEFAULT.portfolio.pauses],
    cases=SEVERAL_STAGES,
    golden={
        "shares 0": (58, 226, 69, 329, 206, 1940),
        "shares 2": (58, 228, 69, 329, 206, 2070),
        "shares 10": (59, 228, 76, 355, 207, 2210),
    },
)

test_list_schedules_under_shares = golden_test(SHARED)


# Lower bounds under a budget are no lower than they were, and no higher than a schedule that is known.

OBJECTIVES = ("makespan", "span")


def known_value(case: str) -> int:
    """Return the least makespan of a list schedule, which keeps all activations."""
    value = best_value(keeping(case), ruled_candidates(keeping(case)))
    assert value is not None
    return value


KEEPING = Table(
    lambda objective, case: keeping(case, objective).bound().ticks,
    known_value,
    variants=OBJECTIVES,
    cases=(*PROBLEMS, *TIGHT),
    golden={
        "makespan": (30, 170, 2590, 52, 204, 57, 248, 188, 1720, 92, 3030, 168, 2760, 276, 5940, 756),
        "span": (30, 169, 2590, 52, 204, 56, 248, 184, 1630, 86, 2940, 165, 2760, 276, 5940, 756),
    },
    rising=True,
)
SAVED = Table(
    lambda objective, case: saving(case, objective).bound().ticks,
    known_value,
    variants=OBJECTIVES,
    cases=(*SAVING, *TIGHT),
    golden={
        "makespan": (66, 1360, 1920, 72, 111, 132, 1800, 153, 1190, 159, 1890, 418),
        "span": (52, 1120, 1530, 66, 108, 126, 1620, 144, 710, 114, 1380, 336),
    },
    rising=True,
)

test_bounds_where_activations_are_kept = golden_test(KEEPING)
test_bounds_where_memory_may_be_saved = golden_test(SAVED)


# The exact models: the optimum of small cases, which CP-SAT proves, is what it was.

MODELS = {"full": full_model, "plain": plain_model}


@cache
def optimum(model: str, objective: str, case: str) -> int:
    """Return the optimum of a case by a model, and check the schedule that attains it."""
    known: Variant = saving(case, objective) if case in SMALL_SAVING else keeping(case, objective)
    most = 4 * sum(known.graph.durations) // known.quantum * known.quantum
    built = MODELS[model](known, 0, most) if model in MODELS else known.model(0, most)
    answer = built.solve(Limits(600, workers=1))
    assert answer.status == "optimal"
    assert answer.objective == answer.bound
    schedule = checked(known.replay([start * known.quantum for start in answer.starts]))
    assert schedule.fits
    assert known.value(schedule) == answer.bound * known.quantum
    return known.value(schedule)


def reached_exact(variant: str, case: str) -> int:
    """Return the optimum by a model and an objective."""
    model, _, objective = variant.partition(", ")
    return optimum(model, objective, case)


KEPT = Table(
    reached_exact,
    lambda case: keeping(case, "span").bound().ticks,
    variants=("full, makespan", "full, span", "plain, makespan", "plain, span"),
    cases=tuple(SMALL),
    golden={
        "full, makespan": (21, 58, 72, 39, 280),
        "full, span": (21, 57, 71, 39, 280),
        "plain, makespan": (21, 58, 72, 39, 280),
        "plain, span": (21, 57, 71, 39, 280),
    },
)
SAVED_exact = Table(
    reached_exact,
    lambda case: saving(case, "span").bound().ticks,
    variants=("saving, makespan", "saving, span"),
    cases=tuple(SMALL_SAVING),
    golden={"saving, makespan": (18, 300, 22), "saving, span": (18, 300, 22)},
)

test_optima_where_activations_are_kept = golden_test(KEPT, nightly=True)
test_optima_where_memory_is_saved = golden_test(SAVED_exact)


# Large neighbourhood search: from a list schedule it gets no less far than it did.

POLICY = SolvePolicy(neighbourhoods=NeighbourhoodPolicy(first_size=24, least_size=10, most_size=40, fruitless=12))
SEEDS = (0, 1)


def improved(objective: str, case: str, seed: int) -> int:
    """Return the objective of the last schedule that the search yields."""
    known = replace(keeping(case, objective), policy=POLICY)
    quick = next(known.quick_ruled_candidates())
    best = known.value(quick.schedule)
    for candidate in improve(known, quick.schedule, Limits(600, workers=1, seed=seed), Clock()):
        assert candidate.schedule.fits
        best = known.value(candidate.schedule)
    return best


IMPROVED = Table(
    lambda objective, case: min(improved(objective, case, seed) for seed in SEEDS),
    lambda case: keeping(case, "span").bound().ticks,
    variants=("makespan", "span"),
    cases=("uneven linear", "uneven v", "loop", "wave", "scattered", "two directions"),
    golden={"makespan": (179, 214, 66, 200, 1830, 92), "span": (179, 214, 66, 197, 1830, 87)},
)

test_the_search_improves_a_list_schedule = golden_test(IMPROVED, nightly=True)


# Justification: from a list schedule it gets no less far than it did, with its noise and without.


def reached_justify(seed: str, case: str) -> int | None:
    """Return the makespan after justification of the quick list schedule."""
    known = keeping(case)
    if seed == "without noise":
        known = replace(known, policy=SolvePolicy(portfolio=PortfolioPolicy(fruitless=len(pools(known)))))
    quick = next(known.quick_ruled_candidates())
    better = justify(known, quick.schedule, Limits(seed=int(seed == "seed 1")), Clock())
    return best_value(known, chain([quick], better))


JUSTIFIED = Table(
    reached_justify,
    bound_of,
    variants=("seed 0", "seed 1", "without noise"),
    cases=tuple(PROBLEMS),
    golden={
        "seed 0": (31, 181, 2690, 57, 226, 66, 329, 203, 1890, 92),
        "seed 1": (31, 180, 2690, 57, 226, 66, 325, 203, 1890, 92),
        "without noise": (31, 181, 2690, 57, 226, 66, 329, 203, 1890, 92),
    },
)

test_justification_of_a_list_schedule = golden_test(JUSTIFIED, nightly=True)


# Windows of a list schedule, solved to optimality: the whole schedule becomes no less short than it did.

PARTS = {"first quarter": (0, 1), "second quarter": (1, 2), "third quarter": (2, 3), "last quarter": (3, 4)}


def solved(objective: str, part: str, case: str) -> int | None:
    """Return the objective of the whole schedule with that window in its best order."""
    known = keeping(case, objective)
    old = known.replay(next(known.quick_ruled_candidates()).schedule.start_ticks)
    first, last = (old.makespan_ticks * quarter // 4 for quarter in PARTS[part])
    model = NeighbourhoodModel(known, old, Neighbourhood(first, last))
    answer = model.solve(Limits(600, workers=1))
    assert answer.status == "optimal"
    return best_value(known, [Candidate(part, model.schedule(answer.starts, old))])


WINDOWED = Table(
    lambda part, case: solved("makespan", part, case),
    lambda case: keeping(case).bound().ticks,
    variants=tuple(PARTS),
    cases=tuple(PROBLEMS),
    golden={
        "first quarter": (33, 181, 2690, 59, 225, 69, 327, 214, 2010, 105),
        "second quarter": (32, 181, 2690, 59, 225, 68, 316, 210, 2020, 105),
        "third quarter": (33, 179, 2690, 59, 225, 69, 316, 213, 1970, 105),
        "last quarter": (33, 181, 2690, 57, 223, 69, 312, 212, 1980, 104),
    },
)

test_windows_shorten_the_makespan = golden_test(WINDOWED, nightly=True)


# Each rule that saves memory, on one order that is over its budget, makes no worse schedules than it did.

EVERY_RULE = {str(rule): rule for rule in recompute_offload_rules(MemorySavings(True, True))}


def reached_memory_saving(base: str, rule: str, case: str) -> int | None:
    """Return the makespan of the list schedule by the rule `base`, with its memory saved."""
    known = saving(case)
    if not known.allowed.offload and "offload" in rule:
        return None
    plan = with_savings(roomy(case, base), known.allowed, EVERY_RULE[rule])
    return None if plan is None else best_value(known, [Candidate(rule, schedule_plan(known.problem, plan))])


BACKWARDS_FIRST = Table(
    partial(reached_memory_saving, "weights-before-forward"),
    limit_of_saving,
    variants=tuple(EVERY_RULE),
    cases=tuple(SAVING),
    golden={
        "offload, 1 spare": (78, 1360, None, 100, 153, 171),
        "offload": (82, 1360, None, 104, 161, 173),
        "offload, 2 spare": (78, 1360, None, 100, 152, 173),
        "offload or recompute, 1 spare": (84, 1360, None, 104, 173, 183),
        "offload or recompute": (80, 1360, None, 99, 163, 185),
        "offload or recompute, 2 spare": (84, 1360, None, 104, 173, 189),
        "recompute": (80, 1360, 2180, 99, 173, 185),
        "full recompute": (94, 1680, 2720, 119, 178, 199),
    },
)
FORWARDS_FIRST = Table(
    partial(reached_memory_saving, "forward-first"),
    limit_of_saving,
    variants=tuple(EVERY_RULE),
    cases=tuple(SAVING),
    golden={
        "offload, 1 spare": (86, 1450, None, 102, 146, 163),
        "offload": (88, 1490, None, 106, 147, 180),
        "offload, 2 spare": (86, 1450, None, 102, 145, 163),
        "offload or recompute, 1 spare": (92, 1490, None, None, None, 176),
        "offload or recompute": (86, 1470, None, 103, 162, 176),
        "offload or recompute, 2 spare": (92, 1490, None, None, None, 180),
        "recompute": (86, 1480, 2380, None, None, 178),
        "full recompute": (100, 1680, 2590, None, None, 190),
    },
)

test_each_rule_that_saves_memory_where_backwards_come_first = golden_test(BACKWARDS_FIRST)
test_each_rule_that_saves_memory_where_forwards_come_first = golden_test(FORWARDS_FIRST, nightly=True)


# The portfolio with offload and recompute: its parts are no worse than they were.

FIRST = {"the first three": 3, "the first thirty": 30}
CASES = ("offload", "uneven offload", "recompute", "halves", "loop of halves", "v of halves", "tight offload")
SOURCES = {"warm-ups": "1f1b, warm-ups", "list schedules": "list", "one by one": "one microbatch"}


@cache
def candidates(case: str) -> list[Candidate]:
    """Return all candidates, in their order."""
    return list(saving(case).ruled_candidates())


def reached_saving_portfolio(part: str, case: str) -> int | None:
    """Return the least makespan of a part."""
    found = candidates(case)
    if part in SOURCES:
        found = [candidate for candidate in found if candidate.source.startswith(SOURCES[part])]
    return best_value(saving(case), found[: FIRST.get(part)])


PARTS_saving_portfolio = Table(
    reached_saving_portfolio,
    limit_of_saving,
    variants=("all", *FIRST, *SOURCES),
    cases=CASES,
    golden={
        "all": (66, 1360, 1920, 84, 125, 132, 2250),
        "the first three": (66, 1360, 1920, 84, 125, 134, 2520),
        "the first thirty": (66, 1360, 1920, 84, 125, 132, 2250),
        "warm-ups": (66, 1360, 1920, 84, None, None, 2520),
        "list schedules": (68, 1360, 1920, 87, 140, 147, 2520),
        "one by one": (192, 3040, 5040, 210, 282, 294, 5940),
    },
)

test_each_part_of_the_portfolio_that_saves_memory = golden_test(PARTS_saving_portfolio, nightly=True)
