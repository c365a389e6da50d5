"""One schedule under edit: the board as it stands, what is undone and redone, and what is selected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pipesched.core.reasons import NOTHING
from pipesched.explore.board import Board, first_task
from pipesched.explore.selection_moves import Pause

MOST_STEPS = 1_000  # that can be undone


class Version(NamedTuple):
    """A schedule between two edits.

    `algorithm` and `parameters` are what made it, `base` its makespan as loaded or planned, `edits` how many edits it
    has since then, `number` tells versions apart.
    """

    board: Board
    algorithm: str
    parameters: tuple[tuple[str, str], ...]
    base: int
    edits: int
    number: int


class EditStep(NamedTuple):
    """A version to go back to, what was selected in it, and what left it: `3B2 to position 4`."""

    version: Version
    selected: str
    said: str


@dataclass
class EditHistory:
    """A schedule with its history. `saved` is the number of the version that a file holds, or that was loaded."""

    version: Version
    name: str = ""
    selected: int = NOTHING
    pause: Pause | None = None
    saved: int = 0
    undone: list[EditStep] = field(default_factory=list)
    done: list[EditStep] = field(default_factory=list)
    last_number: int = 0

    @property
    def board(self) -> Board:
        """The board as it stands."""
        return self.version.board

    @property
    def is_unsaved(self) -> bool:
        """Whether an edit is in no file."""
        return self.version.number != self.saved

    @property
    def selected_name(self) -> str:
        """The text of the selected task; empty if there is none."""
        return self.board.name(self.selected) if self.selected != NOTHING else ""

    def settle(self, name: str = "") -> None:
        """Select the task of that name, or the first one."""
        found = self.board.find(name) if name else None
        self.selected = first_task(self.board) if found is None else found
        self.pause = None

    def put(self, version: Version, said: str, *, select: str = "", in_place: bool = False) -> None:
        """Take a version as the present one, which `said` led to; `in_place` of the one before, as the same step."""
        self.last_number += 1
        if not in_place:
            self.done.append(EditStep(_light(self.version), self.selected_name, said))
            del self.done[:-MOST_STEPS]
        self.undone.clear()
        self.version = version._replace(number=self.last_number)
        self.settle(select)

    def undo(self) -> str | None:
        """Go back one step; return what was undone, None if there is nothing."""
        return self._go(self.done, self.undone)

    def redo(self) -> str | None:
        """Do again what was undone; return what, None if there is nothing."""
        return self._go(self.undone, self.done)

    def _go(self, back: list[EditStep], forth: list[EditStep]) -> str | None:
        if not back:
            return None
        step = back.pop()
        forth.append(EditStep(_light(self.version), self.selected_name, step.said))
        self.version = step.version
        self.settle(step.selected)
        return step.said

    def copy(self, name: str) -> EditHistory:
        """Return a sheet of the same version, without its history."""
        kept = EditHistory(_light(self.version), name, saved=self.saved, last_number=self.last_number)
        kept.settle(self.selected_name)
        return kept


def _light(version: Version) -> Version:
    return version._replace(board=version.board.light())


def loaded(board: Board, algorithm: str, parameters: tuple[tuple[str, str], ...] = ()) -> Version:
    """Return the version of a board as it was loaded or planned."""
    return Version(board, algorithm, parameters, board.amounts.makespan, 0, 0)


def edited(version: Version, board: Board) -> Version:
    """Return the version after one more edit."""
    return version._replace(board=board, edits=version.edits + 1)
