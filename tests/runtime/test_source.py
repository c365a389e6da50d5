"""What a runtime is given as its schedule, without PyTorch: which document breaks a rule, and which cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, InvalidSchedule
from pipesched.documents.schedule import document
from pipesched.runtime.program import checked_schedule


def content() -> dict[str, Any]:
    """The document of a small schedule."""
    made = document(pipesched.run(pipesched.make_problem(devices=2, microbatches=2), "1f1b"))
    plain: dict[str, Any] = json.loads(json.dumps(made))
    return plain


def twice(made: dict[str, Any]) -> None:
    """Let an operation stand twice."""
    made["devices"][0].append(made["devices"][0][0])


def out_of_range(made: dict[str, Any]) -> None:
    """Name a microbatch that there is none of."""
    made["devices"][0][0]["op"] = "0F2"


def waiting_for_nothing(made: dict[str, Any]) -> None:
    """Let an operation wait for one that the plan does not have."""
    made["waits"] = [["0L1", "0B1"]]


def without_an_operation(made: dict[str, Any]) -> None:
    """Leave the last operation out."""
    made["devices"][0].pop()


@pytest.mark.parametrize("spoil", [twice, out_of_range, waiting_for_nothing, without_an_operation])
def test_an_operation_that_cannot_be_is_an_invalid_schedule(spoil: Callable[[dict[str, Any]], None]) -> None:
    """A document whose plan breaks a rule is refused as one, by the name of the operation."""
    made = content()
    spoil(made)
    with pytest.raises(InvalidSchedule, match=r"\b[01][FBL][012]\b"):
        checked_schedule(made)


@pytest.mark.parametrize(
    "source", ['{"format": "pipesched.schedule", "format": "x"}', {"format": "pipesched.schedule"}, 5, "{"]
)
def test_what_is_no_document_is_a_bad_argument(source: object) -> None:
    """What cannot be read is about the parameter that it was given as, also where a key of JSON stands twice."""
    with pytest.raises(ConfigError) as caught:
        checked_schedule(source, "schedule")
    assert (type(caught.value), caught.value.key) == (ConfigError, "schedule")


def test_slices_and_forwards_alone_are_not_trained() -> None:
    """One sentence about the schedule, by each way in."""
    for given, algorithm, message in (
        ({"slices": 2}, "seq-1f1b", "has 2 slices a microbatch; training runs whole microbatches"),
        ({"mode": "forward"}, "naive", "is of forwards alone (`mode` forward); training runs backwards too"),
    ):
        problem = pipesched.make_problem(devices=2, microbatches=2, **given)
        outcome = pipesched.run(problem, algorithm)
        for source, own in ((outcome, None), (outcome.schedule, None), (document(outcome), None), (algorithm, problem)):
            with pytest.raises(ConfigError) as caught:
                checked_schedule(source, "schedule", own)
            assert (caught.value.key, caught.value.message) == ("schedule", message)


def test_sizes_and_one_slice_are_trained() -> None:
    """Microbatches that differ, and overhead of a microbatch as one slice, are times alone."""
    problem = pipesched.make_problem(
        devices=2, microbatches=2, sizes={"work": [1, 2]}, slices={"count": 1, "overhead": 1}
    )
    outcome = pipesched.run(problem, "1f1b")
    assert checked_schedule(json.loads(json.dumps(document(outcome)))).plan.orders == outcome.schedule.plan.orders


@pytest.mark.usefixtures("no_own_families")
def test_a_function_of_a_user_is_a_source() -> None:
    """By itself and by its name, beside a problem, which it needs."""

    def mine(problem: pipesched.Problem) -> pipesched.Plan:
        return pipesched.run(problem, "1f1b").schedule.plan

    problem = pipesched.make_problem(devices=2, microbatches=2)
    pipesched.family("mine", mine)
    assert checked_schedule(mine, problem=problem).makespan == checked_schedule("mine", problem=problem).makespan == 9
    with pytest.raises(ConfigError, match="problem: is missing: what mine schedules"):
        checked_schedule("mine")
