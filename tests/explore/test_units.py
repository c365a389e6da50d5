"""Hardware schedules under edit."""

from __future__ import annotations

from random import Random
from threading import Event

from hypothesis import given, strategies as st

from pipesched import Deadlock, hls
from pipesched.config.hls import load_hls
from pipesched.core.reasons import moved
from pipesched.explore.sheet import legal, loaded
from pipesched.explore.state import State, Unplaced
from pipesched.explore.unit_board import UnitBoard, UnitPlanner, unit_board
from pipesched.hls.schedule import Units, checked
from tests.examples import examples
from tests.strategies import dataflows, unit_sets

TEXT = "(a+b)*(c+d)+(e+f)*(g+h)"


def state_of(text: str = TEXT) -> State:
    graph, units = load_hls(text)
    outcome = hls.list_outcome(graph, units)
    planner = UnitPlanner(lambda counts: load_hls(text, units=counts), units)
    return State(loaded(unit_board(outcome), outcome.method), planner)


@given(graph=dataflows(most=7), units=unit_sets())
@examples(30)
def test_legal_positions_of_units_are_those_that_can_run(graph: hls.DataflowGraph, units: Units) -> None:
    board = unit_board(hls.list_outcome(graph, units))
    for row, order in enumerate(board.tasks.orders):
        for start, task in enumerate(order):
            limits = legal(board, task)
            for to in range(len(order)):
                try:
                    after = board.reordered(row, moved(order, start, to))
                except Deadlock:
                    assert not limits.allow(to)
                else:
                    assert limits.allow(to)
                    checked(after.schedule)
                    assert not after.is_late


@given(graph=dataflows(most=7), units=unit_sets(), random=st.randoms(use_true_random=False))
@examples(30)
def test_placing_whatever_is_ready_ends_in_a_legal_schedule(
    graph: hls.DataflowGraph, units: Units, random: Random
) -> None:
    """On any unit of the class; registers are those of what is placed, and the line of code makes the same schedule."""
    board = unit_board(hls.list_outcome(graph, units))
    pool = Unplaced(State(loaded(board.emptied(), "alap/pairing"), UnitPlanner(lambda _counts: (graph, units), units)))
    while pool.waiting:
        assert pool.board.missing == len(pool.waiting)
        pool.chosen = random.choice([task for task in pool.waiting if pool.is_ready(task)])
        assert pool.place(random.choice([None, *pool.board.homes(pool.chosen)])), pool.state.message
    assert isinstance(pool.board, UnitBoard)
    assert checked(pool.board.schedule).latency == pool.board.amounts.makespan
    made = eval(pool.code(), {"hls": hls, "graph": graph, "units": units})
    assert made.latency == pool.board.amounts.makespan
    while len(pool.waiting) < len(graph):
        pool.take_back(random.choice([row for row, order in enumerate(pool.board.tasks.orders) if order]))
    assert pool.board.amounts.makespan == 0


def test_the_empty_units_say_what_cannot_be_placed() -> None:
    state = state_of()
    pool = Unplaced(State(loaded(state.board.emptied(), "alap/pairing"), state.planner))
    by_name = {pool.board.name(task): task for task in pool.waiting}
    pool.chosen = by_name["*3"]
    assert not pool.place()
    assert pool.state.message == "*3 waits for +1, which is not placed yet"
    pool.chosen = by_name["+1"]
    assert not pool.place(0)
    assert pool.state.message == "+1 runs on add, not on mul 0"
    assert pool.place()
    assert pool.state.board.amounts.memory == "0 registers"
    assert not pool.state.save("x.json")
    assert "6 operations are not placed yet" in pool.state.message
    assert pool.preset(2)
    assert not pool.board.missing


def test_an_edit_more_units_another_rule_and_a_solve() -> None:
    state = state_of()
    latency = state.board.amounts.makespan
    state.select(state.board.tasks.orders[0][0])
    assert state.move_by(1), state.message
    assert state.save("x.json")
    assert state.board.amounts.makespan > latency
    assert state.make_move(state.planner.best_move(state.board, Event()))
    assert state.board.amounts.makespan == latency
    assert state.planner.best_move(state.board, Event()) is None
    assert state.undo()
    assert state.undo()
    assert state.board.amounts.makespan == latency
    assert state.plan(parameters={"mul": "2"}), state.message
    assert "2 mul" in state.board.amounts.sizes
    assert state.plan("mobility/lifo"), state.message
    assert state.sheet.version.algorithm == "mobility/lifo"
    state.take_solved(state.planner.solve(state.board, Event(), lambda _text: None))
    assert state.board.amounts.makespan == state.board.amounts.bound
    assert state.message.startswith("solve: ")
    assert state.message.endswith("; proved")
    assert not state.plan(parameters={"mul": "many"})
    assert "mul: must be a number of units" in state.message
