"""What a person does to schedules: select, move, undo, plan anew, keep, save. No terminal, no drawing.

`State` is where one begins: keys, mouse and dialogs of `app/` call its methods; `KEYS` says which. In the empty mode
`Unplaced` stands beside it: a pool of operations, placed one by one on devices or units without work.
Every function that cannot do what is asked says why in `message` and leaves all else as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from pipesched.core.reasons import NOTHING, moved
from pipesched.errors import ConfigError, InvalidSchedule, NoSchedule
from pipesched.explore.board import LIVE, FormField, PlaceLimits, Planned
from pipesched.explore.pipeline_board import PipelinePlanner
from pipesched.explore.sheet import (
    Board,
    EditHistory,
    Version,
    across,
    change,
    edited,
    legal,
    loaded,
    next_pause,
    pause_reasons,
    place_of,
    refusal,
)
from pipesched.explore.unit_board import UnitPlanner

ALGORITHM = "algorithm"  # the name of the line beside the chart that is no parameter
MOST_NAMED = 4  # algorithms, where a name is not known
AT_ONCE = 3_000  # tasks up to which idle time is explained at every key


class State:
    """The schedules under edit, and what is shown of them. `sheet` is the one that keys act on."""

    def __init__(self, version: Version, planner: PipelinePlanner | UnitPlanner) -> None:
        self.planner = planner
        self.sheets = [EditHistory(version)]
        self.sheets[0].settle("0F0")
        self.current = 0
        self.shown: set[str] = set()
        self.message = "late times of the file stay until the first edit" if version.board.is_late else ""
        self._limits: tuple[Board, int, PlaceLimits] | None = None

    @property
    def sheet(self) -> EditHistory:
        return self.sheets[self.current]

    @property
    def board(self) -> Board:
        return self.sheet.board

    @property
    def selected(self) -> int:
        return self.sheet.selected

    @property
    def is_live(self) -> bool:
        """Whether the board is small enough to time it at every key."""
        return len(self.board.tasks.durations) <= LIVE

    @property
    def is_unsaved(self) -> bool:
        return any(sheet.is_unsaved for sheet in self.sheets)

    @property
    def limits(self) -> PlaceLimits | None:
        """Where the selected task may stand; None for none, and for one that cannot be moved."""
        task = self.selected
        if task == NOTHING or self.board.why_fixed(task):
            return None
        if self._limits is None or self._limits[0] is not self.board or self._limits[1] != task:
            self._limits = (self.board, task, legal(self.board, task))
        return self._limits[2]

    @property
    def fields(self) -> Sequence[FormField]:
        return self.planner.fields(self.board, dict(self.sheet.version.parameters))

    # What is selected

    def select(self, task: int) -> None:
        if task != NOTHING:
            self.sheet.selected, self.sheet.pause = task, None

    def step(self, along_row: int = 0, rows: int = 0) -> None:
        """Select a neighbour: in the row, or the nearest in time on the next one."""
        if self.selected == NOTHING:
            return
        if along_row:
            row, position = place_of(self.board, self.selected)
            order = self.board.tasks.orders[row]
            self.select(order[min(max(position + along_row, 0), len(order) - 1)])
        if rows:
            self.select(across(self.board, self.selected, rows))

    def jump(self, text: str) -> bool:
        """Select the task of a text; return whether there is one."""
        found = self.board.find(text)
        if found is None:
            example = self.sheet.selected_name or "3B7"
            return self.say(f"{text.strip() or 'nothing'} does not run here; one looks like {example}")
        self.select(found)
        return self.say("", done=True)

    def go_to_gap(self, steps: int, *, by_size: bool = False) -> None:
        """Select what stands behind the next idle time, or the previous, of all rows; `by_size` the next smaller."""
        if self.selected == NOTHING:
            return
        sheet, board = self.sheet, self.board
        found = next_pause(board, self.selected, sheet.pause, steps, sized=by_size)
        if found is None:
            ways = ("smaller", "larger") if by_size else ("further", "earlier")
            self.message = f"no {ways[steps < 0]} gap"
            return
        sheet.selected, sheet.pause = found.task, found
        when = f"{board.number(found.start)} to {board.number(found.end)}"
        self.message = f"gap of {board.number(found.length)} on {board.row_name(found.row)}, {when}"
        if not board.missing and len(board.tasks.durations) <= AT_ONCE:
            classes, words = pause_reasons(board, found)
            is_behind = board.tasks.starts[found.task] < found.start  # then no line of details says why
            self.message += f": {classes}" + (f"; {words}" if is_behind else "")

    # Edits

    def move_by(self, steps: int) -> bool:
        """Move the selected task so many positions; return whether it did."""
        if self.selected == NOTHING:
            return self.say("nothing is selected")
        return self.move_to(place_of(self.board, self.selected).position + steps)

    def move_to(self, position: int) -> bool:
        """Take the selected task out of its row and put it back at a position; return whether it did."""
        task, board = self.selected, self.board
        if task == NOTHING:
            return self.say("nothing is selected")
        start, after = place_of(board, task).position, self._tried(position)
        if isinstance(after, str):
            return self.say(after)
        said = f"{board.name(task)} from position {start} to {position}"
        late = "; the late times of the file are gone, all is as early as it can be" if board.is_late else ""
        over = [name for name in after.amounts.over if name not in board.amounts.over]
        budget = f"; over budget now on {', '.join(over)}" if over else ""
        self.sheet.put(edited(self.sheet.version, after), said, select=board.name(task))
        gain = change(after, after.amounts.makespan - board.amounts.makespan)
        self.message = f"{said}: makespan {after.number(after.amounts.makespan)} ({gain}){budget}{late}"
        return True

    def preview(self, position: int) -> str:
        """Say what moving the selected task to a position would do, or why it may not stand there."""
        task, board = self.selected, self.board
        if task == NOTHING:
            return ""
        after = self._tried(position, timed=self.is_live)
        if isinstance(after, str):
            return after or f"{board.name(task)} stays at position {position}"
        said = f"{board.name(task)} to position {position}"
        gain = change(board, after.amounts.makespan - board.amounts.makespan)
        return f"{said}: makespan {board.number(after.amounts.makespan)} ({gain})" if self.is_live else said

    def _tried(self, position: int, *, timed: bool = True) -> Board | str:
        """Return the board (if `timed`) after a move of the selected task; or why not, empty where it stands there."""
        board, (row, start) = self.board, place_of(self.board, self.selected)
        why = refusal(board, self.selected, position, self.limits)
        if why or position == start:
            return why
        try:
            return board.reordered(row, moved(board.tasks.orders[row], start, position)) if timed else board
        except InvalidSchedule as error:
            return str(error)

    def make_move(self, move: tuple[int, int] | None) -> bool:
        """Make the best move that was found, of a task to a position, or say that there is none."""
        if move is None:
            return self.say("no single move shortens it")
        self.select(move[0])
        return self.move_to(move[1])

    def undo(self) -> bool:
        said = self.sheet.go(self.sheet.done, self.sheet.undone)
        return self.say("nothing to be undone" if said is None else f"undone: {said}", done=said is not None)

    def redo(self) -> bool:
        said = self.sheet.go(self.sheet.undone, self.sheet.done)
        return self.say("nothing to be done again" if said is None else f"done again: {said}", done=said is not None)

    # Plans

    def plan(
        self, algorithm: str | None = None, parameters: Mapping[str, str] | None = None, *, again: bool = False
    ) -> bool:
        """Plan anew, as one step that drops all edits; `again` replaces the step before, of the same dialog."""
        version = self.sheet.version
        given = {**dict(version.parameters), **(parameters or {})}
        try:
            planned: Planned = self.planner.plan(algorithm or version.algorithm, given)
        except (ConfigError, NoSchedule, InvalidSchedule) as error:
            return self.say(str(error))
        if self.board.missing:  # then all of the new plan is to be placed
            planned = Planned(planned.board.emptied(), planned.algorithm, planned.note)
        self.adopt(planned, tuple(given.items()), again=again)
        return True

    def plan_typed(self, name: str, text: str, *, again: bool = False) -> bool:
        """Plan anew with what was typed for a parameter, or for the algorithm; return whether it was understood."""
        if name != ALGORITHM:
            return self.plan(parameters={name: text}, again=again)
        names = {choice.name.lower(): choice.name for choice in self.planner.choices()}
        if text.lower() in names:
            return self.plan(names[text.lower()], again=again)
        beginning = [known for known in names if text and known.startswith(text.lower())]
        nearest = beginning or get_close_matches(text.lower(), names, n=MOST_NAMED)
        hint = f": {', '.join(names[known] for known in nearest[:MOST_NAMED])}" if nearest else "; a lists them"
        return self.say(f"no algorithm {text!r} yet{hint}" if beginning else f"no algorithm {text!r}{hint}")

    def adopt(
        self, planned: Planned, parameters: tuple[tuple[str, str], ...] | None = None, *, again: bool = False
    ) -> None:
        before = self.sheet.done[-1][0] if again else self.sheet.version
        kept = before.parameters if parameters is None else parameters
        after = loaded(planned.board, planned.algorithm, kept)
        self.sheet.put(after, f"planned by {planned.algorithm}", select=self.sheet.selected_name, in_place=again)
        dropped = "; your edits are dropped, u brings them back" if before.edits else ""
        if planned.board.missing:
            self.message = f"{planned.algorithm}: {planned.board.missing} operations to place{dropped}"
            return
        makespan = planned.board.number(planned.board.amounts.makespan)
        found = planned.board.amounts.makespan - before.board.amounts.makespan
        gain = f" ({change(planned.board, found)})" if parameters is None and not before.board.missing else ""
        note = f"; {planned.note}" if planned.note else dropped  # a solve begins from the edits
        self.message = f"{planned.algorithm}: makespan {makespan}{gain}{note}"

    def take_solved(self, planned: Planned) -> None:
        """Take what a solve found, as one step, unless it is what stands here: then nothing shorter was found."""
        board = self.board
        if planned.board is board:
            shortest = board.number(board.amounts.makespan)
            self.message = f"{planned.algorithm}: nothing shorter than {shortest}; {planned.note}"
        else:
            self.adopt(planned)

    # Kept schedules, files

    def keep(self) -> None:
        if self.board.missing:
            self.say("keep it when all operations are placed")
            return
        self.sheets.append(self.sheet.copy())
        self.message = f"kept as {len(self.sheets)}; Tab switches between them"

    def switch(self, steps: int = 1) -> None:
        if len(self.sheets) == 1:
            self.say("c keeps a schedule to compare with; then Tab switches")
            return
        self.current = (self.current + steps) % len(self.sheets)
        self.message = f"schedule {self.current + 1} of {len(self.sheets)}"

    def save(self, path: str, *, force: bool = False) -> bool:
        """Write the schedule to a file, in the format of its suffix, and check it."""
        if self.board.missing:
            return self.say(f"{self.board.missing} operations are not placed yet; only a whole schedule is saved")
        version = self.sheet.version
        name = f"{version.algorithm} (edited)" if version.edits else version.algorithm
        try:
            self.message = self.board.save(path.strip(), name, force=force)
        except (ConfigError, InvalidSchedule) as error:
            return self.say(str(error))
        self.sheet.saved = version.number
        return True

    def say(self, text: str, *, done: bool = False) -> bool:
        """Take a message, as why something is refused unless it is `done`; return whether it is."""
        self.message = text
        return done


MOST_MIRRORED = 2_000  # letters of the line that mirrors the orders as code


class Unplaced:
    """The operations that are not placed yet, beside the state of those that are; Enter places the `chosen` one."""

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
        tasks = self.board.tasks
        return all(tasks.machine[arc.before] != NOTHING for arc in tasks.inputs[task])

    def settle(self) -> None:
        """Choose an operation that is still there: the chosen one, else the first that is ready."""
        waiting = self.waiting
        if self.chosen not in waiting:
            self.chosen = waiting[0] if waiting else NOTHING

    def choose(self, steps: int) -> None:
        waiting = self.waiting
        if waiting:
            place = waiting.index(self.chosen) + steps if self.chosen in waiting else 0
            self.chosen = waiting[min(max(place, 0), len(waiting) - 1)]

    def place(self, row: int | None = None) -> bool:
        """Append the chosen operation to a row that may run it, by default the first free; its inputs come before."""
        task, board, tasks = self.chosen, self.board, self.board.tasks
        if task == NOTHING:
            return self.state.say("all operations are placed")
        homes, name = board.homes(task), board.name(task)
        if row is None:
            row = min(homes, key=lambda home: max((tasks.ends[other] for other in tasks.orders[home]), default=0))
        if row not in homes:
            return self.state.say(board.why_not_on(task, row))
        missing = [arc.before for arc in tasks.inputs[task] if tasks.machine[arc.before] == NOTHING]
        if missing:
            return self.state.say(f"{name} waits for {board.name(missing[0])}, which is not placed yet")
        near = board.likely_after(task)
        after = board.reordered(row, [*tasks.orders[row], task])
        where = board.row_name(row)
        self.state.sheet.put(edited(self.state.sheet.version, after), f"{name} placed on {where}", select=name)
        self.chosen = near
        self.settle()
        return self.state.say(f"{name} on {where}, {after.missing} to place", done=True)

    def take_back(self, row: int | None = None) -> bool:
        """Take the last operation of a row out, by default of the row of the selected one."""
        board, state, orders = self.board, self.state, self.board.tasks.orders
        if row is None:
            row = board.tasks.machine[state.selected] if state.selected != NOTHING else 0
        if not orders[row]:
            return self.state.say(f"{board.row_name(row)} is empty")
        task = orders[row][-1]
        users = [user for user in board.users[task] if board.tasks.machine[user] != NOTHING]
        if users:
            return self.state.say(f"{board.name(users[0])} is placed and waits for {board.name(task)}")
        after = board.reordered(row, orders[row][:-1])
        left = after.tasks.orders[row]
        select = after.name(left[-1]) if left else ""
        said = f"{board.name(task)} taken out of {board.row_name(row)}"
        state.sheet.put(edited(state.sheet.version, after), said, select=select)
        self.chosen = task
        return self.state.say(said, done=True)

    def preset(self, number: int) -> bool:
        """Take a whole schedule: of a pipeline naive, 1f1b or interleaved."""
        state, name = self.state, self.state.planner.presets[number]
        try:
            planned = state.planner.plan(name, dict(state.sheet.version.parameters))
        except (ConfigError, NoSchedule) as error:
            return state.say(str(error))
        board = planned.board
        version = loaded(board, planned.algorithm, state.sheet.version.parameters)
        state.sheet.put(version, f"preset {name}", select=state.sheet.selected_name)
        self.settle()
        makespan = board.number(board.amounts.makespan)
        return state.say(f"{name}: makespan {makespan}; u brings back what you placed", done=True)

    def code(self) -> str:
        """Return what is placed as code, but not more of it than fits into any terminal."""
        text = self.board.code()
        return text if len(text) <= MOST_MIRRORED else f"{text[: MOST_MIRRORED - 2]}.."


class Key(NamedTuple):
    """Keys (as Textual names them), how they are shown, what they do, and where.

    `action` is the name of the app's action; `short` stands in the footer (empty: not there); `mode` is "" for always,
    "whole" or "empty".
    """

    keys: str
    shown: str
    action: str
    text: str
    short: str = ""
    mode: str = ""


KEYS = (
    Key("left,h", "Left h", "step(-1,0)", "the operation before, on the same device"),
    Key("right,l", "Right l", "step(1,0)", "the operation behind"),
    Key("up,k", "Up k", "step(0,-1)", "the nearest in time on the device above"),
    Key("down,j", "Down j", "step(0,1)", "the nearest in time on the device below"),
    Key("left_square_bracket", "[", "gap(-1)", "the gap before: select what stands behind it"),
    Key("right_square_bracket", "]", "gap(1)", "the next gap"),
    Key("left_curly_bracket", "{", "gap_by_size(-1)", "the next larger gap, at first the largest"),
    Key("right_curly_bracket", "}", "gap_by_size(1)", "the next smaller gap, at first the largest"),
    Key("less_than_sign", "<", "move(-1)", "move the operation one position earlier", "<> move"),
    Key("greater_than_sign", ">", "move(1)", "move the operation one position later"),
    Key("u", "u", "undo", "undo", "u undo"),
    Key("ctrl+r", "Ctrl-R", "redo", "redo", "^R redo"),
    Key("x", "x", "best", "make the single move that shortens the schedule most", "x best"),
    Key("slash", "/", "jump", "jump to an operation: 3B7, then Enter", "/ find"),
    Key("w", "w", "why", "why the operation starts when it does, the idle time and the largest gaps", "w why"),
    Key("p", "p", "mark('critical')", "mark the critical path", "p path"),
    Key("d", "d", "mark('inputs')", "mark what the operation waits for (i, I binds), and what waits for it (o)",
        "d deps"),
    Key("m", "m", "mark('memory')", "memory over time", "m mem"),
    Key("plus,equals_sign", "+", "zoom(2)", "zoom in at the selected operation", "+-0 zoom"),
    Key("minus", "-", "zoom(0.5)", "zoom out"),
    Key("0", "0", "zoom_all", "all of the schedule"),
    Key("f", "f", "zoom_selected", "zoom to the selected operation"),
    Key("a", "a", "algorithm", "another algorithm: type to filter, Enter", "a algo"),
    Key("e", "e", "parameters", "parameters: microbatches, stages, budget, p2p, costs; the chart follows at every key",
        "e params"),
    Key("c", "c", "keep", "keep the schedule for comparison", "c keep"),
    Key("tab", "Tab", "switch(1)", "the next kept schedule; with a pool, from chart to pool and back", "Tab next"),
    Key("S", "S", "solve", "solve: search for a better schedule; Esc stops with the best so far", "S solve"),
    Key("s", "s", "save", "save to a file, in the format of its suffix; then it is checked", "s save"),
    Key("enter", "Enter", "place", "place the chosen operation behind the last one of its device",
        "Enter place", "empty"),
    Key("backspace", "Backspace", "take_back", "take the last operation of the selected device out",
        "Bksp out", "empty"),
    Key("1", "1", "preset(0)", "the whole schedule: naive; of hardware none/input", "123 presets", "empty"),
    Key("2", "2", "preset(1)", "the whole schedule: 1f1b; of hardware asap/fifo", "", "empty"),
    Key("3", "3", "preset(2)", "the whole schedule: interleaved; of hardware alap/pairing", "", "empty"),
    Key("question_mark", "?", "keys", "these keys", "? keys"),
    Key("escape", "Esc", "stop", "close a dialog; stop a search; cancel a drag"),
    Key("q", "q", "leave", "leave; asks if something is not saved (y leaves)", "q quit"),
)  # fmt: skip
MOUSE = (
    ("click", "select an operation"),
    ("drag", "move it: it lands before the first other operation whose middle is right of the pointer; legal positions"
     " are lit, and what is refused says why"),
    ("wheel", "pan: through time, or with Shift through devices"),
    ("Ctrl-wheel", "zoom at the pointer"),
    ("drag from the pool", "place an operation on its device (empty mode)"),
)  # fmt: skip
