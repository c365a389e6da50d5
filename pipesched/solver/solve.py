"""A solve: bounds, then the portfolio, then CP-SAT or improvement, each only if those before left a gap.

Every stage reports what it finds; Ctrl-C and the time limit end it with the best schedule so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from pipesched.core.cpsat import Limits
from pipesched.errors import ConfigError, NoSchedule
from pipesched.lookup import find as look_up
from pipesched.outcome import Outcome, SolveReport
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.floor import Relief
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.solver.bounds import best_bound
from pipesched.solver.case import OBJECTIVES, Case
from pipesched.solver.exact import prove
from pipesched.solver.feasible import feasible
from pipesched.solver.improve import improve
from pipesched.solver.justify import justify
from pipesched.solver.placements import AUTO, in_blocks, name_of, placed, refined
from pipesched.solver.portfolio import by_names, by_rules
from pipesched.solver.saving import of_case, saving_bound, saving_by_names, saving_by_rules
from pipesched.solver.search import Find, Listener, Search
from pipesched.solver.transfers import SavingCase

PORTFOLIO_SHARE = 0.25  # of the time limit, at most
SLOW = 1_000  # operations from which some algorithms take seconds
SMALL, LARGE = 300, 3_500  # operations: up to which CP-SAT needs no better schedule first; from which it cannot prove
END_OF_TIME = 0.02  # of the time limit: with less than that left, it was the limit that ended a search
SHARE_USED = 0.9  # of the time that a case was given: with more than that used, its time was up
JUSTIFY_SHARE, IMPROVE_SHARE = 0.2, 0.6  # of the time of a case; the second, of what the first leaves
METHODS = ("auto", "portfolio", "cpsat", "improve")


def solve(
    problem: Problem,
    *,
    objective: str = "makespan",
    time_limit: float = 60.0,
    gap: float = 0.0,
    workers: int = 0,
    seed: int = 0,
    placement: Sequence[str] = (AUTO,),
    split_backward: bool | None = None,
    offload: bool = False,
    recompute: bool = False,
    hint: Schedule | None = None,
    method: str = "auto",
    listener: Listener | None = None,
) -> Outcome:
    """The schedule of `problem` with the least objective within its budget, with what is proved about it.

    `time_limit` is in seconds, `gap` relative; `workers` 0 means one a core. `placement` names placements to try when
    the problem leaves it open. `split_backward` None: as the costs are given. `offload` and `recompute` allow to do so
    with any activation. `hint` is a schedule to begin from.
    The outcome's `report` says the status, the bound and what it rests on. Raises NoSchedule when nothing fits the
    budget, or nothing is found in time; ConfigError for bad arguments. Ctrl-C returns the best schedule so far.
    """
    look_up(dict.fromkeys(OBJECTIVES), objective, "objective", "objective")
    look_up(dict.fromkeys(METHODS), method, "method", "method")
    if split_backward is not None:
        problem = replace(problem, costs=replace(problem.costs, split=split_backward))
    relief = Relief(offload, recompute)
    if offload and problem.costs.offload is None:
        raise ConfigError(
            "to offload, costs.offload (--offload-cost) must say what one transfer takes", "costs.offload"
        )
    fitting = feasible(placed(problem, placement), relief)
    cases = [SavingCase(one, objective, relief) if any(relief) else Case(one, objective) for one in fitting]
    search = Search(cases, Limits(time_limit, gap, workers, seed), listener)
    stopped_by = _run(search, method, hint)
    if search.best is None:
        raise NoSchedule(f"no schedule was found within {time_limit:g} s")
    return _outcome(search, stopped_by)


def _run(search: Search, method: str, hint: Schedule | None) -> str:
    """All stages, until one of them settles it; what ended them."""
    try:
        _heuristics(search, hint)
        if method != "portfolio":
            _go_on(search, method)
    except KeyboardInterrupt:
        if search.best is None:
            raise
        return "interrupt"
    if not search.open:
        return "proof" if search.value == search.bound.ticks else "gap"
    return "search" if search.left > END_OF_TIME * search.limits.seconds else "time limit"


def _heuristics(search: Search, hint: Schedule | None) -> None:
    """Bounds of every case, then the hint, then the portfolio until a bound is met or its share of the time is used.

    The algorithms that have names have all the time there is: if it is enough for them, no answer is worse than one of
    theirs.
    """
    search.at("bounds")
    for place, case in enumerate(search.cases):
        search.raise_bound(place, saving_bound(case) if isinstance(case, SavingCase) else best_bound(case))
    if hint is not None:
        _take_hint(search, hint)
    for place in _heuristic_order(search):
        if search.best is None or place in search.open:
            search.at(f"portfolio, {name_of(search.cases[place].problem)}")
            named, ruled = _portfolio(search.cases[place])
            _try(search, place, named, until=search.limits.seconds)
            _try(search, place, ruled, until=PORTFOLIO_SHARE * search.limits.seconds)


def _heuristic_order(search: Search) -> list[int]:
    """The least bound first. Where that takes long: one list schedule of each case, to have something to show; then
    linear and loop before v and wave, whose algorithms compare many orders."""
    if max(len(case.graph) for case in search.cases) <= SLOW:
        return sorted(range(len(search.cases)), key=lambda place: search.bounds[place].ticks)
    for place, case in enumerate(search.cases):
        search.at(f"list schedule, {name_of(case.problem)}")
        _try(search, place, _quick(case), until=search.limits.seconds)
    return list(range(len(search.cases)))


def _try(search: Search, place: int, finds: Iterator[Find], until: float) -> None:
    """Offer finds of a case until it is settled, or the time has come."""
    while (search.best is None or (place in search.open and search.seconds < until)) and (find := next(finds, None)):
        search.offer(place, find, heuristic=True)


def _portfolio(case: Case) -> tuple[Iterator[Find], Iterator[Find]]:
    """What the algorithms that have names find, and what else there is."""
    if isinstance(case, SavingCase):
        return saving_by_names(case), saving_by_rules(case)
    return by_names(case), by_rules(case)


def _quick(case: Case) -> Iterator[Find]:
    """One list schedule."""
    finds = islice(by_rules(case), 1)
    return (of_case(case, find) for find in finds) if isinstance(case, SavingCase) else finds


def _take_hint(search: Search, hint: Schedule) -> None:
    """Offer a schedule from elsewhere. Raises ConfigError when it is no schedule of this model and its placements."""
    for place, case in enumerate(search.cases):
        problem = case.problem
        sizes = (problem.devices, problem.microbatches, problem.stages % hint.plan.index.stages)
        if sizes != (hint.problem.devices, hint.problem.microbatches, 0):
            continue
        if in_blocks(hint.problem.home(), problem.stages) == problem.home():
            schedule = _of_case(hint, case)
            if schedule is not None:
                search.offer(place, Find("hint", schedule))
                return
    raise ConfigError("the hint is no schedule of this model on a placement that is tried here", "hint")


def _of_case(hint: Schedule, case: Case) -> Schedule | None:
    """A schedule from elsewhere as one of `case`, if the case allows what it runs."""
    if isinstance(case, SavingCase) and hint.plan.index.stages == case.problem.stages:
        return case.adopted(hint)
    if not set(hint.plan.index.kinds) <= set("FBIW"):
        return None
    plan = refined(hint.plan, case.index.kinds, case.problem.stages)
    return None if plan is None else schedule_plan(case.problem, plan)


def _go_on(search: Search, method: str) -> None:
    """CP-SAT or improvement on what is open, the most promising first, until nothing is, or the time is up.

    Each case has its share of the time; those that it cuts off share what the others leave.
    """
    waiting, cut_off = set(range(len(search.cases))), set[int]()
    while search.best and search.left > END_OF_TIME * search.limits.seconds:
        places = [place for place in search.open if place in waiting]
        if places:
            began, share = search.seconds, search.left / len(places)
            _search_one(search, places[0], share, method)
            waiting.remove(places[0])
            if search.seconds - began > SHARE_USED * share:
                cut_off.add(places[0])
        elif cut_off:
            waiting, cut_off = cut_off, set()
        else:
            return


def _search_one(search: Search, place: int, seconds: float, method: str) -> None:
    """One case. CP-SAT alone proves, and is quick on small cases; on large ones improvement finds more in less time."""
    size, name = len(search.cases[place].graph), name_of(search.cases[place].problem)
    until = search.seconds + seconds
    if isinstance(search.cases[place], SavingCase):
        search.at(f"CP-SAT, {name}")
        prove(search, place, seconds)
        return
    if method != "cpsat":
        search.at(f"justification, {name}")
        justify(search, place, JUSTIFY_SHARE * seconds)
    if method == "improve" or (method == "auto" and size > SMALL):
        share = 1.0 if method == "improve" or size > LARGE else IMPROVE_SHARE
        search.at(f"improvement, {name}")
        improve(search, place, share * (until - search.seconds))
    if place in search.open and until > search.seconds and (method == "cpsat" or size <= LARGE):
        search.at(f"CP-SAT, {name}")
        prove(search, place, until - search.seconds)


def _outcome(search: Search, stopped_by: str) -> Outcome:
    assert search.best is not None
    place = search.finds.index(search.best)
    return Outcome(
        "solve",
        search.best.schedule,
        SolveReport(
            objective=search.cases[place].objective,
            status="optimal" if search.value == search.bound.ticks else "feasible",
            value=search.value,
            bound=search.bound,
            makespan_bound=search.bounds[place] if search.cases[place].objective == "makespan" else Bound(0, ""),
            seconds=search.seconds,
            stopped_by=stopped_by,
            source=search.best.source,
            heuristic=search.heuristic,
            placements=tuple(name_of(case.problem) for case in search.cases),
        ),
    )
