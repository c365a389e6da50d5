"""The empty mode: devices or units without work, and a pool of operations that are placed one by one."""

from __future__ import annotations

from pipesched.core.reasons import NOTHING
from pipesched.errors import ConfigError, NoSchedule
from pipesched.explore.board import Board
from pipesched.explore.sheet import edited, loaded
from pipesched.explore.state import State

MOST_MIRRORED = 2_000  # letters of the line that mirrors the orders as code


class Unplaced:
    """The operations that are not placed yet, beside the state of those that are.

    `chosen` is the one that Enter places.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.chosen = NOTHING
        self.settle()

    @property
    def board(self) -> Board:
        return self.state.board

    @property
    def waiting(self) -> list[int]:
        """The operations that are not placed, those that are ready first, then by device and number."""
        board, machine = self.board, self.board.tasks.machine
        left = [(board.homes(task), task) for task, row in enumerate(machine) if row == NOTHING]
        listed = sorted((not self.is_ready(task), homes[0], task) for homes, task in left if homes)
        return [task for *_, task in listed]

    def is_ready(self, task: int) -> bool:
        """Return whether all inputs of an operation are placed."""
        tasks = self.board.tasks
        return all(tasks.machine[arc.before] != NOTHING for arc in tasks.inputs[task])

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

    def place(self, row: int | None = None) -> bool:
        """Append the chosen operation to a row, by default of those that may run it the one that is free first.

        Refused on any other row, and before its inputs are placed.
        """
        task, board, tasks = self.chosen, self.board, self.board.tasks
        if task == NOTHING:
            return self._say("all operations are placed", done=False)
        homes, name = board.homes(task), board.name(task)
        if row is None:
            row = min(homes, key=lambda home: max((tasks.ends[other] for other in tasks.orders[home]), default=0))
        if row not in homes:
            return self._say(board.why_not_on(task, row), done=False)
        missing = [arc.before for arc in tasks.inputs[task] if tasks.machine[arc.before] == NOTHING]
        if missing:
            return self._say(f"{name} waits for {board.name(missing[0])}, which is not placed yet", done=False)
        near = board.likely_after(task)
        after = board.reordered(row, [*tasks.orders[row], task])
        where = board.row_name(row)
        self.state.sheet.put(edited(self.state.sheet.version, after), f"{name} placed on {where}", select=name)
        self.chosen = near
        self.settle()
        return self._say(f"{name} on {where}, {after.missing} to place", done=True)

    def take_back(self, row: int | None = None) -> bool:
        """Take the last operation of a row out, by default of the row of the selected one."""
        board, state, orders = self.board, self.state, self.board.tasks.orders
        if row is None:
            row = board.tasks.machine[state.selected] if state.selected != NOTHING else 0
        if not orders[row]:
            return self._say(f"{board.row_name(row)} is empty", done=False)
        task = orders[row][-1]
        users = [user for user in board.users[task] if board.tasks.machine[user] != NOTHING]
        if users:
            return self._say(f"{board.name(users[0])} is placed and waits for {board.name(task)}", done=False)
        after = board.reordered(row, orders[row][:-1])
        left = after.tasks.orders[row]
        select = after.name(left[-1]) if left else ""
        said = f"{board.name(task)} taken out of {board.row_name(row)}"
        state.sheet.put(edited(state.sheet.version, after), said, select=select)
        self.chosen = task
        return self._say(said, done=True)

    def preset(self, number: int) -> bool:
        """Take a whole schedule: of a pipeline naive, 1f1b or interleaved."""
        state, name = self.state, self.state.planner.presets[number]
        try:
            planned = state.planner.plan(name, dict(state.sheet.version.parameters))
        except (ConfigError, NoSchedule) as error:
            return self._say(str(error), done=False)
        board = planned.board
        version = loaded(board, planned.algorithm, state.sheet.version.parameters)
        state.sheet.put(version, f"preset {name}", select=state.sheet.selected_name)
        self.settle()
        makespan = board.number(board.amounts.makespan)
        return self._say(f"{name}: makespan {makespan}; u brings back what you placed", done=True)

    def code(self) -> str:
        """Return what is placed as code, but not more of it than fits into any terminal."""
        text = self.board.code()
        return text if len(text) <= MOST_MIRRORED else f"{text[: MOST_MIRRORED - 2]}.."

    def _say(self, text: str, *, done: bool) -> bool:
        self.state.message = text
        return done
