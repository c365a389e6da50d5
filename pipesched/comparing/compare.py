"""Several algorithms on the same problem, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pipesched.checks import MOST_WORKERS, require_mapping, require_sequence, require_whole, shown
from pipesched.comparing.candidates import Candidate, GivenAlgorithm, GivenPlan, candidates, problem_of_plans
from pipesched.config.load import load_values
from pipesched.config.values import problem_of
from pipesched.errors import ConfigError, NoSchedule, NotApplicable, OwnCodeFailed, blame
from pipesched.executors.opening import chosen, lent
from pipesched.pipeline.problem.costs import Memory
from pipesched.pipeline.problem.problem import Problem, require_problem
from pipesched.results.best_cut import work_of
from pipesched.results.comparison import Comparison, Entry
from pipesched.results.run import run
from pipesched.schedulers.options import ORDER, checked_option, checked_options, options_of
from pipesched.schedulers.registry import OWN, algorithms as all_algorithms, compared, family, runs_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pipesched.config.estimate import Measured

DEFAULT = ("naive", "1f1b", "interleaved")
ALL = "all"
Algorithms = str | Callable[..., Any] | Sequence[str | Callable[..., Any]]
Call = tuple[Problem, str, Mapping[str, Any], Candidate | None]


def compare(
    problem: Problem | None = None,
    algorithms: Algorithms | None = None,
    *,
    plans: Any = None,
    each: Mapping[str, Mapping[str, Any]] | None = None,
    jobs: int = 1,
    executor: Executor | str | None = None,
    like: str | None = None,
    measured: Measured | None = None,
    listener: Callable[[str], None] | None = None,
    **options: Any,
) -> Comparison:
    """Run several algorithms on one problem, and plans of your own, and return their outcomes in the order asked for.

    Args:
        problem: What to schedule; None is the problem of the first schedule among `plans`, else the built-in default.
        algorithms: Names of `algorithms()`, functions as `pipesched.family` takes them, or "all": every algorithm but
            those whose required options are not given. One that is listed twice, or under an alias too, has one entry.
            An algorithm that does not apply becomes an entry with the reason. Default: naive, 1f1b and interleaved, or
            none beside `plans`.
        plans: What else to compare, by names that are no algorithm's: a Plan, a Schedule, an Outcome, the options of a
            building block, or the name of a file (a JSON document, a CSV of PyTorch, a block or a config with one in
            YAML). Or one of them, or a list, named by the stem of a file and the name of a plan. Only orders are taken:
            times and memory are those of `problem`, with its stages fused to those of the plan. A plan that cannot be
            for this problem becomes an entry with the reason. Entries of plans follow those of algorithms.
        each: Options of single algorithms, by the names of algorithms that are compared.
        jobs: The number of processes that run algorithms side by side; 0: one a core. The answer is the same. None is
            started for what takes less time than that.
        executor: What runs them instead: the text of `open_executor`, or what it returns.
        like: Of a model on GPUs: the source of published runs whose software and cluster one's own are like.
        measured: Of a model on GPUs: the name of a YAML file of one's own runs, or pairs of a config and milliseconds.
        listener: Called with the name of each algorithm or plan as its turn comes.
        **options: Options for every algorithm that has them; they replace those of `each`. One that is None is not
            given, here and in `each`.

    Raises:
        ConfigError: For an unknown algorithm, an option that none of them knows, a bad value, or a file that cannot be
            read.
    """
    read = candidates(plans)
    if problem is None:
        problem = problem_of(load_values(problem_of_plans(read), {}))
    calls = comparison_calls(problem, algorithms, read, each, options)
    memory_unit = "" if problem.memory.unit == Memory.unit else problem.memory.unit
    entries = run_calls(calls, chosen(executor, require_whole(jobs, "jobs", most=MOST_WORKERS)), listener)
    if problem.cutter is not None:  # of a model on GPUs
        from pipesched.config.estimate import judge_of
        from pipesched.estimation.derived import SetupCutter
        from pipesched.estimation.result import Estimate

        is_low = isinstance(problem.cutter, SetupCutter) and problem.cutter.setup.recipe is not None
        judge, _ = judge_of(like, measured, low=is_low)
        entries = (
            entry if entry.outcome is None else replace(entry, standing=judge.standing(Estimate(entry.outcome)))
            for entry in entries
        )
    elif measured is not None:
        raise ConfigError("has no effect without a model on GPUs, whose steps are measured", "measured")
    return Comparison(tuple(entries), problem.time_unit, memory_unit)


def comparison_calls(
    problem: Problem,
    algorithms: Algorithms | None,
    plans: Any,
    each: Mapping[str, Mapping[str, Any]] | None,
    options: Mapping[str, Any],
) -> list[Call]:
    """Return what a comparison has to run, by its arguments. Raises ConfigError."""
    require_problem(problem)
    own: dict[str, Mapping[str, Any]] = {}  # options of single algorithms under their own names
    given = {} if each is None else require_mapping(each, "options by the names of algorithms", "each")
    for alias, asked in given.items():
        with blame("each"):
            one = family(alias)
        if one.name in own:
            raise ConfigError(f"gives options to {one.name} twice, under an alias too", "each")
        require_mapping(asked, f"a mapping of options for {shown(alias)}", "each")
        own[one.name] = checked_options(one, asked)
    known_plans = candidates(plans)
    names = _names(problem, algorithms, own, known_plans)
    for name in own:
        if name not in names:
            raise ConfigError(f"gives options to {name}, which algorithms does not list", "each")
    families = [family(name) for name in names]
    for key, value in options.items():
        takers = [algorithm for algorithm in families if key in options_of(algorithm)]
        if not takers:
            nobody = f"none of {', '.join(names)}" if names else "no algorithm that is compared"
            near = get_close_matches(key, {name for one in families for name in options_of(one)}, n=1)
            raise ConfigError(f"{nobody} takes the option `{key}`{f'; did you mean `{near[0]}`?' if near else ''}", key)
        checked_option(takers[0], key, value)
    calls: list[Call] = []
    for name in names:
        given = {key: value for key, value in options.items() if key in options_of(family(name)) and value is not None}
        calls.append((problem, name, {**own.get(name, {}), **given}, None))
    return calls + [(problem, name, {}, plan) for name, plan in known_plans.items()]


def run_calls(
    calls: Sequence[Call], executor: Executor | str | None, listener: Callable[[str], None] | None = None
) -> Iterator[Entry]:
    """Yield the entries of calls, of any problems, in their order, as they come; `listener` hears their names."""
    work = sum(work_of(problem) for problem, *_ in calls) if len(calls) > 1 else 0
    with lent(runs_of([call[1] for call in calls], executor), work) as pool:
        entries: Iterator[Entry] = map(_entry, calls)
        if pool is not None:
            from pipesched.executors.batches import map_batches

            entries = map_batches(pool, _entry, calls, name=lambda call: call[1])
        for call in calls:
            if listener is not None:
                listener(call[1])
            yield next(entries)


def every_name(own: Mapping[str, Mapping[str, Any]], problem: Problem | None = None) -> list[str]:
    """Return the name of every algorithm, without those that have required options and no entry in `own`.

    Of a `problem` without slices those that are others with them are left out too.
    """
    known = all_algorithms() if problem is None else (*compared(problem), *OWN.values())
    return [algorithm.name for algorithm in known if algorithm.name in own or not algorithm.required]


def _names(
    problem: Problem,
    algorithms: Algorithms | None,
    own: Mapping[str, Mapping[str, Any]],
    plans: Mapping[str, Candidate],
) -> list[str]:
    if algorithms is None:
        algorithms = () if plans else DEFAULT
    if isinstance(algorithms, str) and algorithms == ALL:
        return every_name(own, problem)
    is_one = isinstance(algorithms, str) or callable(algorithms)
    listed: Sequence[Any] = [algorithms] if is_one else require_sequence(algorithms, "algorithms")
    if not listed and not plans:
        raise ConfigError("must list at least one algorithm", "algorithms")
    with blame("algorithms"):
        names = [one.name for one in dict.fromkeys(map(family, listed))]
    texts = [*map(str, names)]
    if twice := [text for text in texts if texts.count(text) > 1]:
        what = "two functions; give them names by `pipesched.family(name, function)`"
        raise ConfigError(f"{twice[0]!r} names {what}", "algorithms")
    return names


def _entry(call: Call) -> Entry:
    problem, name, options, plan = call
    file, is_frozen = ("", False) if plan is None else (plan.file, not isinstance(plan, GivenAlgorithm))
    try:
        if plan is None:
            outcome = run(problem, name, **options)
            kept = {key: value for key, value in options.items() if key != ORDER or outcome.ordering is not None}
            return Entry(outcome.algorithm, outcome, options=kept, cut=outcome.cut)
        from pipesched.comparing.candidates import scheduled

        options = {} if isinstance(plan, GivenPlan) else plan.algorithm.options
        return Entry(name, scheduled(problem, name, plan), options=options, file=file, frozen=is_frozen)
    except (NotApplicable, NoSchedule) as error:
        failed = isinstance(error, OwnCodeFailed)
        return Entry(str(name), None, str(error), options, file=file, frozen=is_frozen, failed=failed)
