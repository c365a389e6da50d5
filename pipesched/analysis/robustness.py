"""`robustness`: schedules under noise, and with each device slow.

A `Replay` times a schedule's order with other durations, many samples at once, by factors that are drawn in blocks
(`draw_factors`). A sample is drawn by the number of its block, and depends on nothing else: so it is the same in
whatever worker. `robustness`, last, makes a `RobustnessRow` of each schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from functools import cache, partial
from hashlib import blake2b
from math import log1p, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesched.checks import (
    joined,
    require_flag,
    require_label,
    require_number,
    require_sequence,
    require_text,
    require_type,
    require_whole,
    shown,
)
from pipesched.core.arrays import Ints, compiled_kernels, in_range, np, total
from pipesched.core.clock import check_deadline
from pipesched.core.timing import CaseSweep
from pipesched.display import from_file
from pipesched.errors import ConfigError
from pipesched.executors.opening import chosen, lent, workers_of
from pipesched.pipeline.check.check import excesses
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.costs import BRIEF
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import plain, to_fraction
from pipesched.results.comparison import Comparison, NamedRows
from pipesched.results.outcome import Outcome

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

BLOCK = 1024  # samples of one stream; another number would be other draws
MOST_NOISE = 10  # a coefficient of variation
MOST_STRAGGLER = 1_000_000
MOST_SAMPLES = 1_000_000
MOST_SEED = 10**9
CELLS = 2**16  # factors that are drawn together
FIGURES = ("makespan", "mean", "std", "p50", "p95", "p99", "best_share")
SAMPLES_OF_ONE = 200  # of an operation, which take as long as scheduling one
PARTS = 4  # of a schedule's samples for each worker, at most: a part prepares the schedule anew
KNOWN = "an Outcome, a Schedule, a list of them, or a Comparison"


@dataclass(frozen=True)
class Variation:
    """How durations vary.

    `noise` is the coefficient of variation of each operation's factor, and `device_noise` that of each device's.
    `straggler` is the factor of a slow device, `samples` the number of steps that are drawn, `seed` that of the draws.
    Raises ConfigError, about the field at fault, for what is no such number.
    """

    noise: int | float = 0.05
    device_noise: int | float = 0
    straggler: int | float = 1.2
    samples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for key in ("noise", "device_noise"):
            object.__setattr__(self, key, _plain(getattr(self, key), key, MOST_NOISE))
        object.__setattr__(self, "straggler", _plain(self.straggler, "straggler", MOST_STRAGGLER, above=True))
        object.__setattr__(self, "samples", require_whole(_scalar(self.samples), "samples", 2, MOST_SAMPLES))
        object.__setattr__(self, "seed", require_whole(_scalar(self.seed), "seed", 0, MOST_SEED))

    @property
    def slowness(self) -> Fraction:
        """The factor of a slow device, exactly: 1.2 is 6/5."""
        return to_fraction(self.straggler)


def _plain(value: Any, key: str, most: int, *, above: bool = False) -> int | float:
    """Return a number from 0 (or, if `above`, more) to `most`. Raises ConfigError."""
    try:
        number = to_fraction(value)
    except ValueError:
        number = Fraction(-1)
    if not 0 <= number <= most or (above and not number):
        allowed = "more than 0" if above else "at least 0"
        raise ConfigError(f"must be a number of {allowed} (at most {most:,}), not {shown(value)}", key)
    return plain(number)


def _scalar(value: Any) -> Any:
    """Return the number in an array without dimensions, and a whole decimal as an int; all else as it is."""
    try:
        number = to_fraction(value)
    except ValueError:
        return value
    return number.numerator if number.denominator == 1 and not isinstance(value, (str, bool)) else value


def draw_factors(rows: NDArray[np.float64], texts: Sequence[bytes], variation: float, stream: str) -> None:
    """Put a factor for each text and sample into `rows`; `variation` is their standard deviation."""
    if not variation:
        rows[:] = 1
        return
    hashes, prefix = list[bytes](), blake2b(stream.encode(), digest_size=24)
    for text in texts:
        own = prefix.copy()
        own.update(text)
        hashes.append(own.digest())
    words = np.ones((len(rows), 4), dtype=np.uint64)  # three are hashed; the last one counts from 1
    words[:, :3] = np.frombuffer(b"".join(hashes), np.dtype("<u8")).reshape(-1, 3)
    _fastest()(words, rows)
    sigma = sqrt(log1p(variation**2))
    rows *= sigma
    rows -= sigma**2 / 2
    np.exp(rows, out=rows)


def _draw(words: NDArray[np.uint64], rows: NDArray[np.float64]) -> None:
    """Fill each row with normal numbers, as the kernel does, by NumPy's own generator."""
    bits = np.random.SFC64(0)
    normal, state = np.random.Generator(bits).standard_normal, bits.state
    for own, row in zip(words, rows, strict=True):
        state["state"]["state"] = own
        bits.state = state
        normal(out=row)


@cache
def _fastest() -> Callable[[Any, Any], None]:
    """Return what draws as `_draw` does: the kernel with the tables of NumPy's ziggurat, which its draws show."""
    kernels: Any = compiled_kernels()
    numbers, draw = np.arange(256), _draw
    words, known, drawn = np.zeros((256, 4), dtype=np.uint64), np.empty((256, 64)), np.zeros((256, 64))
    words[:, 0] = numbers | 512  # the first place of each layer
    _draw(words, known)
    width, height = known[:, 0].copy(), np.exp(-0.5 * (known[:, 0] * 2.0**52) ** 2)
    height[0] = 1
    inside = (np.append([width[-1] / width[0], 0], width[1:-1] / width[2:]) * 2.0**52).astype(np.int64)
    for _ in range(2 if kernels else 0):  # the first time finds which numbers of places are less by one
        draw = partial(kernels.draw, np.append(width, -width), np.tile(inside, 2), height)
        words[:, 0] = inside << 9 | numbers
        _draw(words, known)
        draw(words, drawn)
        inside += (known != drawn).any(axis=1)
    return draw if (known == drawn).all() else _draw


class Replay:
    """The order of a schedule, ready to be timed with other durations; `texts` and `ticks` by row."""

    def __init__(self, schedule: Schedule) -> None:
        plan, graph, self.devices = schedule.plan, schedule.graph, schedule.problem.devices
        self.per_unit = schedule.problem.ticks.per_unit
        self._sweep = CaseSweep(len(graph), plan.lines, graph.edges)
        edges = self._sweep.edges
        self._lag = np.where(edges >= 0, graph.edges.lag[edges], 0) if len(graph.edges) else edges * 0
        self.ticks = graph.duration[self._sweep.tasks]
        self._is_message = self._sweep.tasks >= plan.index.first_message  # which last as long as latencies do
        self._machines = np.minimum(self._sweep.machines, self.devices)  # the number of devices stands for all lanes
        transfers = range(self.devices, self.devices + 2 * len(plan.lanes))  # they end no schedule
        rows = self._sweep.rows
        self._last = np.array([own[-1] for n, own in enumerate(rows) if len(own) and n not in transfers], dtype=np.intp)
        self._vector, self._vectors = self._sweep.vectors(self._last)
        # The text of each operation: a pair's is that of its forward, and both ends of tied gradients have that of the
        # first, because they are one.
        index, tied = plan.index, plan.index.of_kind("REDUCE_TIED")
        heads = [f"{stage}{letter}".encode() for letter in index.letters for stage in range(index.stages)]
        units = [str(index.op(number)).removeprefix("0F").encode() for number in index.row("F", 0)]
        others = [*plan.pairs, *range(index.passes, index.size)]
        own = np.array([str(plan.slot(number)).encode() for number in others], dtype="S")
        texts = np.append(np.char.add(np.array(heads)[:, None], np.array(units)), own)
        place = np.arange(index.size)
        place[others] = range(index.passes, len(texts))
        place[tied] = place[tied[:1]]
        self.texts = texts[place[self._sweep.tasks]]

    def makespans(self, variation: Variation, blocks: range | None = None) -> NDArray[np.float64]:
        """Return the makespan of each sample, or of each in some blocks of them, in the user's time unit."""
        chosen = range(-(-variation.samples // BLOCK)) if blocks is None else blocks
        return np.concatenate([self._block(block, variation) for block in chosen]) / self.per_unit

    def stragglers(self, slowness: Fraction) -> list[int | float]:
        """Return for each device the makespan, in the user's time unit, when its operations take so many times as long.

        Transfers and network lanes keep their durations, and latencies too. Everything is computed in integers.
        """
        up, down = slowness.as_integer_ratio()
        most = (total(self.ticks) + total(self._lag)) * max(up, down)
        ticks, lag = in_range(self.ticks, most), in_range(self._lag, most)

        def slowed(lengths: Ints, part: slice) -> None:
            is_slow = self._machines[part, None] == np.arange(self.devices)
            np.multiply(ticks[part, None], np.where(is_slow, up, down), out=lengths)

        found = self._makespans(slowed, self.devices, lag * down)
        return [plain(Fraction(ticks, down * self.per_unit)) for ticks in found.tolist()]

    def _block(self, block: int, variation: Variation) -> NDArray[np.float64]:
        stream, width = f"{variation.seed} {block} ", min(BLOCK, variation.samples - block * BLOCK)
        of_devices = np.ones((self.devices + 1, width))  # the last one is that of the lanes
        names = [f"device {device}".encode() for device in range(self.devices)]
        draw_factors(of_devices[:-1], names, variation.device_noise, stream)
        ticks = self.ticks.astype(np.float64)

        def drawn(lengths: NDArray[np.float64], part: slice) -> None:
            draw_factors(lengths, self.texts[part].tolist(), variation.noise, stream)
            lengths[self._is_message[part]] = 1
            lengths *= ticks[part, None]
            if variation.device_noise:
                lengths *= of_devices[self._machines[part]]

        return self._makespans(drawn, width, self._lag.astype(np.float64))

    def _makespans(self, fill: Callable[[Ints, slice], None], cases: int, lag: Ints) -> Ints:
        """Return the last end of each case; `fill` puts the lengths of some rows into an array that is used again."""
        height = CELLS // cases + 1
        rows, ends = np.empty((height, cases), dtype=lag.dtype), np.zeros((self._vectors, cases), dtype=lag.dtype)
        for first in range(0, len(self.ticks), height):
            check_deadline()
            part = slice(first, first + height)
            lengths = rows[: len(self.ticks[part])]
            fill(lengths, part)
            self._sweep.advance(first, lengths, ends, self._vector, lag)
        makespans: Ints = ends[self._vector[self._last]].max(axis=0)
        return makespans


@dataclass(frozen=True)
class RobustnessRow:
    """One schedule of a robustness, or the `reason` why it does not apply; times are in the user's unit.

    `makespan` is that of the costs as they are; `mean`, `std` (of n - 1) and the percentiles are those of the samples.
    `best_share` is the share of samples in which no other was shorter (several shortest ones share it). `stragglers`
    are the makespans with each device slow. `over` has `device`, `memory` and `budget` of each device that exceeds it;
    such a row takes no part in the best share, which is None. `makespans` are the samples, none of what was read from a
    document. `failed`: own code did wrong. Raises ConfigError, about the field at fault, for a value of another type.
    """

    algorithm: str
    makespan: int | float = 0
    mean: float = 0.0
    std: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    best_share: float | None = 0.0
    stragglers: tuple[int | float, ...] = ()
    reason: str = ""
    over: tuple[Mapping[str, Any], ...] = ()
    makespans: tuple[float, ...] = field(default=(), repr=False, compare=False)
    failed: bool = False

    def __post_init__(self) -> None:
        require_text(self.algorithm, "algorithm")
        require_flag(self.failed, "failed")
        require_text(self.reason, "reason")
        for key in FIGURES:
            if key != "best_share" or self.best_share is not None:
                require_number(getattr(self, key), key)
        for key in ("stragglers", "over", "makespans"):
            object.__setattr__(self, key, tuple(require_sequence(getattr(self, key), key)))
        for makespan in self.stragglers:
            require_number(makespan, "stragglers")

    def __repr__(self) -> str:
        what = f"mean {self.mean:.6g}, p95 {self.p95:.6g}" if self.applicable else shown(self.reason)
        return f"RobustnessRow({shown(self.algorithm, BRIEF)}, {what})"

    @property
    def applicable(self) -> bool:
        """Whether there is a schedule."""
        return not self.reason

    @property
    def fits(self) -> bool:
        """Whether no device exceeds its budget."""
        return not self.over

    @property
    def worst_device(self) -> int | None:
        """The device that costs most when it is slow, the first of several; None where nothing is known."""
        return self.stragglers.index(max(self.stragglers)) if self.stragglers else None

    @property
    def worst_makespan(self) -> int | float:
        """The makespan when that device is slow (that of the costs as they are where nothing is known)."""
        return max(self.stragglers, default=self.makespan)

    @property
    def price(self) -> float:
        """What the worst slow device costs: (its makespan - makespan) / makespan."""
        return (self.worst_makespan - self.makespan) / self.makespan if self.makespan else 0.0


@dataclass(frozen=True, repr=False)
class Robustness(NamedRows[RobustnessRow]):
    """Rows in the order asked for, and how durations varied: the parameters of `robustness`.

    `robustness["1f1b"]` is the row of an algorithm. `time_unit` is the label of times. Raises ConfigError, about the
    field at fault.
    """

    rows: tuple[RobustnessRow, ...]
    noise: int | float = 0.05
    device_noise: int | float = 0
    straggler: int | float = 1.2
    samples: int = 1000
    seed: int = 0
    time_unit: str = ""

    def __post_init__(self) -> None:
        require_label(self.time_unit, "time_unit")
        object.__setattr__(self, "rows", tuple(require_sequence(self.rows, "rows")))
        for row in self.rows:
            require_type(row, RobustnessRow, "a RobustnessRow", "rows")
        for one in fields(self.variation):
            object.__setattr__(self, one.name, getattr(self.variation, one.name))

    @property
    def variation(self) -> Variation:
        """How durations vary."""
        return Variation(self.noise, self.device_noise, self.straggler, self.samples, self.seed)

    def __repr__(self) -> str:
        texts = [f"{row.algorithm} {row.mean:.6g}" if row.applicable else f"{row.algorithm} n/a" for row in self.rows]
        return f"Robustness({joined(texts)})"


Given = Outcome | Schedule | str | Path | Callable[..., Any]


def robustness(
    outcomes: Given | Sequence[Given] | Comparison,
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
    same factor in every schedule. So schedules differ by their orders and not by luck, and a schedule's figures do not
    depend on what stands beside it.

    Args:
        outcomes: An Outcome or a Schedule, the name of a file with one, a list of them, or a Comparison. Its entries
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
        problem: The costs of each CSV among the files, and what algorithms, by name or function, schedule.

    Raises:
        ConfigError: For a bad argument, or an entry that was read from a document, without its schedule.
        InvalidSchedule: For a plan that cannot run.
    """
    variation = Variation(noise, device_noise, straggler, samples, seed)
    listed = _listed(outcomes, problem)
    timed = [schedule_plan(one.problem, one.schedule.plan) for one in listed if isinstance(one, Outcome)]
    operations, blocks = sum(len(schedule.plan) for schedule in timed), -(-variation.samples // BLOCK)
    with lent(chosen(executor), operations * variation.samples // SAMPLES_OF_ONE) as pool:
        count = 1 if workers_of(pool) == 1 else min(workers_of(pool) * PARTS, blocks)
        some = [range(blocks * number // count, blocks * (number + 1) // count) for number in range(count)]
        every = [(schedule, variation, own, own is some[-1]) for schedule in timed for own in some]
        results: Any = map(_result, every)
        if pool is not None:
            from pipesched.executors.batches import map_batches

            results = map_batches(pool, _result, every, lambda part: f"{len(part[0].plan):,} operations")
        found = [[next(results) for _ in some] for _ in timed]
    times = [np.concatenate([makespans for makespans, _ in own]) for own in found]
    drawn = [makespans for one, makespans in zip(timed, times, strict=True) if one.fits]
    least = np.minimum.reduce(drawn) if drawn else None
    shortest: Any = sum(makespans == least for makespans in drawn)  # several shortest ones share a sample equally
    shares = iter([float(np.mean((makespans == least) / shortest)) for makespans in drawn])
    fitting = [next(shares) if one.fits else None for one in timed]
    known = iter(zip(timed, times, [own[-1][1] for own in found], fitting, strict=True))
    rows = [one if isinstance(one, RobustnessRow) else _row(one.algorithm, *next(known)) for one in listed]
    units = {one.problem.time_unit for one in listed if isinstance(one, Outcome)}
    unit = units.pop() if len(units) == 1 else ""
    return Robustness(tuple(rows), **asdict(variation), time_unit=unit)


def _listed(outcomes: Any, problem: Problem | None) -> list[Outcome | RobustnessRow]:
    """Return what is to be timed, and rows of what does not apply. Raises ConfigError."""
    if isinstance(outcomes, (list, tuple)):
        given: Any = [from_file(one, problem, "outcomes", position) for position, one in enumerate(outcomes)]
    else:
        given = from_file(outcomes, problem, "outcomes")
    if isinstance(given, Comparison):
        listed: list[Outcome | RobustnessRow] = []
        for position, entry in enumerate(given):
            if entry.outcome is not None:
                listed.append(Outcome(entry.algorithm, entry.outcome.schedule))
            elif entry.applicable:
                what = "was read from a document, which holds no schedule; compare anew"
                raise ConfigError(f"{shown(entry.algorithm)} {what}", "outcomes", entry=position)
            else:
                why = entry.reason or "does not apply"
                listed.append(RobustnessRow(entry.algorithm, reason=why, failed=entry.failed))
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
        return Outcome(value.name, value)
    what = KNOWN if position is None else "an Outcome or a Schedule"
    raise ConfigError(f"must be {what}, not {shown(value)}", "outcomes", entry=position)


def _row(
    algorithm: str, schedule: Schedule, makespans: NDArray[np.float64], slow: Sequence[int | float], share: float | None
) -> RobustnessRow:
    over, mean, std = tuple(excesses(schedule)), float(np.mean(makespans)), float(np.std(makespans, ddof=1))
    p50, p95, p99 = map(float, np.percentile(makespans, [50, 95, 99]))
    figures = (schedule.makespan, mean, std, p50, p95, p99, share)
    return RobustnessRow(algorithm, *figures, tuple(slow), over=over, makespans=tuple(makespans.tolist()))


def _result(part: tuple[Schedule, Variation, range, bool]) -> tuple[NDArray[np.float64], list[int | float]]:
    """Return the makespan of a schedule in each sample of some blocks, and of the last with each device slow too."""
    schedule, variation, blocks, is_last = part
    replay = Replay(schedule)
    return replay.makespans(variation, blocks), replay.stragglers(variation.slowness) if is_last else []
