"""Several algorithms on the same problem, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from pipesched.checks import (
    joined,
    require_label,
    require_mapping,
    require_sequence,
    require_text,
    require_type,
    require_whole,
    shown,
)
from pipesched.display import HasPage
from pipesched.errors import ConfigError, NoSchedule, NotApplicable
from pipesched.executors.opening import chosen, lent
from pipesched.names import require_name
from pipesched.outcome import Outcome, run
from pipesched.pipeline.costs import BRIEF
from pipesched.pipeline.problem import Problem, require_problem
from pipesched.runs_in import TRAINERS, runs_in, weight_copies
from pipesched.schedulers.options import checked_option, checked_options, labelled, options_of
from pipesched.schedulers.registry import algorithms as all_algorithms
from pipesched.schedulers.registry import family, own_name

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pipesched.given_plans import Contestant

DEFAULT = ("naive", "1f1b", "interleaved")
ALL = "all"
Call = tuple[Problem, str, Mapping[str, Any], "Contestant | None"]


@dataclass(frozen=True)
class Entry:
    """One algorithm or plan of a comparison: its outcome, or the `reason` why it does not apply.

    `options` are those it was given, `file` is where a plan was read. `metrics` are the outcome's; an entry that was
    read from a document has metrics and no outcome, and says by `trainers` and `copies` what `runs_in` and `weights`
    are. Raises ConfigError, about the field at fault, for a value of another type.
    """

    algorithm: str
    outcome: Outcome | None = None
    reason: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    document: Mapping[str, Any] | None = field(default=None, repr=False)
    trainers: Sequence[str] = field(default=(), repr=False)
    copies: int = field(default=1, repr=False)
    file: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        require_text(self.algorithm, "algorithm")
        require_type(self.outcome, (Outcome, type(None)), "an Outcome or None", "outcome")
        require_text(self.reason, "reason")
        require_mapping(self.options, "options by their names", "options")
        if self.document is not None:
            require_mapping(self.document, "metrics by their names, or None", "document")
        for trainer in require_sequence(self.trainers, "trainers"):
            require_text(trainer, "trainers")
        require_whole(self.copies, "copies", least=1)
        require_text(self.file, "file")

    def __repr__(self) -> str:
        what = shown(self.reason) if self.metrics is None else f"makespan {self.metrics['makespan']}"
        return f"Entry({shown(self.algorithm, BRIEF)}, {what})"

    @property
    def label(self) -> str:
        """The name of the algorithm, with what it recomputes and offloads: "1f1b, recompute full"."""
        return labelled(self.algorithm, self.options)

    @property
    def applicable(self) -> bool:
        """Whether the algorithm suits the problem."""
        return self.metrics is not None

    @property
    def metrics(self) -> Mapping[str, Any] | None:
        """The metrics by their names in the JSON document; None where the algorithm does not apply."""
        return self.document if self.outcome is None else self.outcome.metrics

    @property
    def runs_in(self) -> list[str]:
        """The trainers that can run the schedule as it is: "pytorch", from a CSV."""
        return list(self.trainers) if self.outcome is None else runs_in(self.outcome.schedule)

    @property
    def weights(self) -> int:
        """The number of copies of each stage's weights that the schedule needs: 1, or 2 where it is bidirectional."""
        return self.copies if self.outcome is None else weight_copies(self.outcome.schedule)

    @property
    def rank(self) -> tuple[bool, bool, Fraction, Fraction]:
        """The sort key: what fits its budget comes before what does not, and what does not apply comes last; otherwise
        the shorter makespan comes first, and of equal makespans the one whose largest device holds less."""
        if self.outcome is not None:
            schedule = self.outcome.schedule
            makespan = Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit)
            memory = Fraction(max(schedule.memory_grains), schedule.problem.grains.per_unit)
            return False, not schedule.fits, makespan, memory
        if self.document is None:
            return True, True, Fraction(0), Fraction(0)
        makespan, memory = Fraction(self.document["makespan"]), Fraction(max(memory_of(self.document)))
        return False, not self.document["fits"], makespan, memory


def memory_of(metrics: Mapping[str, Any]) -> Sequence[int | float]:
    """Return what each device holds at most; a document of an earlier pipesched has only its activations."""
    memory: Sequence[int | float] = metrics.get("memory", metrics["peak_memory"])
    return memory


@dataclass(frozen=True, repr=False)
class Comparison(HasPage, Sequence[Entry]):
    """Entries in the order asked for.

    `comparison["1f1b"]` is the entry of an algorithm, by its name or an alias; `comparison.best` is the best entry.
    `time_unit` is the label of times.
    """

    entries: tuple[Entry, ...]
    time_unit: str = ""

    def __post_init__(self) -> None:
        require_label(self.time_unit, "time_unit")
        object.__setattr__(self, "entries", tuple(require_sequence(self.entries, "entries")))
        for position, entry in enumerate(self.entries):
            if not isinstance(entry, Entry):
                raise ConfigError(f"must be an Entry, not {shown(entry)}", "entries", entry=position)

    def __repr__(self) -> str:
        texts = [
            f"{entry.algorithm} {entry.metrics['makespan']}" if entry.metrics else f"{entry.algorithm} n/a"
            for entry in self.entries
        ]
        return f"Comparison({joined(texts)})"

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @overload
    def __getitem__(self, key: int | str) -> Entry: ...

    @overload
    def __getitem__(self, key: slice) -> Sequence[Entry]: ...

    def __getitem__(self, key: int | str | slice) -> Entry | Sequence[Entry]:
        if not isinstance(key, str):
            return self.entries[key]
        by_name = {entry.algorithm: entry for entry in reversed(self.entries)}
        name = key if key in by_name else own_name(key)
        return by_name[name] if name in by_name else by_name[key]

    def ranked(self) -> Comparison:
        """Return the same entries, best first (see Entry.rank)."""
        return replace(self, entries=tuple(sorted(self.entries, key=lambda entry: entry.rank)))

    @property
    def best(self) -> Entry | None:
        """The entry of the shortest makespan that fits its budget, or of any when none fits; None when none applies."""
        best = min(self.entries, key=lambda entry: entry.rank, default=None)
        return best if best is not None and best.applicable else None

    def best_in(self, trainer: str) -> Entry | None:
        """Return the best entry that a trainer of `TRAINERS` can run; None if it can run none.

        Raises ConfigError for another name.
        """
        return self.only(trainer).best

    def only(self, trainer: str) -> Comparison:
        """Return the entries that a trainer of `TRAINERS` can run as they are. Raises ConfigError for another name."""
        require_name(TRAINERS, trainer, "trainer", "trainer")
        return replace(self, entries=tuple(entry for entry in self.entries if trainer in entry.runs_in))


def compare(
    problem: Problem,
    algorithms: str | Sequence[str] | None = None,
    *,
    plans: Mapping[str, Any] | Sequence[str | Path] | None = None,
    each: Mapping[str, Mapping[str, Any]] | None = None,
    jobs: int = 1,
    executor: Executor | str | None = None,
    **options: Any,
) -> Comparison:
    """Run several algorithms on one problem, and plans of your own, and return their outcomes in the order asked for.

    Args:
        problem: What to schedule.
        algorithms: Names of `algorithms()`, or "all": every algorithm but those whose required options are not given.
            One that is listed twice, or under an alias too, has one entry. An algorithm that does not apply becomes an
            entry with the reason. Default: naive, 1f1b and interleaved, or none beside `plans`.
        plans: What else to compare, by names that are no algorithm's: a Plan, a Schedule, an Outcome, the options of a
            building block, or the name of a file (a JSON document, a CSV of PyTorch, a block or a config with one in
            YAML); a list of files is named by their stems. Only orders are taken: times and memory are those of
            `problem`, with its stages fused to those of the plan. A plan that cannot be for this problem becomes an
            entry with the reason. Entries of plans follow those of algorithms.
        each: Options of single algorithms, by the names of algorithms that are compared.
        jobs: The number of processes that run algorithms side by side; 0: one a core. The answer is the same. None is
            started for what takes less time than that.
        executor: What runs them instead: the text of `open_executor`, or what it returns.
        **options: Options for every algorithm that has them; they replace those of `each`. One that is None is not
            given, here and in `each`.

    Raises:
        ConfigError: For an unknown algorithm, an option that none of them knows, a bad value, or a file that cannot be
            read.
    """
    calls = comparison_calls(problem, algorithms, plans, each, options)
    return Comparison(tuple(run_calls(calls, chosen_executor(jobs, executor))), problem.time_unit)


def chosen_executor(jobs: int, executor: Executor | str | None) -> Executor | str | None:
    """Return what runs calls by the arguments of a comparison. Raises ConfigError."""
    return chosen(executor, require_whole(jobs, "jobs", most=1000))


def comparison_calls(
    problem: Problem,
    algorithms: str | Sequence[str] | None,
    plans: Mapping[str, Any] | Sequence[str | Path] | None,
    each: Mapping[str, Mapping[str, Any]] | None,
    options: Mapping[str, Any],
) -> list[Call]:
    """Return what a comparison has to run, by its arguments. Raises ConfigError."""
    require_problem(problem)
    own = _own_options({} if each is None else each)
    given_plans = read_plans(plans)
    names = _names(algorithms, own, given_plans)
    _require_compared({} if each is None else each, names)
    _require_known(names, options)
    calls: list[Call] = []
    for name in names:
        given = {key: value for key, value in options.items() if key in options_of(family(name)) and value is not None}
        calls.append((problem, name, {**own.get(name, {}), **given}, None))
    return calls + [(problem, name, {}, plan) for name, plan in given_plans.items()]


def run_calls(calls: Sequence[Call], executor: Executor | str | None) -> Iterator[Entry]:
    """Yield the entries of calls, of any problems, in their order, as they come."""
    work = sum(2 * problem.stages * problem.microbatches for problem, *_ in calls) if len(calls) > 1 else 0
    with lent(executor, work) as pool:
        if pool is None:
            yield from map(_entry, calls)
            return
        from pipesched.executors.batches import map_batches

        yield from map_batches(pool, _entry, calls, name=lambda call: call[1])


def every_name(own: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the name of every algorithm, without those that have required options and no entry in `own`."""
    return [algorithm.name for algorithm in all_algorithms() if algorithm.name in own or not algorithm.required]


def read_plans(plans: Any) -> Mapping[str, Contestant]:
    """Return the plans to compare, read once. Raises ConfigError."""
    if plans is None:
        return {}
    from pipesched.given_plans import contestants

    return contestants(plans)


def _names(
    algorithms: str | Sequence[str] | None, own: Mapping[str, Mapping[str, Any]], plans: Mapping[str, Contestant]
) -> list[str]:
    if algorithms is None:
        algorithms = () if plans else DEFAULT
    if isinstance(algorithms, str) and algorithms == ALL:
        return every_name(own)
    listed: Sequence[str] = [algorithms] if isinstance(algorithms, str) else require_sequence(algorithms, "algorithms")
    if not listed and not plans:
        raise ConfigError("must list at least one algorithm", "algorithms")
    try:
        return list(dict.fromkeys(family(name).name for name in listed))
    except ConfigError as error:
        raise ConfigError(error.message, "algorithms") from None


def _own_options(each: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the options of single algorithms under their own names. Raises ConfigError."""
    own: dict[str, Mapping[str, Any]] = {}
    for name, options in require_mapping(each, "options by the names of algorithms", "each").items():
        try:
            chosen = family(name)
        except ConfigError as error:
            raise ConfigError(error.message, "each") from None
        if chosen.name in own:
            raise ConfigError(f"gives options to {chosen.name} twice, under an alias too", "each")
        require_mapping(options, f"a mapping of options for {shown(name)}", "each")
        own[chosen.name] = checked_options(chosen, options)
    return own


def _require_compared(each: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> None:
    """Raise ConfigError for options of an algorithm that is not compared."""
    for name in each:
        if family(name).name not in names:
            raise ConfigError(f"gives options to {family(name).name}, which algorithms does not list", "each")


def _require_known(names: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option that no algorithm takes, and for a bad value of one that some take."""
    families = [family(name) for name in names]
    for key, value in options.items():
        takers = [algorithm for algorithm in families if key in options_of(algorithm)]
        if not takers:
            compared = f"none of {', '.join(names)}" if names else "no algorithm that is compared"
            raise ConfigError(f"{compared} takes the option `{key}`", key)
        checked_option(takers[0], key, value)


def _entry(call: Call) -> Entry:
    problem, name, options, plan = call
    if plan is not None:
        return _entry_of_plan(problem, name, plan)
    try:
        return Entry(name, run(problem, name, **options), options=options)
    except (NotApplicable, NoSchedule) as error:
        return Entry(name, None, str(error), options)


def _entry_of_plan(problem: Problem, name: str, plan: Contestant) -> Entry:
    from pipesched.given_plans import GivenAlgorithm
    from pipesched.refit import scheduled

    options = plan.algorithm.options if isinstance(plan, GivenAlgorithm) else {}
    try:
        return Entry(name, scheduled(problem, name, plan), options=options, file=plan.file)
    except (NotApplicable, NoSchedule) as error:
        return Entry(name, None, str(error), options, file=plan.file)
