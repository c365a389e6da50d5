"""The main path: a problem and the name of an algorithm become a checked schedule with its bound.

`run` fits the stages, chooses cut and slices where they are open, lets the family plan in the order of microbatches
that is asked for, times the plan and checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

from pipesched.core.clock import check_deadline
from pipesched.errors import ConfigError, Deadlock, NoSchedule, NotApplicable, PipeschedError
from pipesched.pipeline.check.check import checked, over_budget
from pipesched.pipeline.layers.recut import seeks_best
from pipesched.pipeline.plan.message_programs import with_queues
from pipesched.pipeline.plan.plan import Plan, with_parts
from pipesched.pipeline.plan.schedule import Schedule, queued, schedule_plan
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.pipeline.problem.problem import Problem, require_problem, require_size
from pipesched.pipeline.problem.quantities import canonical, plain
from pipesched.results.outcome import CutChoice, Outcome
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.options import COMMON, OFFLOAD, ORDER, RECOMPUTE, SIDE_RULE, checked_options
from pipesched.schedulers.ordering import BEST, FedFamily, ordering_of
from pipesched.schedulers.plan_of import Timing, joined, plan_of
from pipesched.schedulers.registry import family

GROUPS = "group_size"  # the option


def run(problem: Problem, algorithm: str | Callable[..., Any], **options: Any) -> Outcome:
    """Schedule `problem` by one algorithm.

    Args:
        problem: What to schedule; stages are fused to the number that the algorithm needs.
        algorithm: A name or alias of `algorithms()`, or a function as `pipesched.family` takes it.
        **options: Options of the algorithm: `group_size` (interleaved and its relatives; "best" finds it), `lifo`
            (naive), `priority`, `tie` and `seed` (list), `objective` (zb-auto and the V schedules), `period`,
            `forward`, `backward`, .. (block). Every algorithm takes `recompute` and `offload`: "full" is all stages, a
            number so many of the first; of a problem by layers, `recompute` takes so many layers of each stage. Every
            one takes `order`, in which it feeds the microbatches: "given" (default), "verl" (the rule of that library),
            "longest" or "shortest" (by work), "best" (the shortest schedule), or a list of them; and `side_rule`, where
            side work stands: "bubbles" (default: where devices would wait) or "first" (before and behind all passes).
            One that is None is not given: it has its default.

    Raises:
        NotApplicable: The algorithm does not suit the problem, has no such option, or fewer stages than that.
        ConfigError: An unknown name, or a bad value.
        NoSchedule: The algorithm obeys the budget, and finds no schedule within it.

    Where messages queue, it plans with free ones, and the same orders get their times in the queues.
    """
    chosen = family(algorithm)
    given = checked_options(chosen, options)
    messages = require_problem(problem).messages
    problem = problem if messages is None else with_queues(problem, None)  # families plan with free ones
    fitted, cut, wanted = prepare(problem, chosen), None, given.get(ORDER)
    for key in (RECOMPUTE, OFFLOAD):
        if given.get(key) is not None:
            from pipesched.pipeline.bounds.memory import require_kept

            require_kept(fitted, key)
    rule, timed = given.get(SIDE_RULE), schedule_plan
    if fitted.side:
        from pipesched.schedulers.side_work import side_schedule

        timed = partial(side_schedule, rule=rule)
    elif rule is not None:
        raise ConfigError("has no effect without side work (`side`)", SIDE_RULE)
    saved = MemorySavings(offload=given.get(OFFLOAD) is not None, recompute=given.get(RECOMPUTE) is not None)
    plan: Callable[[Problem], Plan] = partial(_plan, chosen=chosen, options=given, timed=timed)
    with _explained(chosen, given):
        if seeks_best(fitted) and fitted.stages > 1:
            plan = cache(plan)
            fitted, cut = _best_cut(fitted, chosen, given, plan, timed)
        if saved.recompute:
            from pipesched.schedulers.saved_plan import with_fewer_layers

            fitted = with_fewer_layers(fitted, chosen, given[RECOMPUTE])
    if fitted.slices.rule is not None:
        nested = {key: value for key, value in given.items() if key != GROUPS or value != BEST}  # beside the slices
        fitted = with_best_slices(fitted, partial(_plan, chosen=chosen, options=nested, timed=timed), timed)
    fed = FedFamily(fitted, chosen, plan, timed)
    with _explained(chosen, given):
        ordering = None if wanted is None else ordering_of(fed, wanted)
        if messages is not None and not (fitted.has_step or any(saved)):  # timed once, in the queues
            fed.timed = lambda one, made: schedule_plan(with_queues(one, messages), made)
        schedule = fed.schedule(None if ordering is None else ordering.order)
    schedule = checked(schedule if schedule.problem.messages or messages is None else queued(schedule, messages))
    is_grouped = GROUPS in chosen.options and given.get(GROUPS, BEST) == BEST
    if chosen.obeys_budget and not schedule.fits:
        from pipesched.pipeline.bounds.memory import require_least_capacity

        whole = schedule.problem
        split = replace(whole, costs=replace(whole.costs, split=True)) if chosen.splits_backward else whole
        require_least_capacity(split, saved)
        raise NoSchedule(
            f"{chosen.name} found no order that keeps the budget with what the step holds beside activations:"
            f" {over_budget(schedule)[0]}",
            device=schedule.over_budget[0],
        )
    return Outcome(str(chosen.name), schedule, ordering=ordering, is_grouped=is_grouped, cut=cut)


@contextmanager
def _explained(chosen: Family, options: Mapping[str, Any]) -> Iterator[None]:
    """Let a deadlock, inside the block, say which options of a family it is from."""
    try:
        yield
    except Deadlock as error:
        said = ", ".join(f"`{name}` {value}" for name, value in options.items())
        raise NotApplicable(f"{chosen.name} with {said or 'these numbers'} has no valid order here: {error}") from None


def _best_cut(
    problem: Problem, chosen: Family, options: Mapping[str, Any], plan: Callable[[Problem], Plan], timed: Timing
) -> tuple[Problem, CutChoice]:
    """Return the problem on the best cut for a family: by one plan where its order is the same on all cuts."""
    from pipesched.results.best_cut import best_cut

    recompute, order = options.get(RECOMPUTE), options.get(ORDER)
    has_savings = recompute is not None or options.get(OFFLOAD) is not None
    is_settled = chosen.settles(problem.devices, problem.stages, problem.microbatches)
    is_settled &= not (problem.has_step or has_savings or order not in (None, BEST))
    is_settled &= not (problem.costs.chooses and chosen.splits_backward is not False)  # joins follow from costs
    is_settled &= not (chosen.has_pairs and problem.cutter is not None)  # whose pairs depend on two stages
    own = {key: value for key, value in options.items() if key not in COMMON}
    passes = cache(lambda one: plan_of(chosen, one, timed, **own)) if has_savings else plan

    def schedule(one: Problem) -> Schedule:
        """Return the schedule on a cut, with options as given; an order that is open is that of the microbatches."""
        if recompute is not None:
            from pipesched.schedulers.saved_plan import with_fewer_layers

            one = with_fewer_layers(one, chosen, recompute)
        fed = FedFamily(one, chosen, plan, timed)
        ordering = None if order in (None, BEST) else ordering_of(fed, order)
        made = fed.schedule(None if ordering is None else ordering.order)
        if chosen.obeys_budget and not made.fits:
            raise NoSchedule(f"{chosen.name} found no order that keeps the budget on this cut")
        return made

    return best_cut(problem, passes, schedule, is_settled=is_settled)


def _plan(problem: Problem, chosen: Family, options: Mapping[str, Any], timed: Timing) -> Plan:
    """Return the plan of a family, with recompute and offload where its options ask for them."""
    own = {key: value for key, value in options.items() if key not in COMMON}
    recompute, offload = options.get(RECOMPUTE), options.get(OFFLOAD)
    is_saved = recompute is not None or offload is not None

    def saved(plan: Plan) -> Plan:
        from pipesched.schedulers.saved_plan import saved_plan, savings

        return saved_plan(plan, *savings(problem, chosen, recompute, offload))

    if GROUPS in chosen.options:
        own["judge"] = lambda plan: timed(problem, saved(joined(problem, plan)) if is_saved else joined(problem, plan))
    plan = plan_of(chosen, problem, timed, **own)
    return with_parts(saved(plan) if is_saved else plan, name=str(chosen.name))


def with_best_slices(
    problem: Problem, plan: Callable[[Problem], Plan], timed: Callable[[Problem, Plan], Schedule]
) -> Problem:
    """Return `problem` with the number of slices whose plan is shortest, of all of its rule. May raise."""
    rule = problem.slices.rule
    assert rule is not None
    require_size(problem.letters, problem.stages, problem.microbatches, rule.most)
    tried, refusals = dict[int, Fraction](), list[PipeschedError]()
    for count in range(1, rule.most + 1):
        check_deadline()
        sliced = replace(problem, slices=rule.slices(count))
        try:
            schedule = timed(sliced, plan(sliced))
        except (NotApplicable, NoSchedule, Deadlock) as error:
            refusals.append(error)
        else:
            tried[count] = Fraction(schedule.makespan_ticks, sliced.ticks.per_unit)
    if not tried:
        raise refusals[0]
    best = rule.slices(min(tried, key=lambda count: tried[count]))
    makespans = tuple((count, plain(canonical(makespan))) for count, makespan in tried.items())
    return replace(problem, slices=replace(best, tried=makespans))
