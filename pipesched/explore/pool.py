"""The empty mode: devices without work, and a pool of operations that are placed one by one."""

from __future__ import annotations

from pipesched.core.reasons import NOTHING
from pipesched.errors import ConfigError, NoSchedule
from pipesched.explore.pipeline_board import PipelineBoard
from pipesched.explore.planning import PRESETS, PipelinePlanner
from pipesched.explore.sheet import edited, loaded
from pipesched.explore.state import State

MOST_MIRRORED = 2_000  # letters of the line that mirrors the orders as code


class Pool:
    """The operations that are not placed yet, beside the state of those that are.

    `chosen` is the one that Enter places.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.chosen = NOTHING
        self.settle()

    @property
    def board(self) -> PipelineBoard:
        """The board, which is a pipeline's."""
        board = self.state.board
        if not isinstance(board, PipelineBoard):
            raise ConfigError("only operations of a pipeline are placed one by one")
        return board

    @property
    def home(self) -> dict[int, int]:
        """The device of each operation: where the plan that the pool was made of has it."""
        return self.board.fixed.home

    @property
    def waiting(self) -> list[int]:
        """The operations that are not placed, those that are ready first, then by device and number."""
        board = self.board
        left = [task for task in self.home if board.tasks.machine[task] == NOTHING]
        return sorted(left, key=lambda task: (not self.is_ready(task), self.home[task], task))

    def is_ready(self, task: int) -> bool:
        """Return whether all inputs of an operation are placed."""
        machine = self.board.tasks.machine
        return all(machine[arc.before] != NOTHING for arc in self.board.fixed.inputs[task])

    def settle(self) -> None:
        """Choose an operation that is still there: the chosen one, else the first that is ready."""
        waiting = self.waiting
        if self.chosen not in waiting:
            self.chosen = waiting[0] if waiting else NOTHING

    def choose(self, steps: int) -> None:
        """Choose another operation of the pool."""
        waiting = self.waiting
        if waiting:
            place = waiting.index(self.chosen) + steps if self.chosen in waiting else 0
            self.chosen = waiting[min(max(place, 0), len(waiting) - 1)]

    def place(self, device: int | None = None) -> bool:
        """Append the chosen operation to its device; refused on another one, and before its inputs are placed."""
        task, board = self.chosen, self.board
        if task == NOTHING:
            return self._say("all operations are placed", done=False)
        home, name = self.home[task], self.board.name(task)
        if device is not None and device != home:
            return self._say(f"{name} runs on device {home}, where its stage is", done=False)
        missing = [arc.before for arc in board.fixed.inputs[task] if board.tasks.machine[arc.before] == NOTHING]
        if missing:
            return self._say(f"{name} waits for {board.name(missing[0])}, which is not placed yet", done=False)
        near = self._next_after(task)
        after = board.reordered(home, [*board.plan.orders[home], task])
        self.state.sheet.put(edited(self.state.sheet.version, after), f"{name} placed on device {home}", select=name)
        self.chosen = near
        self.settle()
        return self._say(f"{name} on device {home}, {after.missing} to place", done=True)

    def _next_after(self, task: int) -> int:
        """Return the same operation of the next microbatch, if it waits here too: what is placed next, often."""
        index = self.board.plan.index
        op = index.op(task)
        if op.microbatch + 1 >= index.microbatches:
            return NOTHING
        return index.row(op.kind, op.stage)[op.microbatch + 1]

    def take_back(self, device: int | None = None) -> bool:
        """Take the last operation of a device out, by default of the selected one's device."""
        board, state = self.board, self.state
        if device is None:
            device = board.tasks.machine[state.selected] if state.selected != NOTHING else 0
        if not board.plan.orders[device]:
            return self._say(f"device {device} is empty", done=False)
        task = board.plan.orders[device][-1]
        users = [user for user in board.fixed.users[task] if board.tasks.machine[user] != NOTHING]
        if users:
            return self._say(f"{board.name(users[0])} is placed and waits for {board.name(task)}", done=False)
        after = board.reordered(device, board.plan.orders[device][:-1])
        left = after.plan.orders[device]
        select = after.name(left[-1]) if left else ""
        said = f"{board.name(task)} taken out of device {device}"
        state.sheet.put(edited(state.sheet.version, after), said, select=select)
        self.chosen = task
        return self._say(said, done=True)

    def preset(self, number: int) -> bool:
        """Take a whole schedule: naive, 1f1b or interleaved."""
        state, name = self.state, PRESETS[number]
        if not isinstance(state.planner, PipelinePlanner):
            return False
        try:
            planned = state.planner.plan(name, dict(state.sheet.version.parameters))
        except (ConfigError, NoSchedule) as error:
            return self._say(str(error), done=False)
        board = planned.board
        version = loaded(board, planned.algorithm, state.sheet.version.parameters)
        state.sheet.put(version, f"preset {name}", select=state.sheet.selected_name)
        self.settle()
        return self._say(
            f"{name}: makespan {board.number(board.amounts.makespan)}; u brings back what you placed", done=True
        )

    def code(self) -> str:
        """Return the placed orders as code: `plan(problem, [["0F0", ..], ..])`."""
        board = self.board
        rows = ", ".join("[" + ", ".join(f'"{slot}"' for slot in board.plan.slots(device)) + "]"
                         for device in range(board.problem.devices))  # fmt: skip
        text = f"plan(problem, [{rows}])"
        return text if len(text) <= MOST_MIRRORED else f"{text[: MOST_MIRRORED - 2]}.."

    def _say(self, text: str, *, done: bool) -> bool:
        self.state.message = text
        return done
