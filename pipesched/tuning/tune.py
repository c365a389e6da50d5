"""`tune`, at the end: the best layout and schedule of a model on GPUs, exact within the estimates.

It searches a space (search.py), looks for `near_misses`, solves the best layouts (`_finished`), finds out how sure the
best rows are (`_judge`), and makes the `answer` of these findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, product, takewhile
from math import inf
from pathlib import Path
from threading import Event as StopEvent
from typing import Any

from pipesched.checks import (
    MOST_SECONDS,
    MOST_WORKERS,
    require_callable,
    require_flag,
    require_name,
    require_number,
    require_sequence,
    require_type,
    require_whole,
)
from pipesched.config.derived import FITS
from pipesched.config.estimate import DEFAULTS, MIXED, Measured, changes, judge_of
from pipesched.config.values import Source
from pipesched.core.clock import Clock, TimeIsUp, check_deadline, deadline
from pipesched.errors import PipeschedError
from pipesched.estimation.hardware import MOST
from pipesched.estimation.result import Estimate
from pipesched.estimation.trust.evidence import PublishedRun
from pipesched.estimation.trust.facts import shape_of
from pipesched.estimation.trust.inside import Judge
from pipesched.executors.opening import FEWEST_OPERATIONS, chosen, lent
from pipesched.pipeline.problem.declared import BY_NAME
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.results.trainers import TRAINERS, takes_orders
from pipesched.schedulers.registry import runs_of
from pipesched.text.writer import ConfigText, dump
from pipesched.tuning import judged
from pipesched.tuning.judged import MOST_SHOWN, SOLVE, Finished, as_cut, finish, with_trust
from pipesched.tuning.result import Doubt, NearMiss, Tuning
from pipesched.tuning.search import SpaceSearch, Told
from pipesched.tuning.space import Parallelism, Space, SpacePoint, first_of_each, given_on, read_space
from pipesched.tuning.trial import (
    Trial,
    TrialTask,
    before,
    estimate_of_point,
    open_journal,
    results_in_time,
    trial_of,
    until_end,
)

MOST_RUNS = 8
MOST_NEAR_MISSES = 3
MOST_TRIED = 32  # points that are estimated for these
LARGEST_SHARE = 0.1  # of a GPU's memory: what misses more is no matter of small changes
HELPED = 2  # points that miss their memory for which changes are looked for
SECTIONS = ("parallel", "batch", "training")


def near_misses(search: SpaceSearch, pool: Executor | None, clock: Clock) -> list[NearMiss]:
    """Return what misses its memory by little and may be faster than the best: by bounds, the nearest first."""
    best, space, found = search.best, search.space, list[NearMiss]()
    if best is None:
        return []
    faster = [one for one in search.forbidden if one.most > best.rate]
    bounded = [NearMiss(one.layout, name, one.over, one.most) for one in faster for name in one.algorithms]
    names = (best.point.algorithm, *DEFAULTS)
    usual = sorted(bounded, key=lambda one: (*names, one.algorithm).index(one.algorithm))
    known = [NearMiss(*trial.point, -trial.spare, inf) for trial in search.trials if not trial.fits]
    most, until = float(space.capacity) * LARGEST_SHARE, until_end(clock)
    near = [one for one in (*known, *first_of_each(usual, lambda one: one.layout)) if one.over <= most]
    chosen = sorted(near, key=lambda one: (one.over, -one.most, SpacePoint(*one[:2]).key))[:MOST_TRIED]
    tasks = [TrialTask(SpacePoint(*one[:2]), space.setup(one.layout), space.given, until) for one in chosen]
    for miss in results_in_time(pool, partial(near_miss, most=most, only=space.only), tasks, clock):
        found += [] if miss is None else [miss]
        if clock.is_over:
            break
    return found


def near_miss(own: TrialTask, *, most: float, only: str | None) -> NearMiss | None:
    """Return by how much a point misses its memory, and its rate without that; None if too much, or too late."""
    try:
        with before(own.until):
            trial = trial_of(own.point, estimate_of_point(own))
            if trial.fits or -trial.spare > most or not trial.suits(only):
                return None
            limitless = replace(own.setup, hardware=replace(own.setup.hardware, memory=MOST))
            given = {name: value for name, value in own.given.items() if name != "budget"}
            free = estimate_of_point(own._replace(setup=limitless, given=given))
    except (PipeschedError, TimeIsUp):
        return None
    return NearMiss(*own.point, -trial.spare, max(free.step.tokens_per_second_per_gpu, trial.rate))


def nearest_misses(near_misses: Iterable[NearMiss], best: Trial) -> tuple[NearMiss, ...]:
    """Return those that may be faster than the best, what misses least first, one a layout."""
    faster = [one for one in near_misses if one.most > best.rate]
    nearest = sorted(faster, key=lambda one: (one.over, -one.most))
    return tuple(first_of_each(nearest, lambda one: one.layout)[:MOST_NEAR_MISSES])


@dataclass
class Findings:
    """What a search found so far, and looked at: finalists, points that miss their memory, rows, points outside."""

    search: SpaceSearch
    finished: list[tuple[Trial, judged.Finished]] = field(default_factory=list)
    near_misses: list[NearMiss] = field(default_factory=list)
    rows: list[Trial] = field(default_factory=list)  # with how sure they are
    outside: list[Trial] = field(default_factory=list)

    def ranked(self) -> list[Trial]:
        """Return all that fits, of the search and by `solve`, what may be the first row before others."""
        solved = [done.solved for _, done in self.finished if done.solved is not None]
        suiting = [one for one in solved if one.suits(self.search.space.only)]
        return sorted([*self.search.fitting(), *suiting], key=self.search.order)


def answer(space: Space, found: Findings, judge: Judge, top: int, clock: Clock) -> Tuning:
    """Return what a search found, with what the decision rests on."""
    search, ranked = found.search, found.ranked()
    rows = tuple(judged.with_behind(judged.in_order(search, found.rows or ranked, top)))
    counts: dict[str, Any] = {
        "space": space.points,
        "simulated": len(search.trials),
        "pruned": dict(search.pruned),
        "left": search.left,
        "legal": search.legal,
        "capacity": float(space.capacity),
        "name": space.name,
        "is_widened": search.is_widened,
    }
    if not rows:
        return Tuning((), nearest=tuple(_nearest(search, clock)), **counts)
    best, known = rows[0], {row.point: row for row in rows}
    same = best.point
    if same.algorithm == judged.SOLVE:  # then the estimate is that of the same layout's best algorithm
        same = next(trial.point for trial in search.fitting() if trial.point.layout == same.layout)
    estimate = search.estimate if search.best is not None and same == search.best.point else None
    estimate = estimate or next((done.estimate for trial, done in found.finished if trial.point == same), None)
    estimate = estimate or estimate_of_point(TrialTask(same, space.setup(same.layout), space.given, only=space.only))
    solved = {done.solved.point: done.parts for _, done in found.finished if done.solved is not None}
    outside = judged.with_behind(found.outside, best)
    alike = (shape_of(space.model), space.hardware.name)
    apart = dict[PublishedRun, float]()  # of measured runs of the same model and GPU
    if best.trust is not None:
        asked = best.trust.standing.run
        same_runs = [run for run in judge.base.runs if (run.compared.facts.model, run.compared.facts.gpu) == alike]
        apart = {run: judge.apart(asked, run.compared) for run in same_runs}
    published = sorted(apart, key=lambda run: (apart[run], run.run))[:MOST_RUNS]
    fastest = sorted(ranked, key=lambda one: one.rank)
    least = accumulate((one.memory for one in fastest), min, initial=inf)  # of all faster ones
    pareto = [one for one, before in zip(fastest, least, strict=False) if one.memory < before]
    return Tuning(
        rows,
        pareto=tuple(known.get(one.point, one) for one in pareto),
        parts=solved.get(best.point) or judged.gpu_time(estimate),
        near_misses=nearest_misses(found.near_misses, best),
        doubts=tuple(_doubts(found.finished)),
        tied=judged.tied([best, *takewhile(search.counts, rows[1:])]),
        fits=space.fits,
        beyond=tuple(judged.unmeasured(space, trial) for trial in outside),
        published=tuple(published),
        measure=judged.measured_first(rows),
        estimate=estimate,
        config=winner_config(space, best, estimate),
        **counts,
    )


def _doubts(finished: Sequence[tuple[Trial, judged.Finished]]) -> Iterator[Doubt]:
    """Yield for each share and factor which of the finalists would be the fastest, and by how much."""
    for number, (share, factor) in enumerate(product(judged.UNCERTAIN, judged.FACTORS) if finished else ()):
        rates = [done.rates[number] for _, done in finished]
        first = max(range(len(rates)), key=rates.__getitem__)
        gain = rates[first] / rates[0] - 1 if rates[first] > rates[0] else 0.0
        yield Doubt(share, factor, finished[first if gain else 0][0], gain)


def _nearest(search: SpaceSearch, clock: Clock) -> Iterator[NearMiss]:
    """Yield what misses its memory by least, the first ones with changes that make them fit, until time is up."""
    space = search.space
    for number, (layout, algorithm, over) in enumerate(search.nearest()):
        said: list[str] = []
        with suppress(PipeschedError, TimeIsUp), deadline(clock):
            check_deadline()
            task = TrialTask(SpacePoint(layout, algorithm), space.setup(layout), space.given)
            fitting = changes(estimate_of_point(task)) if number < HELPED else []
            unsure = [(one, "" if one.sure else "; may not fit") for one in fitting]
            said += [f"{one.text}: {one.rate:,.1f} tokens/s/GPU{doubt}" for one, doubt in unsure]
        yield NearMiss(layout, algorithm, over, help=tuple(said))


def winner_config(space: Space, best: Trial, estimate: Estimate) -> ConfigText:
    """Return a config whose estimate has the step of a point; of a `solve` point, that of where it began."""
    setup = estimate.setup
    content: dict[str, Any] = {"name": setup.name} if setup.name else {}
    content |= {key: space.sections[key] for key in ("model", "hardware")}
    values = {key: dict(space.sections.get(key) or {}) for key in SECTIONS}
    values["parallel"] |= {**best.point.layout.parallel, "chunks": setup.parallel.chunks}
    for key in ("data", "shard_ranks"):
        values["parallel"].pop(key, None)
    values["batch"]["micro"] = best.point.layout.micro
    values["training"] |= {"recompute": best.point.layout.recompute_value, "layout": estimate.layout}
    if best.point.layout.precision is not None:
        values["training"]["precision"] = best.point.layout.precision
    if setup.training.shard is not None:
        values["parallel"]["shard_ranks"] = setup.shard_group().ranks
        values["training"]["shard"] = setup.training.shard
    content |= {key: values[key] for key in SECTIONS}
    for name, value in given_on(space.given, setup.parallel.pipeline).items():
        section, _, key = BY_NAME[name].key.rpartition(".")
        inside = content.setdefault(section, {}) if section else content
        inside[key] = _numbers(value)
    algorithm, options = estimate.outcome.algorithm, dict(estimate.options)
    content["algorithm"] = {algorithm: options} if options else algorithm
    if space.like is not None:
        content["trust"] = {"like": space.like}
    held = f"{best.memory:.1f} of {float(space.capacity):g} GB"
    lines = [f"The best of a space: {best.rate:,.1f} tokens/s/GPU, {held}, estimated by pipesched."]
    if best.point.algorithm != algorithm:
        lines.append(f"That is the schedule that solve found for these stages; {algorithm} reaches")
        lines.append(f"{estimate.step.tokens_per_second_per_gpu:,.1f}.")
    return dump(content, *lines)


def _numbers(value: Any) -> Any:
    """Return a value, or values, with texts of numbers as numbers: a file would quote the texts."""
    if isinstance(value, (list, tuple)):
        return [_numbers(one) for one in value]
    with suppress(ValueError):
        return to_fraction(value) if isinstance(value, str) else value
    return value


MOST_ROWS = 1_000
MOST_REORDERED = 20  # rows, at least, among which what is expected decides the order
FINALISTS = 5  # layouts that are solved, and retimed on other hardware
SOLVE_SECONDS = 4.0  # of each
FEWEST_POINTS = 100  # for which starting processes pays


def tune(
    path_or_text: str | Path | Source | None = None,
    algorithms: Sequence[str | Callable[..., Any]] | None = None,
    *,
    only: str | None = None,
    top: int = 10,
    executor: Executor | str | None = None,
    jobs: int = 1,
    resume: str | Path | None = None,
    time_limit: float | None = None,
    beyond: bool = False,
    like: str | None = None,
    measured: Measured | None = None,
    fits: str | None = None,
    stop: StopEvent | None = None,
    listener: Told | None = None,
    **overrides: Any,
) -> Tuning:
    """Find the fastest layout and schedule of a model on GPUs that fits their memory.

    Each field of `parallel`, `batch.micro` and `training.recompute` may be a number, a list of candidates, or `auto`.
    Each combination under each algorithm is a point of the space. Points outside what was measured, by published runs,
    are left out, unless nothing else fits. Every other point is simulated, or left out for a proved reason; so the
    first row is the best of the space inside the evidence, within the estimates. The others are the next best of those
    that were simulated. Each row says how sure it is; rows are in the order of the rates that are expected.

    The first row surely fits: a GPU has the memory also at the upper end of its interval. Faster rows that may not fit
    stand last.

    Args:
        path_or_text: The name of a YAML file with `model`, `hardware`, `parallel`, `batch` and `training`, or its text;
            None where the overrides say it all.
        algorithms: What may schedule the pipeline, names or functions; default: all algorithms that need no options,
            and `solve` for the best five layouts. `solve` among names does the same.
        only: A trainer: "megatron", "torchtitan", "pytorch", "primus", "zero-bubble", "deepspeed",
            "megatron-bridge" or "maxtext". Only algorithms
            that it has are tried, and points whose schedule it refuses for its numbers are left out, as those that do
            not divide.
        top: How many rows to return.
        executor: What simulates points side by side: the text of `open_executor`, or what it returns.
        jobs: Processes of this machine instead; 0 is one a core. The rows are the same whatever runs them, but for
            those of `solve`, which searches for some seconds.
        resume: The name of a journal of all trials, written at once. Where there is one of the same space, its trials
            are not repeated.
        time_limit: Seconds until the best so far is taken.
        beyond: Also points outside what was measured count; without it only if the config says so.
        like: The source of published runs whose software and cluster one's own are like; default: that of the config.
        measured: The name of a YAML file of one's own runs, or pairs of a config and the milliseconds of its step.
            Rates are then expected after these; the search is that of the estimates.
        fits: "sure", or "likely" where the first row need not fit but by its estimate; default: that of the config,
            else "sure".
        stop: Set it, from any thread, to end with the best so far.
        listener: Called with a Progress now and then.
        **overrides: Values that replace those of the config, as `load` takes them: `parallel={"tensor": [2, 4]}`.

    Raises:
        ConfigError: For a file that cannot be read, an illegal candidate, a config without a model, an unknown source,
            a run of one's own that cannot be read, an executor that does not answer, or a journal of another space or
            version.
        WorkerDied: A point ends every process that it runs in.
    """
    if only is not None:
        require_name(TRAINERS, only, "trainer", "only")
    top = require_whole(top, "top", least=1, most=MOST_ROWS)
    jobs = require_whole(jobs, "jobs")
    seconds = inf if time_limit is None else require_number(time_limit, "time_limit", most=MOST_SECONDS, above=True)
    if stop is not None:
        require_type(stop, StopEvent, "a threading.Event or None", "stop")
    require_callable(listener, "listener")
    if resume is not None:
        require_type(resume, (str, Path), "the name of a file", "resume")
    names = None
    if algorithms is not None:
        names = [name for name in require_sequence(algorithms, "algorithms") if name != SOLVE]
    clock, runs = Clock(float(seconds), stop), chosen(executor, require_whole(jobs, "jobs", most=MOST_WORKERS))
    space = read_space(path_or_text, overrides, names, only, beyond=require_flag(beyond, "beyond"))
    if fits is not None:
        space = replace(space, fits=require_name(FITS, fits, "way to fit", "fits"))
    like = space.like if like is None else like
    judge, notes = judge_of(like, measured, low=space.is_low)
    notes += (MIXED,) * space.is_mixed
    solves = (algorithms is None or SOLVE in algorithms) and (only is None or takes_orders(only))
    work = FEWEST_OPERATIONS if space.points >= FEWEST_POINTS else 0
    with open_journal(resume, space) as journal, lent(runs_of(space.algorithms, runs), work) as pool:
        found = Findings(SpaceSearch(space, journal.known, journal.note, listener or (lambda _: None)))
        with suppress(KeyboardInterrupt):
            found.search.run(pool, clock)
            found.near_misses = near_misses(found.search, pool, clock)
            found.finished = _finished(found.search, pool, clock, SOLVE_SECONDS if solves else 0.0, judge)
            _judge(found, judge, top, pool, clock)
    tuning = answer(replace(space, like=like), found, judge, top, clock)
    missing = sum(row.trust is None for row in tuning.rows)
    late = f"time was up before it was known how sure {missing} of {len(tuning.rows)} rows are: these are as estimated"
    return replace(tuning, notes=(*space.notes, *notes, *[late] * bool(missing)))


def _judge(found: Findings, judge: Judge, top: int, pool: Executor | None, clock: Clock) -> None:
    """Find out how sure the best that count are and the fastest others, and what is faster outside the measured."""
    search, ranked = found.search, found.ranked()
    if not ranked or clock.is_over:
        return
    best = [trial for trial in ranked if search.counts(trial)][: max(top, MOST_REORDERED)] or ranked[:1]
    others = sorted((one for one in ranked if not search.counts(one) and one is not best[0]), key=lambda one: one.rank)
    known = {trial.point: done.trust for trial, done in found.finished if done.trust is not None}
    search.report("trust")
    rows = [*best, *others[: max(top, MOST_SHOWN)]]
    found.rows = with_trust(search.space, rows, known, judge, pool, clock)
    if not search.outside or clock.is_over:
        return

    def note(one: object) -> None:
        if isinstance(one, Trial):
            search.note(one)

    points, rate = [(one.layout, one.algorithms) for one in search.outside], best[0].rate
    other = SpaceSearch(search.space, search.known, note, lambda _: search.report("beyond"), points=points, least=rate)
    other.run(pool, clock)
    faster = (trial for trial in other.fitting() if trial.rate > rate)
    outside = first_of_each(faster, lambda trial: trial.point.layout)[:MOST_SHOWN]  # one a layout
    found.outside = with_trust(search.space, outside, {}, judge, pool, clock)


def _finished(
    search: SpaceSearch, pool: Executor | None, clock: Clock, seconds: float, judge: Judge
) -> list[tuple[Trial, Finished]]:
    """Return the best layouts with what became of them; none where time is up."""
    if clock.is_over:
        return []
    first: dict[Parallelism, Trial] = {}
    for trial in search.fitting():
        first.setdefault(trial.point.layout, trial)
    best, space, until = [*first.values()][:FINALISTS], search.space, until_end(clock)
    tasks = [TrialTask(one.point, as_cut(space, one), space.given, until, only=space.only) for one in best]
    found, step = list[tuple[Trial, Finished]](), "solve" if seconds else "doubts"
    search.report(step)
    results = results_in_time(pool, partial(finish, seconds=seconds, judge=judge), tasks, clock)
    for trial, finished in zip(best, results, strict=False):
        if finished is not None:
            found.append((trial, finished))
            search.report(step)
    return found
