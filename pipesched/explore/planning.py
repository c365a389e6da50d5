"""What plans anew: another algorithm, other parameters, a solve, or the best move. The app calls it in a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import NamedTuple, Protocol

from pipesched.analysis.reasons.timed_moves import best_moves
from pipesched.core.clock import Clock, under
from pipesched.errors import ConfigError
from pipesched.explore.board import Board
from pipesched.explore.pipeline_board import PipelineBoard, board_of
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain, to_fraction
from pipesched.results.outcome import Outcome
from pipesched.results.status import Status
from pipesched.schedulers.registry import algorithms
from pipesched.solver.search import Event as Found
from pipesched.solver.solve import solve

DEFAULTS = ("naive", "1f1b", "interleaved")  # a key of the empty mode each
SECONDS = 60.0  # of a solve, unless it is stopped


class Choice(NamedTuple):
    """An algorithm, and what to know of it."""

    name: str
    note: str


class FormField(NamedTuple):
    """A parameter: its name, its label, and its value as text."""

    name: str
    label: str
    value: str


class Planned(NamedTuple):
    """A board, the name of what planned it, and what to say of it."""

    board: Board
    algorithm: str
    note: str = ""


class Move(NamedTuple):
    """A task to another position of its row, and the makespan after it, in ticks."""

    task: int
    position: int


Tell = Callable[[str], None]


class Planner(Protocol):
    """What plans the boards of one kind."""

    @property
    def presets(self) -> Sequence[str]:
        """The algorithms that one key of the empty mode plans by."""

    def choices(self) -> Sequence[Choice]:
        """Return the algorithms."""

    def fields(self, board: Board, parameters: Mapping[str, str]) -> Sequence[FormField]:
        """Return the parameters of a board, which texts of `parameters` led to."""

    def plan(self, algorithm: str | None, parameters: Mapping[str, str]) -> Planned:
        """Plan anew. Raises ConfigError and NoSchedule."""

    def solve(self, board: Board, stop: Event, tell: Tell) -> Planned:
        """Return the best schedule that a search finds until it is stopped. Raises NoSchedule."""

    def best_move(self, board: Board, stop: Event) -> Move | None:
        """Return the move of one task that shortens a schedule most, if there is one. Raises TimeIsUp."""


Make = Callable[[str | None, Mapping[str, str]], Outcome]


class PipelinePlanner(Planner):
    """Plans pipelines; `make` makes a schedule by the name of an algorithm, with texts of parameters.

    `state` is the problem that these texts change: algorithms of one stage a device run it fused.
    """

    presets = DEFAULTS

    def __init__(self, make: Make, state: Callable[[Mapping[str, str]], Problem] | None = None) -> None:
        self._make, self._state = make, state
        self._stated: tuple[Mapping[str, str], Problem] | None = None

    def choices(self) -> Sequence[Choice]:
        return [Choice(family.name, family.needs) for family in algorithms()]

    def _problem(self, board: Board, parameters: Mapping[str, str]) -> Problem:
        """Return the problem before an algorithm fuses its stages."""
        if self._state is None:
            return _pipeline(board).problem
        if self._stated is None or self._stated[0] != parameters:
            self._stated = ({**parameters}, self._state(parameters))
        return self._stated[1]

    def fields(self, board: Board, parameters: Mapping[str, str]) -> Sequence[FormField]:
        problem = self._problem(board, parameters)
        costs, memory = problem.costs, problem.memory
        halves = [("backward_input", "backward for input"), ("backward_weight", "backward for weights")]
        fields = [
            FormField("microbatches", "microbatches", str(problem.microbatches)),
            FormField("stages", "stages", str(problem.stages)),
            FormField("budget", "memory budget", "" if memory.budget is None else _text(memory.budget)),
            FormField("p2p", "p2p", _text(costs.p2p) or "0"),
            FormField("forward", "forward", _text(costs.forward)),
        ]
        if costs.split:
            fields += [FormField(key, label, _text(getattr(costs, key))) for key, label in halves]
        else:
            fields.append(FormField("backward", "backward", _text(costs.backward)))
        return fields

    def plan(self, algorithm: str | None, parameters: Mapping[str, str]) -> Planned:
        outcome = self._make(algorithm, parameters)
        return Planned(board_of(outcome), outcome.algorithm)

    def solve(self, board: Board, stop: Event, tell: Tell) -> Planned:
        """Search from the schedule as it stands, for the same placement, until proved, stopped or 60 s over."""
        problem = _pipeline(board).problem

        def listener(found: Found) -> None:
            unit = problem.ticks.per_unit
            best = "" if found.value is None else f", best {board.number(round(found.value * unit))}"
            tell(f"solving: {found.step}{best}, bound {board.number(round(found.bound * unit))}")

        schedule = _pipeline(board).schedule
        hint = schedule if not _pipeline(board).missing and schedule.fits and _plain(problem, board) else None
        outcome = solve(problem, time_limit=SECONDS, stop=stop, listener=listener, hint=hint, advice=False)
        proved = "optimal" if outcome.status == Status.OPTIMAL else f"at most {outcome.gap:.1%} from the best"
        found = board_of(outcome)
        splits = found.plan.index.letters != _pipeline(board).plan.index.letters and "W" in found.plan.index.letters
        return Planned(found, "solve", f", {proved}" + (", by splitting the backward" if splits else ""))

    def best_move(self, board: Board, stop: Event) -> Move | None:
        pipeline = _pipeline(board)
        with under(Clock(stop=stop)):
            moves, _ = best_moves(pipeline.schedule, pipeline.tasks)
        if not moves:
            return None
        best = moves[0]
        return Move(pipeline.plan.orders[best.device][best.start], best.to)


def _plain(problem: Problem, board: Board) -> bool:
    """Return whether a schedule may be the hint of a plain solve, which overlaps and saves nothing."""
    plan = _pipeline(board).plan
    return not plan.pairs and not plan.lanes and set(plan.index.letters) <= set(problem.letters)


def _pipeline(board: Board) -> PipelineBoard:
    if not isinstance(board, PipelineBoard):
        raise ConfigError("only pipelines are planned here")
    return board


def _text(values: Sequence[object]) -> str:
    """Return one number for all, or a list."""
    texts = [f"{float(plain(to_fraction(value))):.10g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else ",".join(texts)
