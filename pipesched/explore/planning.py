"""What plans anew: another algorithm, other parameters, a solve, or the best move. The app calls it in a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Event
from typing import NamedTuple, Protocol

from pipesched.core.clock import Clock, under
from pipesched.explore.board import Board
from pipesched.explore.pipeline_board import PipelineBoard, board_of
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.placement import placement_name
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain, to_fraction
from pipesched.pipeline.units import FORWARD_ONLY
from pipesched.results.outcome import Outcome
from pipesched.results.timed_moves import best_moves
from pipesched.schedulers.registry import algorithms
from pipesched.solver.search import Event as Found
from pipesched.solver.solve import solve

DEFAULTS = ("naive", "1f1b", "interleaved")  # a key of the empty mode each
SECONDS = 60.0  # of a solve, unless it is stopped
Tell = Callable[[str], None]
Make = Callable[[str | None, Mapping[str, str]], Outcome]


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
    """A task to another position of its row."""

    task: int
    position: int


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
        """Return the best schedule that a search finds until it is stopped, or the same board if none is shorter.

        The note says what is proved, or what is not. Raises NoSchedule.
        """

    def best_move(self, board: Board, stop: Event) -> Move | None:
        """Return the move of one task that shortens a schedule most, if there is one. Raises TimeIsUp."""


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
            assert isinstance(board, PipelineBoard)
            return board.problem
        if self._stated is None or self._stated[0] != parameters:
            self._stated = ({**parameters}, self._state(parameters))
        return self._stated[1]

    def fields(self, board: Board, parameters: Mapping[str, str]) -> Sequence[FormField]:
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

    def solve(self, board: Board, stop: Event, tell: Tell) -> Planned:
        """Search from the schedule as it stands, for the same placement, until proved, stopped or 60 s over.

        It may split backwards, recompute and offload where the schedule does, but overlaps nothing.
        """
        assert isinstance(board, PipelineBoard)
        plan, costs = board.plan, board.problem.costs
        split = costs.split or "I" in plan.index.letters  # where the costs or the schedule have split backwards
        problem = replace(board.problem, costs=replace(costs, split=split))

        def listener(found: Found) -> None:
            unit = problem.ticks.per_unit
            best = "" if found.value is None else f", best {board.number(round(found.value * unit))}"
            tell(f"solving: {found.step}{best}, bound {board.number(round(found.bound * unit))}")

        allowed = Allowed.of(plan.index.letters)._asdict()
        can_begin = not board.missing and board.schedule.fits and not (plan.pairs and any(allowed.values()))
        hint = board.schedule if can_begin else None
        outcome = solve(
            problem, time_limit=SECONDS, stop=stop, listener=listener, hint=hint, advice=False, cuts=1, **allowed
        )
        return _shorter(board, board_of(outcome), outcome.bound.ticks)

    def best_move(self, board: Board, stop: Event) -> Move | None:
        assert isinstance(board, PipelineBoard)
        with under(Clock(stop=stop)):
            moves, _ = best_moves(board.schedule, board.tasks)
        return Move(board.plan.orders[moves[0].device][moves[0].start], moves[0].to) if moves else None


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
    """Return one number for all, or a list."""
    texts = [f"{float(plain(to_fraction(value))):.10g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else ",".join(texts)
