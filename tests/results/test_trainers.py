"""Which trainers take a schedule is one question, asked of all alike, and quickly."""

from __future__ import annotations

from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, Entry, Inexpressible, NotApplicable, Outcome
from pipesched.file_formats.pytorch_csv import dump
from pipesched.results.handover.hand_over import FRAMEWORKS
from pipesched.results.trainers import PYTORCH, TRAINERS, families_of, takes, verdicts
from tests.examples import at_night_but

FAMILIES = {one.name: one for one in pipesched.algorithms()}
PROBLEMS: list[dict[str, Any]] = [
    {"devices": 2, "stages": 2, "microbatches": 1},
    {"devices": 4, "stages": 4, "microbatches": 8},
    {"devices": 2, "stages": 4, "microbatches": 6, "backward_input": 5, "backward_weight": 4},
    {"devices": 4, "stages": 8, "microbatches": 6},
    {"devices": 2, "stages": 8, "microbatches": 5},
    {"devices": 3, "layers": 7, "microbatches": 6},
]


def refused(outcome: Outcome, trainer: str) -> bool:
    """Whether the text for a framework, or the CSV for PyTorch's runtime, is refused."""
    try:
        if trainer == PYTORCH:
            dump(outcome.schedule)
        else:
            pipesched.hand_over(outcome, trainer)
    except (Inexpressible, NotApplicable):
        return True
    return False


def test_the_trainers_are_the_frameworks_and_pytorch() -> None:
    """Each has an answer, and no framework is missing in the list."""
    assert sorted(TRAINERS) == sorted([*FRAMEWORKS, PYTORCH])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", at_night_but(PROBLEMS[:2], PROBLEMS), ids=str)
def test_a_trainer_takes_what_is_not_refused(sizes: dict[str, Any]) -> None:
    """Of each family: known by its name, or by its order alone; and with operations for recompute."""
    compared = pipesched.compare(pipesched.make_problem(**sizes), "all")
    more = pipesched.compare(pipesched.make_problem(**sizes), ["1f1b"], recompute="full")
    takers: dict[str, list[str]] = {trainer: [] for trainer in TRAINERS}
    for entry in (*compared, *more):
        for trainer in TRAINERS if entry.outcome is not None else ():
            taken = not refused(entry.outcome, trainer)
            takers[trainer] += [entry.algorithm] * (taken and entry not in more)
            handed = entry.suited(trainer)  # in other groups, where those that were found are refused
            assert handed.outcome is not None
            assert (handed.suits(trainer), takes(handed.outcome, trainer)) == (taken, taken), (entry, trainer)
    for trainer, names in takers.items():
        assert [entry.algorithm for entry in compared.only(trainer)] == names


def test_an_order_of_no_family_is_told_without_planning_by_those_that_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hanayo's on a V runs whole backwards and holds more than 1F1B-V, so no V schedule is planned to compare it."""

    def planned(*_arguments: Any, **_options: Any) -> Any:
        raise AssertionError("a family was planned")

    problem = pipesched.make_problem(devices=4, stages=8, microbatches=16)
    outcome = pipesched.run(problem, "hanayo")
    monkeypatch.setattr("pipesched.schedulers.zero_bubble.best_of", planned)
    assert [verdict.trainer for verdict in verdicts(outcome) if verdict.takes] == ["torchtitan", PYTORCH]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["1f1b-v", "zb-v", "v-half", "v-min"])
@pytest.mark.parametrize("devices", at_night_but([3], [2, 3, 4, 6]))
def test_families_hold_no_more_chunks_than_they_say(name: str, devices: int) -> None:
    """With costs that differ too; some microbatches reach it."""
    problem = pipesched.make_problem(
        devices=devices, stages=2 * devices, microbatches=3 * devices, forward=5, backward_input=7, backward_weight=3,
        activation=1,
    )  # fmt: skip
    most = FAMILIES[name].most_chunks
    assert most is not None
    fitted = pipesched.run(problem, name)
    assert max(fitted.schedule.peak_memory) <= most(fitted.problem)


def test_what_a_trainer_says() -> None:
    """A trainer that needs the order itself names its file, one that refuses says why, without what it has."""
    outcome = pipesched.run(pipesched.make_problem(devices=4, stages=4, microbatches=8), "zb-h1")
    said = {verdict.trainer: verdict[1:] for verdict in verdicts(outcome, "zb-h1")}
    assert said["torchtitan"] == (True, "schedule.csv")
    assert said["primus"] == said[PYTORCH] == said["zero-bubble"] == (True, "")
    assert said["megatron"] == said["deepspeed"] == (False, "zb-h1 takes code")


def test_families_of_a_trainer() -> None:
    """Those that it has by name; of one that runs any order, those with a copy of each stage."""
    assert families_of("megatron", FAMILIES) == ["1f1b", "interleaved", "interleaved-overlap"]
    assert families_of("deepspeed", FAMILIES) == ["1f1b", "dualpipe-v-whole"]
    assert families_of("deepspeed", ["zb-v", "1F1B"]) == ["1F1B"]
    assert {*FAMILIES} - {*families_of(PYTORCH, FAMILIES)} == {"dualpipe", "chimera", "bitpipe"}


def test_a_document_tells_only_what_pytorch_runs() -> None:
    """An entry without its schedule says so, rather than nothing."""
    entry = Entry("1f1b", document={"makespan": 1}, trainers=(PYTORCH,))
    assert entry.suits(PYTORCH)
    with pytest.raises(ConfigError, match="a document does not say what megatron takes") as raised:
        entry.suits("megatron")
    assert raised.value.key == "trainer"
