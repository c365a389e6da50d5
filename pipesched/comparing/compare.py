"""Several algorithms on one problem, side by side; and plans and blocks of files, fitted to it.

`compare` makes a call of each row (`comparison_calls`), and an Entry of each call. Behind it stands how plans are read
(`candidates`) and scheduled for the problem (`scheduled`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import MOST_WORKERS, require_label, require_mapping, require_sequence, require_whole, shown
from pipesched.config.load import load_values, timed_by
from pipesched.config.values import Algorithm, Source, problem_of, read_algorithm, read_fields
from pipesched.errors import ConfigError, Given, InvalidSchedule, NoSchedule, NotApplicable, OwnCodeFailed, blame
from pipesched.executors.opening import chosen, lent
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.layers.layers import BALANCED
from pipesched.pipeline.layers.recut import can_be_cut, fuse, open_cut, recut, settled, with_layout
from pipesched.pipeline.plan.plan import Plan, placement_of
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.costs import Memory
from pipesched.pipeline.problem.declared import BY_NAME, top_keys
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem, require_problem
from pipesched.pipeline.problem.readers import read_placement
from pipesched.results.best_cut import work_of
from pipesched.results.comparison import Comparison, Entry
from pipesched.results.outcome import Outcome
from pipesched.results.run import run
from pipesched.schedulers.options import ORDER, checked_option, checked_options, options_of
from pipesched.schedulers.registry import OWN, algorithms as all_algorithms, compared, family, is_known, runs_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pipesched.config.estimate import Measured

BLOCK = "block"
YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class GivenPlan:
    """A plan that was given, or read from a file."""

    plan: Plan | None  # None: there is a refusal
    placement: Placement | None = None  # None: the one that the plan shows
    file: str = ""
    refusal: str = ""  # what the file breaks
    problem: Problem | None = None  # that of its schedule, where it has one
    is_open: bool = False  # whether the cut of that was open


class GivenAlgorithm(NamedTuple):
    """An algorithm with its options, a building block above all, and what else its file says of where it runs."""

    algorithm: Algorithm
    file: str = ""
    devices: Any = None
    placement: Any = None


Candidate = GivenPlan | GivenAlgorithm

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
    """Return the entry of a call; what does not apply, or failed, becomes its reason."""
    problem, name, options, plan = call
    file, is_frozen = ("", False) if plan is None else (plan.file, not isinstance(plan, GivenAlgorithm))
    try:
        if plan is None:
            outcome = run(problem, name, **options)
            kept = {key: value for key, value in options.items() if key != ORDER or outcome.ordering is not None}
            return Entry(outcome.algorithm, outcome, options=kept, cut=outcome.cut)
        options = {} if isinstance(plan, GivenPlan) else plan.algorithm.options
        return Entry(name, scheduled(problem, name, plan), options=options, file=file, frozen=is_frozen)
    except (NotApplicable, NoSchedule) as error:
        failed = isinstance(error, OwnCodeFailed)
        return Entry(str(name), None, str(error), options, file=file, frozen=is_frozen, failed=failed)


def candidates(plans: Any) -> dict[str, Candidate]:
    """Return what stands for each name: a Plan, a Schedule, an Outcome, options of a block, or what is in a file.

    None stands for no plans. In a list files are named by their stems, others by their plans. Raises ConfigError for a
    file that cannot be read, for anything else, and for the name of an algorithm.
    """
    if plans is None:
        return {}
    files = [plans] if isinstance(plans, (str, Path, Plan, Schedule, Outcome)) else plans
    listed = name_files([(None, file) for file in files]) if isinstance(files, (list, tuple)) else files
    by_name = require_mapping(listed, "plans by their names, or a list of files", "plans")
    for name in by_name:
        if not require_label(name, "plans") or is_known(name):
            what = f"{shown(name)} is the name of an algorithm; choose another" if name else "a plan needs a name"
            raise ConfigError(what, "plans")
    return {name: _candidate(name, value) for name, value in by_name.items()}


def problem_of_plans(plans: Mapping[str, Candidate]) -> Source | None:
    """Return the problem of the first schedule among plans, as a config would give it; None where there is none.

    Its placement is open, and so is a cut of layers that was open, or that balances them; what has its default is left
    to that.
    """
    given = [(plan.file or name, plan) for name, plan in plans.items() if isinstance(plan, GivenPlan)]
    name, plan = next((one for one in given if one[1].problem is not None), ("", None))
    if plan is None or plan.problem is None:
        return None
    problem = plan.problem
    from pipesched.documents.json_text import dump, parse_document
    from pipesched.documents.problem import BY_LAYER, by_layer, problem_document, problem_values

    values = problem_values(parse_document(dump(problem_document(problem)), name))
    defaults = {"placement": values["placement"], "recompute": values["forward"], "reload": values.get("offload")}
    unsaid = [key for key, default in defaults.items() if values.get(key) == default]
    if problem.layers is None or not problem.layers.make(problem.costs, problem.memory):
        unsaid += BY_LAYER
    else:
        balanced = replace(problem, placement=None, layers=replace(problem.layers, rule=BALANCED), cutter=None)
        values = by_layer(values)
        if plan.is_open:
            unsaid.append("layout")
        elif recut(balanced, problem.settled_placement) == problem:
            values["layout"] = BALANCED
    said = {key: Given(value, f"{name}: {BY_NAME[key].key}") for key, value in values.items() if key not in unsaid}
    return Source("", name, said)


def name_files(files: Sequence[tuple[str | None, Any]]) -> dict[str, Any]:
    """Return files and plans, in their order, by their names: as given, else their own, or what is free in its stead.

    Raises ConfigError for a name that is given twice, and for what is neither a file nor a plan.
    """
    given = [name for name, _ in files if name is not None]
    twice = [name for name in given if given.count(name) > 1]
    if twice:
        raise ConfigError(f"{shown(twice[0])} names two files; choose another", "plans")
    named: dict[str, Any] = {}
    for name, one in files:
        if name is not None:
            named[name] = one
            continue
        if isinstance(one, (str, Path)):
            own = [Path(one).stem, str(one)]
        elif isinstance(one, (Plan, Schedule, Outcome)):
            own = [one.algorithm if isinstance(one, Outcome) else one.name]
        else:
            raise ConfigError(f"must be names of files, or plans, not {shown(one)}; other plans need names", "plans")
        own = [text for text in own if text.isprintable()] or ["plan"]
        free = chain(filter(None, own), (f"{own[0] or 'plan'}-{number}" for number in count(2)))
        named[next(text for text in free if text not in {*given, *named} and not is_known(text))] = one
    return named


def _candidate(name: str, value: Any) -> Candidate:
    if isinstance(value, (GivenPlan, GivenAlgorithm)):
        return value
    if isinstance(value, Plan):
        return GivenPlan(value)
    if isinstance(value, (Schedule, Outcome)):
        return _of_schedule(value)
    if isinstance(value, Mapping):
        given = require_mapping(value, "options of a block", "plans")
        try:
            return GivenAlgorithm(Algorithm(BLOCK, checked_options(family(BLOCK), given), {}))
        except ConfigError as error:
            raise ConfigError(f"{shown(name)}: {error}", "plans") from None
    if isinstance(value, (str, Path)):
        return _in_yaml(str(value)) if str(value).lower().endswith(YAML) else _in_file(str(value))
    what = "a Plan, a Schedule, an Outcome, options of a block, or the name of a file"
    raise ConfigError(f"{shown(name)} must be {what}, not {shown(value)}", "plans")


def _of_schedule(value: Schedule | Outcome) -> GivenPlan:
    schedule, is_open = (value.schedule, value.cut is not None) if isinstance(value, Outcome) else (value, False)
    return GivenPlan(schedule.plan, schedule.problem.placement, problem=schedule.problem, is_open=is_open)


def _in_file(file: str) -> GivenPlan:
    """Return the plan of a JSON document or a CSV of PyTorch. Raises ConfigError."""
    from pipesched.file_formats.files import is_csv, order_of, read_document, read_file

    text = read_file(file)
    if not is_csv(text):
        result = read_document(text)
        if not isinstance(result, Outcome):
            raise ConfigError(f"{file} holds a {type(result).__name__.lower()}, not a schedule", "plans")
        return replace(_of_schedule(result), file=file)
    try:
        return GivenPlan(*order_of(text), file=file)
    except InvalidSchedule as error:
        return GivenPlan(None, file=file, refusal=str(error))


def _in_yaml(file: str) -> GivenAlgorithm:
    """Return the algorithm of a config, or the block whose options stand in a file alone. Raises ConfigError."""
    from pipesched.text.yaml_reader import Value, parse_yaml, read_text

    root = parse_yaml(read_text(Path(file)), file)
    keys = root.data if isinstance(root.data, dict) else {}
    if "algorithm" in keys:
        values = read_fields(root, file)
        if "algorithm" in values:
            where = (values[key].value if key in values else None for key in ("devices", "placement"))
            return GivenAlgorithm(_picklable(values["algorithm"].value), file, *where)
    if not isinstance(root.data, dict) or any(key in top_keys() for key in keys):
        form = "algorithm: {block: {period: .., forward: [..], backward: [..]}}"
        raise ConfigError(f"{file} has no algorithm to compare; it needs `{form}`, or the options of a block alone")
    block = root if BLOCK in keys else Value({BLOCK: root}, root.line)
    return GivenAlgorithm(_picklable(read_algorithm(block, file)), file)


def _picklable(algorithm: Algorithm) -> Algorithm:
    """Return the same algorithm without views of mappings, which do not go to other processes."""
    return Algorithm(algorithm.name, dict(algorithm.options), dict(algorithm.locations))


def scheduled(problem: Problem, name: str, given: Candidate) -> Outcome:
    """Return the checked schedule of a plan or block for a problem.

    Raises NotApplicable with the reason why it cannot be for this problem, and ConfigError for a bad option of a block.
    """
    if isinstance(given, GivenAlgorithm):
        return _run(problem, name, given)
    if given.plan is None:
        raise NotApplicable(given.refusal)
    from pipesched.file_formats.pytorch_csv import planned

    file, own, layers = given.file or "the plan", getattr(given.problem, "layers", None), problem.layers
    if own is not None and layers is not None and own.count == layers.count and can_be_cut(problem):
        problem = with_layout(problem, own.layout)
    try:
        placement = placement_of(given.plan) if given.placement is None else given.placement
        fitted = timed_by(given.plan, placement, problem, file).fitted
        return Outcome(name, checked(schedule_plan(fitted, planned(fitted, given.plan))))
    except ConfigError as error:
        lacks = "the problem has " if error.key == "problem" else ""
        raise NotApplicable(f"{lacks}{error.message}") from None
    except InvalidSchedule as error:
        raise NotApplicable(str(error)) from None


def _run(problem: Problem, name: str, given: GivenAlgorithm) -> Outcome:
    """Return the outcome of an algorithm of a file on a problem, fitted to it. Raises NotApplicable."""
    algorithm, file = given.algorithm, given.file
    if given.devices is not None and given.devices != problem.devices:
        raise NotApplicable(f"the problem has {problem.devices} devices, but {file} has {shown(given.devices)}")
    fitted = _fused(problem, algorithm)
    try:
        where = given.placement
        placement = None if where is None else read_placement(where, fitted.devices, fitted.stages)
    except ConfigError as error:
        raise NotApplicable(f"placement of {file}: {error.message}", "placement") from None
    if placement is not None:
        if problem.placement is not None and placement.in_blocks(problem.stages) != problem.placement:
            raise NotApplicable(f"{file} places its stages otherwise than the problem does", "placement")
        fitted = settled(fitted, placement)
    with algorithm.located():
        return replace(run(fitted, algorithm.name, **algorithm.options), algorithm=name)


def _fused(problem: Problem, algorithm: Algorithm) -> Problem:
    """Return `problem` fused to the stages of a block, or its layers cut anew; as it is for other algorithms."""
    starts = algorithm.options.get("forward") if algorithm.name == BLOCK else None
    stages = len(starts) if isinstance(starts, (list, tuple)) else 0
    if not stages or stages == problem.stages or stages < problem.devices:
        return problem
    if can_be_cut(problem):
        return open_cut(problem, stages)
    fused = fuse(problem, stages)
    if problem.placement is None:
        return fused
    placement = replace(problem.placement, devices=problem.placement.devices[:: problem.stages // stages])
    if placement.in_blocks(problem.stages) != problem.placement:
        raise NotApplicable(f"the placement of the problem does not let its stages be fused into {stages}", "placement")
    return replace(fused, placement=placement)
