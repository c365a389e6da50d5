"""`robustness`: the timings of schedules under noise, and with each device slow, in parts that an executor runs.

A sample is drawn by the number of its block, and depends on nothing else: so it is the same in whatever part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.analysis.robust.replay import Replay
from pipesched.analysis.robust.result import Robustness, RobustnessRow
from pipesched.analysis.robust.variation import Variation, block_sizes
from pipesched.checks import shown
from pipesched.core.arrays import np
from pipesched.display import from_file
from pipesched.errors import ConfigError
from pipesched.executors.opening import chosen, lent, workers_of
from pipesched.pipeline.check_memory import excesses
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.results.comparison import Comparison, Entry
from pipesched.results.outcome import Outcome

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

SAMPLES_OF_ONE = 200  # of an operation, which take as long as scheduling one
PARTS = 4  # of a schedule's samples for each worker, at most: a part prepares the schedule anew
KNOWN = "an Outcome, a Schedule, a list of them, or a Comparison"


def robustness(
    outcomes: Outcome | Schedule | str | Path | Sequence[Outcome | Schedule | str | Path] | Comparison,
    *,
    noise: float = 0.05,
    device_noise: float = 0,
    straggler: float = 1.2,
    samples: int = 1000,
    seed: int = 0,
    executor: Executor | str | None = None,
    problem: Problem | None = None,
) -> Robustness:
    """Time the orders of schedules with durations that vary, and with each device slow in turn.

    Orders stay as they are: only times change. The duration of an operation (also of a pair, or of a transfer; not the
    latency between devices) is its cost times a lognormal factor of mean 1. An operation, known by its text, has the
    same factor in every schedule: so schedules differ by their orders and not by luck, and a schedule's figures do not
    depend on what stands beside it.

    Args:
        outcomes: An Outcome or a Schedule, the name of a file with one, a list of them, or a Comparison, whose entries
            that do not apply become rows with their reasons. A schedule with times of its own is timed anew by its
            plan.
        noise: The coefficient of variation (standard deviation over mean) of each operation's factor, which is
            independent of all others.
        device_noise: The same of a further factor for each device and sample, for all that the device runs; transfers,
            and what network lanes move, have none.
        straggler: The factor by which each device in turn is slower, transfers and network lanes apart; exact, without
            samples.
        samples: The number of steps that are drawn, at most 1,000,000.
        seed: The seed of the draws: the same one gives the same figures.
        executor: What draws them: the text of `open_executor`, or what it returns; default: this process. The figures
            are the same.
        problem: The costs of each CSV among the files.

    Raises:
        ConfigError: For a bad argument, or an entry that was read from a document, without its schedule.
        InvalidSchedule: For a plan that cannot run.
    """
    variation = Variation(noise, device_noise, straggler, samples, seed)
    listed = _listed(outcomes, problem)
    timed = [schedule_plan(one.problem, one.schedule.plan) for one in listed if isinstance(one, Outcome)]
    found = timings(timed, variation, chosen(executor))
    shares = iter(_best_shares([timing.makespans for one, timing in zip(timed, found, strict=True) if one.fits]))
    known = iter(zip(timed, found, [next(shares) if one.fits else None for one in timed], strict=True))
    rows = [
        RobustnessRow(one.algorithm, reason=one.reason) if isinstance(one, Entry) else _row(one.algorithm, *next(known))
        for one in listed
    ]
    units = {one.problem.time_unit for one in listed if isinstance(one, Outcome)}
    unit = units.pop() if len(units) == 1 else ""
    return Robustness(tuple(rows), **asdict(variation), time_unit=unit)


def _listed(outcomes: Any, problem: Problem | None) -> list[Outcome | Entry]:
    """Return what is to be timed, and entries that do not apply. Raises ConfigError."""
    if isinstance(outcomes, (list, tuple)):
        given: Any = [from_file(one, problem, "outcomes", position) for position, one in enumerate(outcomes)]
    else:
        given = from_file(outcomes, problem, "outcomes")
    if isinstance(given, Comparison):
        listed = [_of_entry(entry, position) for position, entry in enumerate(given)]
    elif isinstance(given, list):
        listed = [_outcome(one, position) for position, one in enumerate(given)]
    else:
        listed = [_outcome(given)]
    if not listed:
        raise ConfigError("must hold at least one schedule", "outcomes")
    return listed


def _outcome(value: Any, position: int | None = None) -> Outcome:
    if isinstance(value, Outcome):
        return value
    if isinstance(value, Schedule):
        return Outcome("plan", value)
    what = KNOWN if position is None else "an Outcome or a Schedule"
    raise ConfigError(f"must be {what}, not {shown(value)}", "outcomes", entry=position)


def _of_entry(entry: Entry, position: int) -> Outcome | Entry:
    if entry.outcome is not None:
        return Outcome(entry.algorithm, entry.outcome.schedule)
    if entry.applicable:
        what = "was read from a document, which holds no schedule; compare anew"
        raise ConfigError(f"{shown(entry.algorithm)} {what}", "outcomes", entry=position)
    return Entry(entry.algorithm, reason=entry.reason or "does not apply")


def _best_shares(drawn: Sequence[NDArray[np.float64]]) -> list[float]:
    """Return the share of samples in which each is shortest; several shortest ones share a sample equally."""
    if not drawn:
        return []
    least, shortest = np.minimum.reduce(drawn), np.zeros(len(drawn[0]))
    for makespans in drawn:
        shortest += makespans == least
    return [float(np.mean((makespans == least) / shortest)) for makespans in drawn]


def _row(algorithm: str, schedule: Schedule, timing: Timing, share: float | None) -> RobustnessRow:
    makespans = timing.makespans
    p50, p95, p99 = map(float, np.percentile(makespans, [50, 95, 99]))
    return RobustnessRow(
        algorithm,
        schedule.makespan,
        float(np.mean(makespans)),
        float(np.std(makespans, ddof=1)),
        p50,
        p95,
        p99,
        share,
        tuple(timing.stragglers),
        over=tuple(excesses(schedule)),
        makespans=tuple(makespans.tolist()),
    )


class Timing(NamedTuple):
    """The makespan of a schedule in some samples, and with each device slow, in the user's time unit."""

    makespans: NDArray[np.float64]
    stragglers: list[int | float]


class _TimedPart(NamedTuple):
    """A part of the work on a schedule: blocks of its samples, and perhaps its slow devices."""

    schedule: Schedule
    variation: Variation
    blocks: range
    is_last: bool

    def __str__(self) -> str:
        return f"{len(self.schedule.plan):,} operations"


def timings(schedules: Sequence[Schedule], variation: Variation, executor: Executor | str | None) -> list[Timing]:
    """Return the timing of each schedule."""
    operations = sum(len(schedule.plan) for schedule in schedules)
    with lent(executor, operations * variation.samples // SAMPLES_OF_ONE) as pool:
        parts = [[*_parts(schedule, variation, workers_of(pool))] for schedule in schedules]
        results = _results([part for of_one in parts for part in of_one], pool)
        found = [[next(results) for _ in of_one] for of_one in parts]
    return [Timing(np.concatenate([part.makespans for part in own]), own[-1].stragglers) for own in found]


def _parts(schedule: Schedule, variation: Variation, workers: int) -> Iterator[_TimedPart]:
    """Yield the parts of the work on a schedule; the last one has its slow devices too."""
    blocks = len(block_sizes(variation.samples))
    count = 1 if workers == 1 else min(workers * PARTS, blocks)
    for number in range(count):
        some = range(blocks * number // count, blocks * (number + 1) // count)
        yield _TimedPart(schedule, variation, some, number == count - 1)


def _results(parts: Sequence[_TimedPart], pool: Executor | None) -> Iterator[Timing]:
    if pool is None:
        return map(_result, parts)
    from pipesched.executors.batches import map_batches

    return map_batches(pool, _result, parts)


def _result(part: _TimedPart) -> Timing:
    replay = Replay(part.schedule)
    makespans = replay.makespans(part.variation, part.blocks)
    return Timing(makespans, replay.stragglers(part.variation.slowness) if part.is_last else [])
