"""Microbatches that differ, slices and forward passes in the formats of others: CSV of PyTorch, traces of Chrome."""

from __future__ import annotations

from typing import Any

import pytest

import pipesched
from pipesched.errors import Inexpressible
from pipesched.file_formats.chrome_trace import document
from pipesched.file_formats.pytorch_csv import dump, parse
from pipesched.results.trainers import verdicts
from tests.strategies import texts_of

UNEQUAL: dict[str, Any] = {"devices": 2, "microbatches": 3, "sizes": {"work": [3, 1, 2]}}


def test_csv_of_microbatches_that_differ() -> None:
    """As ever: PyTorch's file is an order without costs; nothing is to be said where it has the config's numbers."""
    text = dump(pipesched.run(pipesched.make_problem(**UNEQUAL), "1f1b").schedule)
    assert text == "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"
    assert text.note == ""


def test_csv_of_an_order() -> None:
    """PyTorch numbers losses by position: the file does too, and a note says which microbatches to feed it."""
    text = dump(pipesched.run(pipesched.make_problem(**UNEQUAL), "1f1b", order=[1, 2, 0]).schedule)
    assert text == "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"
    assert text.note == "numbers microbatches as PyTorch runs them, by position: feed it 1, 2, 0, in this order"
    assert texts_of(parse(text, "x.csv").plan)[1] == ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"slices": 2}, "runs whole microbatches, and this schedule cuts each into 2 slices"),
        ({"mode": "forward"}, "trains, and this schedule has forward passes alone"),
        ({"mode": "forward", "slices": 2}, "trains, and this schedule has forward passes alone"),
    ],
)
def test_what_no_trainer_runs(given: dict[str, Any], said: str) -> None:
    """Slices and forward passes are refused by PyTorch, and by each framework, with the reason."""
    outcome = pipesched.run(pipesched.make_problem(devices=2, microbatches=3, **given), "naive")
    with pytest.raises(Inexpressible, match=f"^PyTorch {said}$"):
        dump(outcome.schedule)
    found = {verdict.trainer: verdict for verdict in verdicts(outcome)}
    assert not any(verdict.takes for verdict in found.values())
    for trainer in found.keys() - ({"zero-bubble"} if given == {"slices": 2} else set()):
        assert said in found[trainer].note


def test_trace_of_slices() -> None:
    """Names have the slice, and arguments the microbatch and the slice; without slices there is no such argument."""
    outcome = pipesched.run(pipesched.make_problem(devices=2, microbatches=1, slices=2), "seq-1f1b")
    events = [event for event in document(outcome)["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in events if event["tid"] == 1] == ["0F0.0", "0F0.1", "0B0.1", "0B0.0"]
    second = next(event for event in events if event["name"] == "0F0.1")
    assert second["args"] == {"op": "0F0.1", "kind": "F", "stage": 0, "microbatch": 0, "slice": 1}
    whole = pipesched.run(pipesched.make_problem(devices=2, microbatches=1), "1f1b")
    assert not any("slice" in event["args"] for event in document(whole)["traceEvents"] if event["ph"] == "X")


def test_trace_of_a_pair_of_slices() -> None:
    """A pair has the slice of each part, and its arrows those between stages alone."""
    problem = pipesched.make_problem(devices=1, microbatches=2, slices=2)
    rows = [["0F0.0", "0F0.1", "(0F1.0;0B0.1)OVERLAP_F_B", "0F1.1", "0B0.0", "0B1.1", "0B1.0"]]
    outcome = pipesched.Outcome("mine", pipesched.schedule_plan(problem, pipesched.plan(problem, rows)))
    (pair,) = [event for event in document(outcome)["traceEvents"] if "OVERLAP" in event["name"]]
    assert pair["args"] == {
        "op": "(0F1.0;0B0.1)OVERLAP_F_B", "kind": "F&B", "stage": 0, "microbatch": 1, "slice": 0,
        "backward_stage": 0, "backward_microbatch": 0, "backward_slice": 1,
    }  # fmt: skip
