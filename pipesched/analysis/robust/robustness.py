"""The function of this capability: schedules under noise and with slow devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipesched.analysis.robust.result import Robustness, RobustnessRow
from pipesched.analysis.robust.timings import Timing, timings
from pipesched.analysis.robust.variation import Variation
from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.executors.opening import chosen
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.results.comparison import Comparison, Entry
from pipesched.results.outcome import Outcome

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import numpy as np
    from numpy.typing import NDArray

KNOWN = "an Outcome, a Schedule, a list of them, or a Comparison"


def robustness(
    outcomes: Outcome | Schedule | Sequence[Outcome | Schedule] | Comparison,
    *,
    noise: float = 0.05,
    device_noise: float = 0,
    straggler: float = 1.2,
    samples: int = 1000,
    seed: int = 0,
    executor: Executor | str | None = None,
) -> Robustness:
    """Time the orders of schedules with durations that vary, and with each device slow in turn.

    Orders stay as they are: only times change. The duration of an operation (also of a pair, or of a transfer; not the
    latency between devices) is its cost times a lognormal factor of mean 1. An operation, known by its text, has the
    same factor in every schedule: so schedules differ by their orders and not by luck, and a schedule's figures do not
    depend on what stands beside it.

    Args:
        outcomes: An Outcome or a Schedule, a list of them, or a Comparison, whose entries that do not apply become rows
            with their reasons. A schedule with times of its own is timed anew by its plan.
        noise: The coefficient of variation (standard deviation over mean) of each operation's factor, which is
            independent of all others.
        device_noise: The same of a further factor for each device and sample, for all that the device runs; transfers
            have none.
        straggler: The factor by which each device in turn is slower, transfers apart; exact, without samples.
        samples: The number of steps that are drawn, at most 1,000,000.
        seed: The seed of the draws: the same one gives the same figures.
        executor: What draws them: the text of `open_executor`, or what it returns; default: this process. The figures
            are the same.

    Raises:
        ConfigError: For a bad argument, or an entry that was read from a document, without its schedule.
        InvalidSchedule: For a plan that cannot run.
    """
    variation = Variation(noise, device_noise, straggler, samples, seed)
    listed = _listed(outcomes)
    timed = [schedule_plan(one.problem, one.schedule.plan) for one in listed if isinstance(one, Outcome)]
    found = timings(timed, variation, chosen(executor))
    shares = _best_shares([timing.makespans for timing in found])
    known = iter(zip(timed, found, shares, strict=True))
    rows = [
        RobustnessRow(one.algorithm, reason=one.reason) if isinstance(one, Entry) else _row(one.algorithm, *next(known))
        for one in listed
    ]
    units = {one.problem.time_unit for one in listed if isinstance(one, Outcome)}
    unit = units.pop() if len(units) == 1 else ""
    return Robustness(tuple(rows), **asdict(variation), time_unit=unit)


def _listed(outcomes: Any) -> list[Outcome | Entry]:
    """Return what is to be timed, and entries that do not apply. Raises ConfigError."""
    if isinstance(outcomes, Comparison):
        listed = [_of_entry(entry, position) for position, entry in enumerate(outcomes)]
    elif isinstance(outcomes, (list, tuple)):
        listed = [_outcome(one, position) for position, one in enumerate(outcomes)]
    else:
        listed = [_outcome(outcomes)]
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
    import numpy as np

    if not drawn:
        return []
    least, shortest = np.minimum.reduce(drawn), np.zeros(len(drawn[0]))
    for makespans in drawn:
        shortest += makespans == least
    return [float(np.mean((makespans == least) / shortest)) for makespans in drawn]


def _row(algorithm: str, schedule: Schedule, timing: Timing, share: float) -> RobustnessRow:
    import numpy as np

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
        makespans=tuple(makespans.tolist()),
    )
