"""A pipeline's schedule, whole or in part, as a board that the editor changes: `board_of` makes a `PipelineBoard`.

Devices are rows; a task is an operation or an overlapped pair, by its number in the plan. The editor asks a board for
`tasks` (times), `amounts` (metrics) and reasons; `reordered` makes the next board. `PipelinePlanner` plans anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Event

from pipesched.analysis.explain import OVERLAP, Sensitivity, idle_gap, row_of_step, sensitivities
from pipesched.core.clock import Clock, deadline
from pipesched.core.reasons import NOTHING, Arc, Gap, TimedTasks, moved, users_of
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.explore.board import LIVE, SECONDS, Amounts, Choice, FormField, PlaceLimits, Planned, Tell
from pipesched.file_formats.files import content_of, read, refuse_existing, write_file
from pipesched.file_formats.registry import format_for
from pipesched.pipeline.check.check import checked, violations
from pipesched.pipeline.plan.message_programs import require_free
from pipesched.pipeline.plan.plan import SIDE_KINDS, Plan
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.plan.step import WEIGHTS
from pipesched.pipeline.problem.kinds import ALL_KINDS, NETWORK_KINDS, STEP_KINDS, MemorySavings
from pipesched.pipeline.problem.ops import parse_op
from pipesched.pipeline.problem.placement import placement_name
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import in_units, plain, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.render.explanation import gap_words
from pipesched.render.gantt import peak_text
from pipesched.render.scene import number
from pipesched.results.kinds import SCHEDULE
from pipesched.results.outcome import Outcome
from pipesched.results.timed_moves import arrivals, best_moves, gaps_of, moved_plan, timed_tasks
from pipesched.schedulers.registry import algorithms
from pipesched.solver.search import Event as Found
from pipesched.solver.solve import solve

MOST_SENSITIVE = 5_000  # operations up to which sensitivities are counted at every key
MOST_TRIED = 10_000  # operations, over all positions that are tried of one
MOST_THROUGH = 4  # names between two ends of a chain


@dataclass(frozen=True, eq=False)
class Fixed:
    """What no edit changes, of the whole plan: inputs and wait edges of each task, who uses it, the bound."""

    inputs: Sequence[Sequence[Arc]]
    waits: Sequence[Sequence[int]]
    users: Sequence[Sequence[int]]
    bound: int
    orders: Sequence[Sequence[int]]  # of the whole plan
    lengths: Sequence[int] | None = None  # of operations, where they are their own: measured

    @cached_property
    def home(self) -> dict[int, int]:
        return {task: device for device, order in enumerate(self.orders) for task in order}


@dataclass(frozen=True, eq=False)
class PipelineBoard:
    """A plan of a problem; `given` is a schedule with times of its own, else every slot is as early as it can be."""

    problem: Problem
    plan: Plan
    fixed: Fixed
    given: Schedule | None = None

    def __post_init__(self) -> None:
        require_free(self.problem, "the editor")

    @cached_property
    def schedule(self) -> Schedule:
        return self.given or schedule_plan(self.problem, self.plan, self.fixed.lengths)

    @cached_property
    def tasks(self) -> TimedTasks:
        schedule, plan = self.schedule, self.plan
        if plan.network:  # what lanes wait for depends on the orders
            return timed_tasks(schedule)
        starts, ends = ([time - self.first for time in times] for times in (schedule.start_ticks, schedule.end_ticks))
        fixed, arrived = self.fixed, arrivals(schedule, self.first)
        return TimedTasks(
            schedule.graph.durations, fixed.inputs, fixed.waits, plan.machines, len(plan.orders), starts, ends,
            arrived=arrived,
        )  # fmt: skip

    @cached_property
    def first(self) -> int:
        """The tick of the schedule that is time 0 of the tasks."""
        if self.plan.network:
            return self.schedule.last_ticks - self.schedule.makespan_ticks
        starts = (times[0] for times in self.schedule.slot_start_ticks if times)
        return min(starts, default=0)

    @cached_property
    def users(self) -> Sequence[Sequence[int]]:
        """What waits for each task, but for the orders of machines."""
        return users_of(self.tasks) if self.plan.network else self.fixed.users

    @cached_property
    def limits(self) -> tuple[TimedTasks, Sequence[Sequence[int]]]:
        """The tasks, and what waits for each, with no more waits than hold whatever the orders: where tasks may go."""
        if not self.plan.network:
            return self.tasks, self.users
        tasks = timed_tasks(self.schedule, moving=True)
        return tasks, users_of(tasks)

    @cached_property
    def amounts(self) -> Amounts:
        schedule, problem = self.schedule, self.problem
        slices = problem.slices.count
        sizes = f"P{problem.devices} S{problem.stages} M{problem.microbatches}" + (f" n{slices}" if slices > 1 else "")
        held = schedule.memory_grains
        fullest = held.index(max(held))
        over = [f"device {device}" for device in schedule.over_budget]
        memory = f"mem {peak_text(schedule, schedule.over_budget[0] if over else fullest)}"
        return Amounts(sizes, self.tasks.makespan, self.fixed.bound, schedule.bubble, memory, over)

    @cached_property
    def gaps(self) -> Sequence[Gap]:
        """All idle time of the devices by class and culprit."""
        return gaps_of(self.schedule, self.tasks) if self.plan.machines and any(self.plan.orders) else []

    @cached_property
    def is_late(self) -> bool:
        """Whether some task starts later than it could."""
        tasks = self.tasks
        return self.given is not None and any(
            tasks.starts[task] != tasks.allowed[task] for order in tasks.orders for task in order
        )

    @property
    def missing(self) -> int:
        """How many tasks are still in no order."""
        return sum(map(len, self.fixed.orders)) - sum(map(len, self.plan.orders))

    def name(self, task: int) -> str:
        paired = self.plan.paired(task)
        return f"{self.plan.index.op(task)}" + (f"&{paired}" if paired is not None else "")

    def find(self, text: str) -> int | None:
        """Return the task of a text: a pair by either part, by both, or by its text in files."""
        wanted = "".join(text.split()).upper()
        inside = wanted.removesuffix("OVERLAP_F_B").strip("()")  # a pair is written 0F3&3B1 or (0F3;3B1)OVERLAP_F_B
        found, *others = {self._number(part) for part in inside.replace(";", "&").split("&")}
        return None if found is None or others or self.tasks.machine[found] == NOTHING else found

    def _number(self, text: str) -> int | None:
        """Return the task that an operation is, or is part of."""
        index = self.plan.index
        try:
            op = parse_op(text)
        except ConfigError:
            return None
        if op.kind in STEP_KINDS:
            rows = index.rows(op.kind)
            is_there = op.stage < len(rows) and max(op.microbatch, 0) < len(rows[op.stage])
            return index.number(op) if is_there and f"{index.op(index.number(op))}" == f"{op}" else None
        if op.kind not in index.letters or op.stage >= index.stages or op.microbatch >= index.microbatches:
            return None
        if op.slice >= index.slices or op.is_sliced != (index.slices > 1):
            return None
        number = index.number(op)
        return next((forward for forward, backward in self.plan.pairs.items() if backward == number), number)

    def row_name(self, row: int) -> str:
        devices = self.problem.devices
        if row < devices:
            return f"device {row}"
        device = self.drawn_with(row)
        if row - devices >= 2 * len(self.plan.lanes):
            return f"the network lane of device {device}"
        return f"the lane of device {device} {'from' if (row - devices) % 2 else 'to'} host memory"

    def drawn_with(self, row: int) -> int:
        """Return the device or unit below which a row is drawn."""
        lane, transfers = row - self.problem.devices, 2 * len(self.plan.lanes)
        return row if lane < 0 else lane // 2 if lane < transfers else lane - transfers

    def why_fixed(self, task: int) -> str:
        """Say why a task cannot be moved at all; empty if it can."""
        kind = self.plan.index.op(task).kind
        if kind in NETWORK_KINDS:
            return f"{self.name(task)} is moved by the network; only what devices run can be moved"
        if ALL_KINDS[kind].is_transfer:
            return f"{self.name(task)} is a transfer; only what devices run can be moved"
        return ""

    def narrowed(self, task: int, limits: PlaceLimits) -> PlaceLimits:
        """Leave out where programs of lanes refuse the task, and what lies behind that."""
        if not self.plan.network or len(self.tasks.durations) > LIVE:
            return limits
        row = self.tasks.machine[task]
        position = self.tasks.orders[row].index(task)
        walk = self._walked if self.problem.sharding.divides(WEIGHTS) else self._furthest
        return limits._replace(first=walk(row, position, limits.first), last=walk(row, position, limits.last))

    def _walked(self, row: int, position: int, to: int) -> int:
        """Return the last position before the first that is refused, on the way to another one."""
        step = 1 if to > position else -1
        most = max(MOST_TRIED // len(self.tasks.durations), 1)  # behind a refused position there may be others
        ways = range(position, to + step, step)[1 : 1 + most]
        refused = (at for at in ways if not self._may_move(self.reordered, row, position, at))
        return next(refused, [position, *ways][-1] + step) - step

    def _furthest(self, row: int, position: int, to: int) -> int:
        """Return the same where a longer move than a refused one is refused too."""
        for make in (self._moved, self.reordered):  # that times it too, which takes longer: some orders deadlock
            opened, shut, at = position, to + (1 if to > position else -1), to
            while abs(shut - opened) > 1:
                if self._may_move(make, row, position, at):
                    opened = at
                else:
                    shut = at
                at = (opened + shut) // 2
            to = opened
        return to

    def _may_move(self, make: Callable[[int, Sequence[int]], object], row: int, position: int, to: int) -> bool:
        try:
            make(row, moved(self.plan.orders[row], position, to))
        except InvalidSchedule:
            return False
        return True

    def _moved(self, row: int, order: Sequence[int]) -> Plan:
        """Return the plan with another order of a row. Raises InvalidSchedule, also where a lane's program changes."""
        plan = moved_plan(self.schedule, row, order)
        if plan.network and self.problem.sharding.divides(WEIGHTS):
            for old, new in zip(self.plan.network[row], plan.network[row], strict=True):
                if old != new:
                    lane, op = f"the program of network lane {row}", self.plan.index.op(new.number)
                    raise InvalidSchedule(f"it would change {lane}: {op} stands behind a slot that would move")
        return plan

    def reordered(self, row: int, order: Sequence[int]) -> PipelineBoard:
        """Return the board with another order of one row, at its earliest times. Raises InvalidSchedule."""
        board = PipelineBoard(self.problem, self._moved(row, order), self.fixed)
        _ = board.schedule
        return board

    def gap_words(self, gap: Gap) -> str:
        return gap_words(idle_gap(self.schedule, self.tasks, gap), self.problem.time_unit)

    def through(self, chain: Sequence[int]) -> str:
        """Say over which stages a result comes, or which operations lie between."""
        ops = [self.plan.index.op(task) for task in chain]
        if len({op.microbatch for op in ops}) == 1 and not any(task in self.plan.pairs for task in chain):
            stages = [op.stage for op in ops[1:-1]] or [ops[0].stage]
            least, most = min(stages), max(stages)
            return f" through stages {least}-{most}" if least < most else f" through stage {least}" * (len(ops) != 2)
        between = [self.name(task) for task in chain[1:-1]]
        if len(between) > MOST_THROUGH:
            between = [*between[:2], "..", between[-1]]
        return f" through {', '.join(between)}" if between else ""

    def what_costs_do(self, task: int) -> str:
        """Say what a change of the cost of a task does to the makespan; of many operations, and late ones, nothing."""
        if self.is_late or self.missing or sum(map(len, self.plan.orders)) > MOST_SENSITIVE:
            return ""
        index = self.plan.index
        stage, kind = row_of_step(index, task)
        if task in self.plan.pairs and self.problem.costs.overlap is not None:
            kind = OVERLAP
        for row in self.sensitive:
            if (row.stage, row.kind) == (stage, kind):
                what = kind if kind == OVERLAP else ALL_KINDS[kind].name
                what += f" of {'item' if kind in SIDE_KINDS else 'stage'} {row.stage}"
                return f"{what}: a unit less gains {row.faster}, a unit more costs {row.slower}"
        return ""

    @cached_property
    def sensitive(self) -> Sequence[Sensitivity]:
        """What one tick more or less of each cost does."""
        return sensitivities(self.schedule, self.tasks, self.tasks.critical_path)[0]

    def number(self, ticks: int) -> str:
        return number(in_units(ticks, self.problem.ticks.per_unit))

    def emptied(self) -> PipelineBoard:
        """Return the board of the same tasks with none in an order."""
        bare = replace(self.plan, orders=[[] for _ in self.plan.orders], note="", waits=(), lanes=())
        return PipelineBoard(self.problem, bare, self.fixed)

    def homes(self, task: int) -> Sequence[int]:
        """Return the device of a slot: where the plan that the board was made of has it."""
        return [self.fixed.home[task]] if task in self.fixed.home else []

    def home_name(self, task: int) -> str:
        """Name where a task may run in a word of at most four letters, where that is possible: `d3`, `mul`."""
        return f"d{self.fixed.home[task]}"

    def why_not_on(self, task: int, row: int) -> str:
        return f"{self.name(task)} runs on device {self.fixed.home[task]}, where its stage is"

    def likely_after(self, task: int) -> int:
        """Return what is often placed behind a task: the same of the next microbatch; NOTHING if nothing is."""
        index = self.plan.index
        op, last = index.op(task), index.slices - 1
        parts = range(last + 1) if op.kind == "F" else range(last, -1, -1)  # of a microbatch, as they run
        if op.slice != parts[-1]:
            return index.number(op._replace(slice=parts[parts.index(op.slice) + 1]))
        following = op._replace(microbatch=op.microbatch + 1, slice=parts[0])
        return NOTHING if following.microbatch >= index.microbatches else index.number(following)

    def code(self) -> str:
        """Return the placed orders as code: `plan(problem, [["0F0", ..], ..])`."""
        rows = ", ".join("[" + ", ".join(f'"{slot}"' for slot in self.plan.slots(device)) + "]"
                         for device in range(self.problem.devices))  # fmt: skip
        return f"plan(problem, [{rows}])"

    def save(self, path: str, name: str, *, force: bool) -> str:
        """Write a file in the format of its suffix, check it, and say so. Raises ConfigError and InvalidSchedule."""
        form = format_for(path, SCHEDULE)
        target = Path(path).expanduser()
        refuse_existing(target, force)
        content = content_of(Outcome(name, checked(self.schedule)), form, SCHEDULE)
        write_file(target, [content], force)
        if form.name != "json":
            return f"saved {path}: checked, every rule holds"
        back = read(target)
        wrong = [*violations(back.schedule)] if isinstance(back, Outcome) else ["another kind of document"]
        if not isinstance(back, Outcome) or wrong or back.schedule.makespan != self.schedule.makespan:
            raise InvalidSchedule(f"{path} does not hold what was written: {(wrong or ['another makespan'])[0]}")
        return f"saved {path}: read back and checked, every rule holds"


def board_of(outcome: Outcome) -> PipelineBoard:
    """Return the board of a schedule, with its times."""
    schedule = outcome.schedule
    tasks = timed_tasks(schedule)
    bound, orders = outcome.bound.ticks, schedule.plan.orders
    fixed = Fixed(tasks.inputs, tasks.waits, users_of(tasks), bound, orders, schedule.lengths)
    return PipelineBoard(schedule.problem, schedule.plan, fixed, schedule)


DEFAULTS = ("naive", "1f1b", "interleaved")  # a key of the empty mode each
Make = Callable[[str | None, Mapping[str, str]], Outcome]


class PipelinePlanner:
    """Plans pipelines; `make` makes a schedule by the name of an algorithm, with texts of parameters.

    `state` is the problem that these texts change: algorithms of one stage a device run it fused.
    """

    presets = DEFAULTS

    def __init__(self, make: Make, state: Callable[[Mapping[str, str]], Problem] | None = None) -> None:
        self._make, self._state = make, state
        self._stated: tuple[Mapping[str, str], Problem] | None = None

    def choices(self) -> Sequence[Choice]:
        return [Choice(family.name, family.needs) for family in algorithms()]

    def _problem(self, board: object, parameters: Mapping[str, str]) -> Problem:
        """Return the problem before an algorithm fuses its stages."""
        if self._state is None:
            assert isinstance(board, PipelineBoard)
            return board.problem
        if self._stated is None or self._stated[0] != parameters:
            self._stated = ({**parameters}, self._state(parameters))
        return self._stated[1]

    def fields(self, board: object, parameters: Mapping[str, str]) -> Sequence[FormField]:
        """Return the parameters of a board, which texts of `parameters` led to."""
        problem = self._problem(board, parameters)
        costs, memory = problem.costs, problem.memory
        labels = {"backward_input": "backward for input", "backward_weight": "backward for weights"}
        fields = [
            FormField("microbatches", "microbatches", str(problem.batches)),
            FormField("stages", "stages", str(problem.stages)),
            FormField("budget", "memory budget", "" if memory.budget is None else _text(memory.budget)),
        ]
        backward = [(key, labels.get(key, key)) for key in costs.given_backward]
        times = [("p2p", "p2p"), ("forward", "forward"), *(backward if problem.mode != FORWARD_ONLY else ())]
        columns = {key: getattr(costs, key) for key, _ in times}
        alike = [(key, label) for key, label in times if not any(isinstance(entry, tuple) for entry in columns[key])]
        return fields + [FormField(key, label, _text(columns[key]) or "0") for key, label in alike]

    def plan(self, algorithm: str | None, parameters: Mapping[str, str]) -> Planned:
        outcome = self._make(algorithm, parameters)
        return Planned(board_of(outcome), outcome.algorithm)

    def solve(self, board: object, stop: Event, tell: Tell) -> Planned:
        """Search from the schedule as it stands, for the same placement, until proved, stopped or 60 s over.

        It may split backwards, recompute and offload where the schedule does, but overlaps nothing. The note says what
        is proved, or what is not; where nothing is shorter the board is the same. Raises NoSchedule.
        """
        assert isinstance(board, PipelineBoard)
        plan, costs = board.plan, board.problem.costs
        split = costs.split or "I" in plan.index.letters  # where the costs or the schedule have split backwards
        problem = replace(board.problem, costs=replace(costs, split=split))

        def listener(found: Found) -> None:
            unit = problem.ticks.per_unit
            best = "" if found.value is None else f", best {board.number(round(found.value * unit))}"
            tell(f"solving: {found.step}{best}, bound {board.number(round(found.bound * unit))}")

        allowed = MemorySavings.of(plan.index.letters)._asdict()
        can_begin = not board.missing and board.schedule.fits and not (plan.pairs and any(allowed.values()))
        hint = board.schedule if can_begin else None
        outcome = solve(
            problem, time_limit=SECONDS, stop=stop, listener=listener, hint=hint, advice=False, cuts=1, **allowed
        )
        return _shorter(board, board_of(outcome), outcome.bound.ticks)

    def best_move(self, board: object, stop: Event) -> tuple[int, int] | None:
        """Return the task and the position of the move that shortens a schedule most, if one does. Raises TimeIsUp."""
        assert isinstance(board, PipelineBoard)
        with deadline(Clock(stop=stop)):
            moves, _ = best_moves(board.schedule, board.tasks)
        return (board.plan.orders[moves[0].device][moves[0].start], moves[0].to) if moves else None


def _shorter(before: PipelineBoard, found: PipelineBoard, bound: int) -> Planned:
    """Return the found board if it is shorter, or else the one before; and what the bound says of its makespan."""
    makespan, best = before.amounts.makespan, found.amounts.makespan
    keeps = not before.missing and best >= makespan
    problem = found.problem
    backward = f"{'split' if problem.costs.split else 'whole'} backward" + ", no overlap" * bool(before.plan.pairs)
    if problem.mode == FORWARD_ONLY:
        backward = "forwards alone"
    place = placement_name(problem.settled_placement, problem.devices)
    value = makespan if keeps else best
    if bound >= value:
        cut = ", this cut" * (problem.layers is not None or problem.cutter is not None)
        note = f"proved for placement {place}{cut}, {backward}"
    else:
        note = f"{backward}, at most {(value - bound) / bound:.1%} from the best"
    if keeps and before.amounts.over:
        note = f"within the budget {found.number(best)}; {note}"
    return Planned(before if keeps else found, "solve", note)


def _text(values: Sequence[object]) -> str:
    texts = [f"{float(plain(to_fraction(value))):.10g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else ",".join(texts)
