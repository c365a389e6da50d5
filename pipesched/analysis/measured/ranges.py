"""What a rank recorded, ranges of time on its own clock, step by step: the words that all readers of traces share.

A reader returns `Recorded`. Where ranges have names of a user's own (`forward_step`), `names_of` reads what these are,
the reader makes a `CountedRank`. Then `in_steps` makes `Recorded` of all: the stage is the rank, and microbatches are
counted. How many a step has is told by the plan, by numbers that ranges have, or by the first rank. Its step ends where
as many backwards as forwards are done. Such ranges hold no waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.checks import require_name, require_type, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.ops import Op, Pair, Slot

PER_UNIT = 10**6  # ticks in a unit of time: picoseconds in a microsecond, nanoseconds in a millisecond
LONGEST = Decimal(10**18)  # of the times in a trace


class NamedRange(NamedTuple):
    """A range in ticks; `name` is as recorded, then its operation's letter; `lane` is category and thread or stream."""

    name: str
    lane: tuple[str, Any]
    start: int
    end: int
    microbatch: int | None = None


CountedRank = tuple[int, str, Sequence[NamedRange]]  # its number, its file, its ranges by the letters of operations


class MessageWait(NamedTuple):
    """When a rank waited for an operation's message, by its clock; if not `is_recorded`, when it did nothing before."""

    start: int
    end: int
    is_recorded: bool = True


class Range(NamedTuple):
    """A slot or transfer with its times on the clock of its rank, in ticks, and what it waited before."""

    slot: Slot
    start: int
    end: int
    wait: MessageWait | None = None

    def earlier(self, ticks: int) -> Range:
        """Return the range on a clock that is so many ticks behind."""
        wait = self.wait and self.wait._replace(start=self.wait.start - ticks, end=self.wait.end - ticks)
        return Range(self.slot, self.start - ticks, self.end - ticks, wait)

    @property
    def there(self) -> int:
        """When its input was there at the latest."""
        return self.start if self.wait is None else min(self.wait.end, self.start)


def idle_as_waits(ranges: Iterable[Range], begin: int) -> list[Range]:
    """Return ranges in their order, each with all that its rank did nothing before as waiting, from `begin` on."""
    waiting, free = [], begin
    for one in ranges:
        waiting.append(one._replace(wait=MessageWait(min(free, one.start), one.start, is_recorded=False)))
        if not any(KINDS[op.kind].is_transfer for op in ops_of(one.slot)):  # which runs beside the others
            free = max(free, one.end)
    return waiting


class Machine(NamedTuple):
    """How many ranks ran, and on how many cores."""

    ranks: int
    cores: int


class Recorded(NamedTuple):
    """The steps of one rank, by their names, in order; each has its ranges in the order of their starts.

    `file` is where they were read. `apart`: an operation's range begins after the waiting for its message, and does not
    hold it. `ranks` is how many took part where the file says so, else 0; `peers` are stages that it exchanged messages
    with, as far as recorded. `machine` is what the runtime said of it; `ends` are the ranges of SEND and RECV, by step.
    """

    rank: int
    file: str
    steps: Mapping[str, Sequence[Range]]
    apart: bool
    ranks: int = 0
    peers: frozenset[int] = frozenset()
    machine: Machine | None = None
    ends: Mapping[str, Sequence[Range]] = MappingProxyType({})


class TraceSource(NamedTuple):
    """What kind of traces were read.

    `unit` is the unit of their times. `clock_a_step` says that the clock of a rank begins anew with each step, and
    `one_clock` that all ranks have the same one.
    """

    name: str
    unit: str
    clock_a_step: bool = False
    one_clock: bool = False


def ops_of(slot: Slot) -> Sequence[Op]:
    """Return the operations of a slot: of a pair both."""
    return slot if isinstance(slot, Pair) else (slot,)


def ticks_of(value: Any, what: str, file: str, finer: int = 1) -> int:
    """Return a time in ticks, or in ticks `finer` times smaller, to scale exactly. Raises ConfigError for no time."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
            raise ValueError
        number = Decimal(value)
        if not number.is_finite() or abs(number) > LONGEST:
            raise ValueError
    except (ValueError, InvalidOperation):
        raise ConfigError(f"{file}: {what} must be a time, not {value!r}") from None
    return round(number * (PER_UNIT * finer))


def names_of(given: Any) -> dict[str, str]:
    """Return patterns of names, each with the letter of an operation. Raises ConfigError about `ranges`."""
    if isinstance(given, str):
        given = {name.strip(): letter.strip() for name, _, letter in (one.rpartition("=") for one in given.split(","))}
    known = dict(require_type({} if given is None else given, Mapping, "a mapping: {'forward_step': 'F'}", "ranges"))
    for name, letter in known.items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"must look like forward_step=F,backward_step=B, not {shown(name or letter)}", "ranges")
        require_name("FBIW", letter, f"operation of {name}", "ranges")
    return known


def in_steps(ranks: Sequence[CountedRank], microbatches: int | None = None) -> Iterator[Recorded]:
    """Yield what each rank recorded step by step, with so many microbatches where the plan says it.

    Raises ConfigError for a rank without ranges.
    """
    for _, file, ranges in ranks:
        if not ranges:
            raise ConfigError(f"{file} holds no range with one of the names of `ranges`")
    rows = [(*rank[:2], sorted(rank[2], key=lambda one: one.start)) for rank in sorted(ranks, key=lambda one: one[0])]
    count = microbatches or max((_in_a_step(row) for _, _, row in rows), default=0)  # the first rank's is the most
    for stage, (rank, file, row) in enumerate(rows):
        ran, names, placed = Counter[Any](), list[str](), list[Range]()
        for one in row:
            key = (one.name, one.microbatch)
            step, number = divmod(ran[key], count) if one.microbatch is None else (ran[key], one.microbatch)
            ran[key] += 1
            names.append(str(step))
            placed.append(Range(Op._make((stage, one.name, number, 0)), one.start, one.end))
        steps: dict[str, list[Range]] = {}
        for name, waited in zip(names, idle_as_waits(placed, row[0].start), strict=True):
            steps.setdefault(name, []).append(waited)
        yield Recorded(rank, file, steps, apart=True)


def _in_a_step(row: Sequence[NamedRange]) -> int:
    """Return how many of each kind ran when first all kinds ran equally often: a step, of one kind all."""
    numbers = [one.microbatch for one in row if one.microbatch is not None]
    letters, ran = {one.name for one in row}, Counter[str]()
    for one in row:
        ran[one.name] += 1
        if len(letters) > 1 and len({ran[letter] for letter in letters}) == 1:
            break
    return max(numbers) + 1 if numbers else max(ran.values())
