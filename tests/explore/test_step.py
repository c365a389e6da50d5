"""The editor with steps that have more than passes: lanes are drawn and stay, moves make programs anew or fail."""

from __future__ import annotations

from typing import Any

import pytest

import pipesched
from pipesched.explore.drawing import BoardScreen, Viewport, draw
from pipesched.explore.sheet import legal, refusal
from pipesched.explore.state import State
from tests.explore.conftest import board, state_at
from tests.stepped import SHARDED, SIDE, SMALL, TIED


def state_of(algorithm: str, given: dict[str, Any]) -> State:
    """The schedule of an algorithm, to be edited."""
    return state_at(pipesched.run(pipesched.make_problem(**given), algorithm))


@pytest.mark.parametrize(
    ("algorithm", "given", "shown"),
    [
        ("1f1b", TIED, ["net Uuu", "RrrrrT", "gather weights", "reduce tied gradients", "optimizer"]),
        ("interleaved", SHARDED, ["net UUU", "gather weights", "reduce gradients"]),
        ("1f1b", SIDE, ["Ee", "Gg", "side forward", "side backward"]),
    ],
)
@pytest.mark.parametrize("colour", [False, True])
def test_lines(algorithm: str, given: dict[str, Any], shown: list[str], colour: bool) -> None:
    """A line for each network lane, and the marks of optimizers and side work; colours have the same rows."""
    state = state_of(algorithm, given)
    drawing = draw(state, Viewport(1), BoardScreen(80, 60, colour=colour))
    texts = "\n".join("".join(segment.text for segment in line) for line in drawing.lines)
    assert texts.count("\nnet ") == (0 if given is SIDE else given["devices"])
    squeezed = " ".join(texts.split())
    assert all(text in squeezed for text in (shown[-2:] if colour else shown))


def test_a_move_makes_the_program_anew() -> None:
    """The last weight gradients of a stage exchanged: its reduction stands behind the other one."""
    given = {**TIED, "backward_input": 10, "backward_weight": 10}
    state = state_of("zb-h2", given)
    state.jump("3W7")
    before = dict(board(state).plan.network[3])
    assert state.move_by(-1), state.message
    plan = board(state).plan
    reduction = board(state).find("3REDUCE_GRAD")
    assert reduction is not None
    assert str(plan.index.op(before[reduction])) == "3W7"
    assert str(plan.index.op(dict(plan.network[3])[reduction])) == "3W6"
    assert pipesched.check(board(state).schedule) == []


@pytest.mark.parametrize(
    ("algorithm", "given", "text", "by", "said"),
    [
        ("1f1b", TIED, "0REDUCE_GRAD", -1, "0REDUCE_GRAD is moved by the network; only what devices run can be moved"),
        (
            "interleaved", SHARDED, "0F2", 2,
            "it would change the program of network lane 0: 0RESHARD1 stands behind a slot that would move",
        ),
    ],
)  # fmt: skip
def test_what_stays(algorithm: str, given: dict[str, Any], text: str, by: int, said: str) -> None:
    """What the network moves; and at level weights slots keep the order of their stages."""
    state = state_of(algorithm, given)
    before = board(state).plan.orders
    assert state.jump(text)
    assert not state.move_by(by)
    assert state.message == said
    assert board(state).plan.orders == before


@pytest.mark.parametrize(
    ("algorithm", "given"),
    [
        ("interleaved", {**SHARDED, "stages": 6, "microbatches": 2}),
        ("zb-h1", {**SMALL, "backward_input": 1, "backward_weight": 1}),
    ],
)
def test_offered_positions(algorithm: str, given: dict[str, Any]) -> None:
    """A slot moves to each position that is offered; elsewhere it moves, or is refused with a sentence."""
    state = state_of(algorithm, given)
    one = board(state)
    offered = 0
    for order in one.plan.orders:
        for start, task in enumerate(order):
            limits = legal(one, task)
            offered += limits.last - limits.first
            for to in {*range(len(order))} - {start}:
                state.select(task)
                said = refusal(one, task, to)
                assert not (said and limits.allow(to))
                if is_moved := state.move_to(to):
                    state.undo()
                assert is_moved == (not said), state.message
    assert offered


def test_what_costs_do() -> None:
    """The cost of an operation of the step is named by its stage, of side work by its item; tied gradients have one."""
    tied, side = board(state_of("1f1b", TIED)), board(state_of("1f1b", SIDE))
    texts = [(tied, "3REDUCE_TIED"), (tied, "0OPTIMIZER"), (side, "0E0")]
    found = [one.what_costs_do(task) for one, text in texts if (task := one.find(text)) is not None]
    assert found == [
        "reduce tied gradients of stage 0: a unit less gains 1, a unit more costs 1",
        "optimizer of stage 0: a unit less gains 0, a unit more costs 1",
        "side forward of item 0: a unit less gains 1, a unit more costs 1",
    ]
