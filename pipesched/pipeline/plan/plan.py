"""Plans: for each device the order of its slots, without times; and the placement that follows from a plan.

`Plan` is what families return, and what `lower_plan` (lowering.py) makes tasks of; before it stand its parts. Behind it
stand changed plans, checks, `plan_from_slots`, which builds one of operations, and `placement_of`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

from pipesched.checks import joined, require_label, require_name, require_sequence, require_type, require_whole, shown
from pipesched.core.arrays import Ints, column, np
from pipesched.display import Displayable
from pipesched.errors import ConfigError, WrongOperation, blame
from pipesched.pipeline.plan.step import EDGE, PAIR
from pipesched.pipeline.problem.costs import fields_of
from pipesched.pipeline.problem.kinds import (
    ALL_KINDS,
    KINDS,
    LANES,
    LETTERS,
    NETWORK_KINDS,
    STEP_KINDS,
    STEP_SLOTS,
    TRANSFER_LETTERS,
    Scope,
)
from pipesched.pipeline.problem.ops import NO_NUMBER, Op, OpIndex, Pair, ScopedRows, Slot
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem

NOTHING_BEFORE = -1
SIDE_KINDS = ("E", "G")  # side work, numbered by side item and not by stage


class NetworkEntry(NamedTuple):
    """An operation of a network lane, by its number, and the slot of the device behind whose end it is issued.

    That is the number of the slot, of a pair that of its forward; NOTHING_BEFORE: it is issued at once.
    """

    number: int
    after: int = NOTHING_BEFORE


Program = Sequence[NetworkEntry]


class MessageProgram(NamedTuple):
    """The ends of messages that a device issues, in order, as columns."""

    number: Ints  # of the message
    sends: Ints  # 1 where the device sends it, 0 where it receives it
    after: Ints  # the slot behind which it stands, NOTHING_BEFORE: before the first
    behind: Ints  # and behind how many operations of the network that stand behind that slot too


Value = TypeVar("Value")


class Together(cached_property[Value]):
    """A cached property that is made with others: `make` returns all of them by name, and who asks for one has all.

    As in any cached property, a value that stands in the instance already is not made: the class is not asked.
    """

    def __init__(self, make: Callable[[Any], Mapping[str, Any]], doc: str) -> None:
        super().__init__(make)  # type: ignore[arg-type]
        self.__doc__ = doc

    def __get__(self, instance: Any, owner: Any = None) -> Value:  # type: ignore[override]
        if instance is None:
            return self  # type: ignore[return-value]
        known = vars(instance)
        known.update(self.func(instance))
        found: Value = known[self.attrname]
        return found


class LanePair(NamedTuple):
    """The orders of the two transfer lanes of a device: to host memory, and back."""

    offloads: Sequence[int] = ()
    reloads: Sequence[int] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Displayable):
    """For each device the order of its slots: `orders[d]` lists the operations of device d as numbers of `index`.

    A forward in `pairs` runs together with the backward that it maps to, which then stands in no order of its own.
    With offload, `lanes[d]` are the transfers of device d. Each (before, after) of `waits` makes an operation wait for
    the end of another, so that loads do not come back at once, and their memory is free. With a step, `network[d]` is
    the program of the network lane of device d: gathers, frees and reductions in the order in which they are issued.
    Optimizers and side work stand in the orders. Where messages queue, `messages[d]` are those of device d.

    Raises ConfigError for a number that is no operation of `index`. Whether the plan is complete, and each operation on
    its device, is for `check` to say. `pipesched.plan` builds a plan from the texts of operations.
    """

    index: OpIndex
    orders: Sequence[Sequence[int]]
    pairs: Mapping[int, int] = field(default_factory=dict)
    note: str = ""  # what the algorithm decided that its user should know
    lanes: Sequence[LanePair] = ()
    waits: Sequence[tuple[int, int]] = ()
    network: Sequence[Program] = ()
    messages: Sequence[MessageProgram] = ()
    name: str = ""  # what documents, figures and tables call it

    def __post_init__(self) -> None:
        index, first = require_type(self.index, OpIndex, "an OpIndex", "index"), self.index.first_message
        for device, order in enumerate(require_sequence(self.orders, "orders")):
            _require_numbers(order, first, "orders", device)
        require_type(self.pairs, Mapping, "a mapping from forwards to backwards", "pairs")
        _require_numbers([*self.pairs, *self.pairs.values()], index.passes, "pairs")
        require_label(self.note, "note")
        require_label(self.name, "name")
        for entry, pair in enumerate(require_sequence(self.lanes, "lanes")):
            for lane in _two(pair, "lanes", entry):
                _require_numbers(lane, first, "lanes", entry)
        waits = (_two(pair, "waits", entry) for entry, pair in enumerate(require_sequence(self.waits, "waits")))
        _require_numbers([*chain.from_iterable(waits)], first, "waits")
        for device, program in enumerate(require_sequence(self.network, "network")):
            entries = [_two(entry, "network", device) for entry in program]
            _require_numbers([number for number, _ in entries], first, "network", device)
            _require_numbers([after for _, after in entries if after != NOTHING_BEFORE], first, "network", device)
        for device, program in enumerate(require_sequence(self.messages, "messages")):
            numbers, sends, after, behind = require_type(program, MessageProgram, "a MessageProgram", "messages")
            _require_numbers([*numbers], index.size, "messages", device, first)
            _require_numbers([one for one in after if one != NOTHING_BEFORE], first, "messages", device)
            if not (len(numbers) == len(sends) == len(after) == len(behind) and {*sends} <= {0, 1}):
                raise ConfigError("must have columns of one length, and 0 or 1 in `sends`", "messages", entry=device)

    def __getstate__(self) -> dict[str, Any]:
        return fields_of(self)

    def __len__(self) -> int:
        """Return the number of operations (a pair counts twice)."""
        return sum(map(len, self.machines)) + len(self.pairs)

    def __repr__(self) -> str:
        return f"Plan({len(self.orders)} devices, {len(self)} operations of {'/'.join(self.index.letters)})"

    # orders: of the devices; machines: these, then lanes and network lanes; own_lines: machines as arrays;
    # queues: messages from each device to each other; lines: own_lines, then queues
    @property
    def machines(self) -> Sequence[Sequence[int]]:
        """The orders of all that runs one operation at a time: of the devices, of the lanes, of the network lanes."""
        if not self.lanes and not self.network:
            return self.orders
        return [*self.orders, *chain(*self.lanes), *self.network_lanes]

    def _rows(self) -> dict[str, Any]:
        lanes = [lane_of(program, self.index) for program in self.network] if self.network else []
        machines = [*self.orders, *chain(*self.lanes), *lanes]
        own = vars(self).get("own_lines") or [*map(column, machines)]  # known where `Sent.programs` added messages
        queues = [row for device in range(len(self.messages)) for _, row in self.queues_on(device, EDGE)]
        return {"own_lines": own, "queues": queues, "lines": [*own, *queues], "network_lanes": lanes}

    own_lines = Together[list[Ints]](_rows, "The orders of `machines` as arrays, those of the devices first.")
    lines = Together[list[Ints]](_rows, "The orders of `machines`, and behind them those of `queues`.")
    queues = Together[list[Ints]](_rows, "The messages from each device to each other in the order of their sender.")
    network_lanes = Together[list[list[int]]](_rows, "What each network lane moves, in order.")

    @cached_property
    def _ends(self) -> Ints:
        """The receiver, and the sender, of each message."""
        found = np.full((2, self.index.size - self.index.first_message), NOTHING_BEFORE)
        for device, program in enumerate(self.messages):
            found[program.sends, program.number - self.index.first_message] = device
        return found

    def queues_on(self, device: int, queue: str) -> Iterator[tuple[int, Ints]]:
        """Yield messages of a device by the other one, in order: those it sends (edge), all (pair), else all as one."""
        program = self.messages[device]
        if queue not in (EDGE, PAIR):
            yield NOTHING_BEFORE, program.number
            return
        others = self._ends[1 - program.sends, program.number - self.index.first_message]
        for other in np.unique(others).tolist():
            row = program.number[(others == other) & ((program.sends == 1) | (queue != EDGE))]
            yield from [(other, row)] * bool(len(row))

    @cached_property
    def step_slots(self) -> list[list[tuple[int, int]]]:
        """The optimizers and side work of each device, with their places in its order: (place, number)."""
        if not self.index.scoped:
            return [[] for _ in self.orders]
        there = [np.flatnonzero(line >= self.index.passes) for line in self.own_lines[: len(self.orders)]]
        return [[*zip(at.tolist(), line[at].tolist(), strict=True)]
                for at, line in zip(there, self.own_lines, strict=False)]  # fmt: skip

    @cached_property
    def passes(self) -> Sequence[Sequence[int]]:
        """The orders of the devices without optimizers and side work."""
        if not any(self.step_slots):
            return self.orders
        return [line[line < self.index.passes].tolist() for line in self.own_lines[: len(self.orders)]]

    def count(self, kind: str) -> int:
        """Return the number of operations of a kind. Raises ConfigError for what is none."""
        require_name(ALL_KINDS, kind, "kind", "kind")
        if kind not in self.index.kinds:
            return 0
        row = self.index.of_kind(kind)
        return sum(number in row for number in chain(*self.machines, self.pairs.values()))

    def slot(self, number: int) -> Slot:
        """Return the slot that an entry of an order stands for."""
        op = self.index.op(number)
        return Pair._make((op, self.index.op(self.pairs[number]))) if number in self.pairs else op

    def paired(self, number: int) -> Op | None:
        """Return the backward that runs together with an entry of an order, if any."""
        return self.index.op(self.pairs[number]) if number in self.pairs else None

    def slots(self, device: int) -> Iterator[Slot]:
        """Return what a device runs, in order. Raises ConfigError for a device that the plan does not have."""
        return map(self.slot, self.orders[require_device(device, len(self.orders))])


def lane_of(program: Program, index: OpIndex) -> list[int]:
    """Return what the lane itself moves: all of a program but RESHARD, which occupies nothing."""
    free = index.of_kind("RESHARD") if any(rows.kind == "RESHARD" for rows in index.scoped) else range(0)
    return [number for number, _ in program if number not in free]


def with_parts(plan: Plan, **parts: Any) -> Plan:
    """Return a plan with other parts, which are not checked again: who made them numbered their operations."""
    changed = object.__new__(Plan)
    vars(changed).update({**fields_of(plan), **parts})
    return changed


def without_step(plan: Plan) -> Plan:
    """Return the passes of a plan alone: without optimizers, side work, programs of the network and messages."""
    if not (plan.index.scoped or plan.messages):
        return plan
    first = plan.index.passes
    waits = [(before, after) for before, after in plan.waits if max(before, after) < first]
    index = replace(plan.index, scoped=(), sent=())
    return with_parts(plan, index=index, orders=plan.passes, waits=waits, network=(), messages=())


def require_device(device: object, devices: int) -> int:
    """Return `device` if it is the number of one of so many devices. Raises ConfigError."""
    try:
        return require_whole(device, "device", most=devices - 1)
    except ConfigError:
        raise ConfigError(f"must be 0 to {devices - 1}, not {shown(device)}", "device") from None


def _two(pair: object, key: str, entry: int) -> Sequence[Any]:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise ConfigError(f"must hold two, not {shown(pair)}", key, entry=entry)
    return pair


def _require_numbers(numbers: Any, stop: int, key: str, entry: int | None = None, first: int = 0) -> None:
    """Raise ConfigError for what is no list of numbers, and for a number that is not from `first` to before `stop`."""
    if not isinstance(numbers, Sequence) or not all(issubclass(kind, Integral) for kind in set(map(type, numbers))):
        raise ConfigError(f"must list numbers of operations, not {shown(numbers)}", key, entry=entry)
    if numbers and not (min(numbers) >= first and max(numbers) < stop):
        wrong = min(numbers) if min(numbers) < first else max(numbers)
        raise ConfigError(f"{wrong} is no operation: numbers are {first} to {stop - 1}", key, entry=entry)


def mismatch(problem: Problem, plan: Plan) -> str | None:
    """Say in which numbers (devices, stages, microbatches, lanes) a plan differs from the problem; None if in none."""
    planned, devices = (len(plan.orders), plan.index.stages, plan.index.microbatches), problem.devices
    if planned != (devices, problem.stages, problem.microbatches):
        return (
            f"the plan is for {planned[0]} devices, {planned[1]} stages and {planned[2]} microbatches;"
            f" the problem has {devices}, {problem.stages} and {problem.microbatches}"
        )
    if plan.index.slices != problem.slices.count:
        return f"the plan has {plan.index.slices} slices a microbatch; the problem has {problem.slices.count}"
    if len(plan.network) not in (0, devices):
        return f"the plan has programs of {len(plan.network)} network lanes; the problem has {devices} devices"
    if len(plan.lanes) not in (0, devices):
        return f"the plan has {len(plan.lanes)} pairs of transfer lanes; the problem has {devices}"
    return None


def plan_from_slots(
    devices: Iterable[Iterable[Slot]],
    stages: int,
    microbatches: int,
    lanes: Iterable[Iterable[Op]] = (),
    waits: Iterable[tuple[Op, Op]] = (),
    slices: int = 1,
    network: Iterable[Iterable[tuple[Op, Op | None]]] = (),
    sides: int = 0,
) -> Plan:
    """Return the plan that runs these slots and, on each pair of lanes, these transfers.

    Each (before, after) of `waits` makes an operation wait for the end of another. `network` lists for each device the
    operations of its lane with the slot behind which each is issued; there are so many items of side work. Raises
    WrongOperation for an operation that is out of range, stands twice, or waits and stands nowhere. Whether the plan is
    complete and runs on the right devices is for `check` to say.
    """
    rows = [list(slots) for slots in devices]
    transfers = [list(moves) for moves in lanes]
    programs = [list(program) for program in network]
    planned = list(chain(*map(_ops, rows), *transfers, (op for program in programs for op, _ in program)))
    kinds = {"F", *(TRANSFER_LETTERS if transfers else ()), *(op.kind for op in planned)}
    if "W" in kinds:
        kinds.add("I")  # the rules speak of both, also in a plan that lacks one
    index = OpIndex("".join(letter for letter in LETTERS if letter in kinds), stages, microbatches, slices)
    require_each_once(planned, stages, microbatches, slices, sides)
    of_step = [op for op in planned if op.kind in STEP_KINDS]
    turns = [op for op in of_step if STEP_KINDS[op.kind].scope is Scope.TURN]  # numbered by gathers of their stage
    counts = Counter((op.stage, op.kind) for op in turns)
    for op in turns:
        if op.microbatch >= (listed := counts[op.stage, op.kind]):
            what = f"stage {op.stage} has {listed} {op.kind}, numbered from 0"
            raise WrongOperation(f"{op} is out of range: {what}", "network")
    index = with_scoped(index, of_step, sides) if of_step else index
    paired = [slot for slot in chain(*rows) if isinstance(slot, Pair)]
    pairs = {index.number(forward): index.number(backward) for forward, backward in paired}
    orders = [[index.number(next(_ops([slot]))) for slot in slots] for slots in rows]
    numbered = [
        LanePair(*([index.number(op) for op in moves if KINDS[op.kind].resource is lane] for lane in LANES))
        for moves in transfers
    ]
    known: set[Op | None] = {None, *planned}
    edges = [*waits]
    for op in chain.from_iterable(edges):
        if op not in known:
            raise WrongOperation(f"{op} has a wait edge, but does not stand in the plan", "waits")
    waited = [(index.number(before), index.number(after)) for before, after in edges]
    for op, after in chain(*programs):
        if after not in known:
            raise WrongOperation(f"{op} stands after {after}, which does not stand in the plan", "network")
    issued = [[NetworkEntry(index.number(op), NOTHING_BEFORE if after is None else index.number(after))
               for op, after in program] for program in programs]  # fmt: skip
    return Plan(index, orders, pairs, lanes=numbered, waits=waited, network=issued)


def with_scoped(index: OpIndex, ops: Iterable[Op], sides: int) -> OpIndex:
    """Return the index with rows behind those of the passes (`scoped`) for these operations of the step.

    `sides` counts the side items. What devices run (optimizers, side work) is numbered first: it keeps its numbers when
    gathers and reductions of network lanes are added.
    """
    counts: dict[str, list[int]] = {}
    numbered: dict[str, bool] = {}
    for op in ops:
        places = sides if op.kind in SIDE_KINDS else index.stages
        row = counts.setdefault(op.kind, [0] * places)
        row[op.stage] = max(row[op.stage], max(op.microbatch, 0) + 1)
        numbered[op.kind] = op.microbatch != NO_NUMBER
    kinds = [kind for kind in (*STEP_SLOTS, *NETWORK_KINDS) if kind in counts]
    return replace(index, scoped=tuple(ScopedRows(kind, tuple(counts[kind]), numbered[kind]) for kind in kinds))


def require_each_once(planned: Iterable[Op], stages: int, microbatches: int, slices: int = 1, sides: int = 0) -> None:
    """Raise WrongOperation for an operation that is out of range, or stands twice."""
    seen: set[Op] = set()
    for op in planned:
        if op.kind in STEP_KINDS:
            is_side = op.kind in SIDE_KINDS
            places, what = (sides, "items of side work") if is_side else (stages, "stages")
            if op.stage >= places:
                known = f"{what} are 0 to {places - 1}" if places else f"the problem has no {what}"
                raise WrongOperation(f"{op} is out of range: {known}")
            if (is_side or op.kind == "REDUCE_GRAD") and op.microbatch >= microbatches:
                raise WrongOperation(f"{op} is out of range: microbatches are 0 to {microbatches - 1}")
        elif op.stage >= stages or op.microbatch >= microbatches or op.slice >= slices:
            most = f", slices 0 to {slices - 1}" if slices > 1 else ""
            raise WrongOperation(
                f"{op} is out of range: stages are 0 to {stages - 1}, microbatches 0 to {microbatches - 1}{most}"
            )
        elif op.is_sliced != (slices > 1):
            several = f"{slices} slices; name one, {op}.0"
            one = "no slices: its text ends with the microbatch" if slices == 1 else several
            raise WrongOperation(f"{op} is no operation here: a microbatch has {one}")
        if op in seen:
            raise WrongOperation(f"{op} stands twice in the plan", "network" if op.kind in NETWORK_KINDS else None)
        seen.add(op)


def _ops(slots: Iterable[Slot]) -> Iterator[Op]:
    for slot in slots:
        yield from slot if isinstance(slot, Pair) else (slot,)


def settled(problem: Problem, plan: Plan) -> Problem:
    """Return `problem` with its placement, or where that is left open with the placement of `plan`.

    Raises ConfigError for a plan that leaves a device without a stage, or runs a stage on several devices, unless the
    placement is bidirectional.
    """
    if problem.placement is not None:
        return problem
    with blame("plan"):
        return replace(problem, placement=placement_of(plan))


OpsByDevice = dict[int, list[Op]]


def _spread(early: OpsByDevice, late: OpsByDevice) -> str:
    """Return the devices of a stage, and which operations are elsewhere than most of them, if most are on one."""
    together = {device: [*early.get(device, ()), *late.get(device, ())] for device in sorted({*early, *late})}
    where = " and ".join(map(str, together)) or "none"
    most = max(map(len, together.values()), default=0)
    home = [device for device, ops in together.items() if len(ops) == most]
    if len(home) != 1:
        return where
    astray = [f"{op} on {device}" for device, ops in together.items() if device != home[0] for op in ops]
    return f"{where}: {joined(astray)}, the rest on {home[0]}"


def placement_of(plan: Plan) -> Placement:
    """Return the device of each stage in `plan`. Raises ConfigError where there is none, or several."""
    index, half = plan.index, plan.index.microbatches // 2
    runs: list[tuple[OpsByDevice, OpsByDevice]] = [(defaultdict(list), defaultdict(list)) for _ in range(index.stages)]
    for device, order in enumerate(plan.orders):
        for number in (number for number in order if number < index.passes):
            op = index.op(number)
            runs[op.stage][op.microbatch >= half][device].append(op)
    for stage, halves in enumerate(runs):
        if not any(halves) or any(len(devices) > 1 for devices in halves):
            raise ConfigError(f"stage {stage} must run on one device; this plan has it on {_spread(*halves)}", "plan")
    seen = [(set(early), set(late)) for early, late in runs]
    last = len(plan.orders) - 1
    first = [next(iter(early or late)) for early, late in seen]
    if all(early == late or not early or not late for early, late in seen):
        return Placement(tuple(first))
    if all(late == {last - device} for device, (_, late) in zip(first, seen, strict=True)):
        return Placement(tuple(first), mirrored=True)
    raise ConfigError("each stage must run on one device, or on two that mirror each other", "plan")


def renumbered(plan: Plan, order: Sequence[int]) -> Plan:
    """Return a plan of `in_order(problem, order)` with the numbers that the microbatches have in `problem`.

    It holds passes and transfers alone (`without_step`): no other operation gets a new number.
    """
    index = plan.index
    units = [*chain.from_iterable(range(one * index.slices, (one + 1) * index.slices) for one in order)]
    new = index.spread(lambda kind, stage: [index.row(kind, stage)[unit] for unit in units])

    def named(numbers: Sequence[int]) -> list[int]:
        return [new[number] for number in numbers]

    return replace(
        plan,
        orders=[*map(named, plan.orders)],
        pairs={new[forward]: new[backward] for forward, backward in plan.pairs.items()},
        lanes=[LanePair(named(pair.offloads), named(pair.reloads)) for pair in plan.lanes],
        waits=[(new[before], new[after]) for before, after in plan.waits],
    )
