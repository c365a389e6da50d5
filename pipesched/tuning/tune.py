"""`tune`: the best layout and schedule of a model on GPUs, exact within the estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial
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
from pipesched.config.estimate import MIXED, Measured, judge_of
from pipesched.config.values import Source
from pipesched.core.clock import Clock
from pipesched.estimation.trust.inside import Judge
from pipesched.executors.opening import FEWEST_OPERATIONS, chosen, lent
from pipesched.results.trainers import TRAINERS, takes_orders
from pipesched.schedulers.registry import runs_of
from pipesched.tuning.answer import Findings, answer, near_misses
from pipesched.tuning.judged import MOST_SHOWN, SOLVE, Finished, as_cut, finish, with_trust
from pipesched.tuning.result import Tuning
from pipesched.tuning.search import SpaceSearch, Told
from pipesched.tuning.space import Parallelism, first_of_each, read_space
from pipesched.tuning.trial import Trial, TrialTask, open_journal, results_in_time, until_end

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
