"""Simulating a point: `simulate` takes a TrialTask and returns a Trial, plain numbers that another process can send.

`open_journal` keeps all trials of a search in a file, a JSON object a line, from which `tune(resume=..)` goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import time
from typing import IO, Any, NamedTuple, TypeVar

from pipesched.checks import shown
from pipesched.core.clock import Clock, TimeIsUp, deadline
from pipesched.errors import ConfigError, NoSchedule, NotApplicable, PipeschedError
from pipesched.estimation.derived import outline
from pipesched.estimation.items import GB
from pipesched.estimation.result import Estimate, TrainingStep
from pipesched.estimation.setup import Setup
from pipesched.estimation.trust.evidence import SpeedRatio, Trust, evidence_base
from pipesched.estimation.trust.inside import memory_margin
from pipesched.executors.batches import map_batches
from pipesched.results.handover.hand_over import suited
from pipesched.results.handover.subject import Subject
from pipesched.results.run import run
from pipesched.results.trainers import Verdict, verdicts
from pipesched.tuning.prune import PrunedPoints
from pipesched.tuning.space import Parallelism, Space, SpacePoint, given_on
from pipesched.version import __version__

Result = TypeVar("Result")
FORMAT, VERSION = "pipesched.journal", 3
TRIAL_KEYS = ("memory", "spare", "margin", "bubble", "layout", "reason", "is_short")  # and the verdicts of trainers


class TrialTask(NamedTuple):
    """What simulates a point for a trainer (`only`): parameters, `until` a time of day, the best rate so far."""

    point: SpacePoint
    setup: Setup
    given: Mapping[str, Any]
    until: float = inf
    bar: float = 0.0
    only: str | None = None


@dataclass(frozen=True)
class Trial:
    """A point that was simulated. Without a `step` the algorithm does not apply, or finds no schedule in the memory."""

    point: SpacePoint
    step: TrainingStep | None = None
    memory: float = 0.0  # GB of the fullest device
    spare: float = 0.0  # GB that the tightest device has left
    margin: float = 0.0  # GB left there at the upper end of the interval of its memory, whatever limit is given
    bubble: float = 0.0
    layout: str = ""  # what each stage holds, as Megatron-LM writes it
    reason: str = ""  # why the algorithm does not apply
    is_short: bool = False  # an algorithm that obeys the memory finds no schedule
    verdicts: tuple[Verdict, ...] = ()  # what each trainer says of the schedule
    trust: Trust | None = None  # how sure the estimate is, of rows of an answer
    behind: SpeedRatio | None = None  # the time of the first row's step over that of this row's

    @property
    def runs_in(self) -> list[str]:
        """The trainers that take the schedule."""
        return [verdict.trainer for verdict in self.verdicts if verdict.takes]

    def suits(self, trainer: str | None) -> bool:
        """Return whether a trainer takes the schedule; without one it does."""
        return trainer is None or trainer in self.runs_in

    @property
    def fits(self) -> bool:
        """Whether every device has the memory."""
        return self.step is not None and self.spare >= 0

    @property
    def sure(self) -> bool:
        """Whether it fits also where it holds as much as the interval of its memory says."""
        return self.fits and self.margin >= 0

    @property
    def may_not_fit(self) -> bool:
        """Whether it fits by the estimate, and not surely."""
        return self.fits and not self.sure

    @property
    def rate(self) -> float:
        """The tokens a second of a GPU; 0 where the algorithm does not apply."""
        return 0.0 if self.step is None else self.step.tokens_per_second_per_gpu

    @property
    def rank(self) -> tuple[bool, float, float, str]:
        """The sort key: what fits first, then the higher rate, of equal ones what holds less."""
        return not self.fits, -self.rate, self.memory, self.point.key


def until_end(clock: Clock) -> float:
    """Return the time of day when a clock is over."""
    return time() + clock.left if clock.limit < inf else inf


def before(until: float) -> AbstractContextManager[None]:
    """Return a context that raises TimeIsUp from a time of day on."""
    return deadline(Clock(max(until - time(), 0.0)))


def results_in_time(
    pool: Executor | None, function: Callable[[Any], Result], calls: Sequence[Any], clock: Clock
) -> Iterator[Result]:
    """Yield the results of calls in their order, side by side where there is a pool, as far as time allows."""
    with closing(map_batches(pool, function, calls, str, clock)) as results, suppress(TimeIsUp):
        yield from results


def simulate(task: TrialTask) -> tuple[Trial, Estimate | None] | None:
    """Return the trial of a point, and its estimate where it fits and reaches the bar; None once it is `until`.

    It is what `estimate` says of its setup and algorithm.
    """
    try:
        with before(task.until):
            found = estimate_of_point(task)
            trial = trial_of(task.point, found)
    except TimeIsUp:
        return None
    except NotApplicable as error:
        return Trial(task.point, reason=error.message), None
    except PipeschedError as error:
        return Trial(task.point, reason=str(error), is_short=isinstance(error, NoSchedule)), None
    return trial, found if trial.fits and trial.rate >= task.bar else None


def estimate_of_point(task: TrialTask) -> Estimate:
    """Return the estimate of a point. Raises PipeschedError where its algorithm does not apply."""
    given, algorithm = given_on(task.given, task.setup.parallel.pipeline), task.point.algorithm
    outcome = run(outline(task.setup, given), algorithm)
    taken = outcome if task.only is None else suited(outcome, task.only, algorithm)
    return Estimate(taken, options={} if taken is outcome else {"group_size": Subject(taken).group_size})


def trial_of(point: SpacePoint, found: Estimate) -> Trial:
    """Return an estimate as a trial."""
    totals = [float(device.total) / GB for device in found.devices]
    spare = min(float(device.budget - device.total) / GB for device in found.devices)
    outcome = found.outcome
    said = verdicts(outcome, point.algorithm)
    margin = memory_margin(found, evidence_base().memory.high)
    return Trial(point, found.step, max(totals), spare, margin, outcome.schedule.bubble, found.layout, verdicts=said)


class Journal:
    """Writes what becomes of points to a file, and knows the trials that it held before."""

    def __init__(self, file: IO[str] | None, known: dict[str, Trial], pruned: set[str]) -> None:
        self.known = known
        self._file, self._pruned = file, pruned

    def note(self, one: Trial | PrunedPoints) -> None:
        """Write a trial, or points that were pruned, unless that stands there already."""
        if self._file is None:
            return
        entry: dict[str, Any]
        if isinstance(one, Trial):
            if one.point.key in self.known:
                return
            layout, algorithm = one.point
            entry = {"point": layout.values, "algorithm": algorithm, "step": None if one.step is None else [*one.step]}
            entry |= {key: getattr(one, key) for key in TRIAL_KEYS}
            entry |= {"verdicts": [[*verdict] for verdict in one.verdicts]}
        else:
            entry = {"point": one.layout.values, "algorithms": [*one.algorithms]}
            entry |= {"dropped": one.reason, "why": one.text}
            if (key := _key(entry)) in self._pruned:
                return
            self._pruned.add(key)
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()


@contextmanager
def open_journal(path: str | Path | None, space: Space) -> Iterator[Journal]:
    """Yield the journal of a file, to go on with; without a file one that keeps nothing. Raises ConfigError."""
    if path is None:
        yield Journal(None, {}, set())
        return
    known, pruned, whole = _read(Path(path), space)
    try:
        with Path(path).open("r+" if whole else "w", encoding="utf-8", newline="\n") as file:
            file.seek(whole)
            file.truncate()
            if not whole:
                file.write(json.dumps(_head(space)) + "\n")
                file.flush()
            yield Journal(file, known, pruned)
    except OSError as error:
        raise ConfigError(f"cannot write {shown(str(path))}: {error.strerror}", "resume") from None


def _head(space: Space) -> dict[str, Any]:
    return {
        "format": FORMAT, "version": VERSION, "pipesched": __version__, "space": space.digest,
        "points": space.points,
    }  # fmt: skip


def _read(path: Path, space: Space) -> tuple[dict[str, Trial], set[str], int]:
    """Return the trials of a journal, what was pruned, and the bytes of its whole lines; nothing without a file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise ConfigError(f"cannot read {shown(str(path))}: {error.strerror}", "resume") from None
    whole = data.rfind(b"\n") + 1
    if not data:
        return {}, set(), 0
    lines = data[:whole].splitlines()
    _require_head(_entry(lines[0] if lines else data, path, 1), path, space)
    known: dict[str, Trial] = {}
    pruned: set[str] = set()
    for number, line in enumerate(lines[1:], 2):
        entry = _entry(line, path, number)
        if "dropped" in entry:
            pruned.add(_key(entry))
            continue
        try:
            step = None if entry["step"] is None else TrainingStep(*entry["step"])
            said = tuple(Verdict(*verdict) for verdict in entry["verdicts"])
            point = SpacePoint(Parallelism(*entry["point"]), entry["algorithm"])
            trial = Trial(point, step, **{key: entry[key] for key in TRIAL_KEYS}, verdicts=said)
        except (KeyError, TypeError, ValueError):
            raise ConfigError(f"{path}:{number}: is no trial of a journal", "resume") from None
        known[trial.point.key] = trial
    return known, pruned, whole


def _entry(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict):
        raise ConfigError(f"{path}:{number}: is no line of a journal of trials", "resume")
    return entry


def _require_head(entry: dict[str, Any], path: Path, space: Space) -> None:
    wanted = _head(space)
    for key, what in (("format", "no journal of trials"), ("version", "a journal of another version")):
        if entry.get(key) != wanted[key]:
            theirs = shown(entry.get(key))
            raise ConfigError(f"{path} is {what}: its `{key}` is {theirs}, not {wanted[key]!r}", "resume")
    if entry.get("pipesched") != wanted["pipesched"]:
        theirs = shown(entry.get("pipesched"))
        raise ConfigError(f"{path} was written by pipesched {theirs}; this is {wanted['pipesched']}", "resume")
    if entry.get("space") != wanted["space"]:
        theirs = f"of {shown(entry.get('points'))} points with other candidates, model or hardware"
        raise ConfigError(f"{path} is of another space: {theirs}; this one has {space.points}", "resume")


def _key(entry: dict[str, Any]) -> str:
    return f"{entry.get('point')}{entry.get('algorithms')}{entry.get('dropped')}"
