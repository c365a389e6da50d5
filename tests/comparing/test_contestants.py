"""Plans and building blocks beside algorithms: only their orders count, and what cannot be for the problem says why."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched.comparing.contestants import contestants, name_files
from pipesched.documents.comparison import comparison_document
from pipesched.errors import ConfigError
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.problem import Problem
from tests.strategies import SETTLED, plan_of, problems, random_plan

SMALL = pipesched.make_problem(devices=2, stages=4, microbatches=4, forward=[1, 2, 1, 2], budget=9)
BLOCK = {"period": 6, "forward": [0, 1], "backward": [4, 2]}


@given(problems(SETTLED), st.randoms(use_true_random=False))
def test_a_plan_is_timed_and_checked_as_it_stands(problem: Problem, random: Any) -> None:
    """A plan of the problem has the schedule that `schedule_plan` gives it, as a Plan, a Schedule or an Outcome."""
    schedule = pipesched.schedule_plan(problem, plan_of(problem, random_plan(problem, random)))
    ways: dict[str, Any] = {"schedule": schedule, "outcome": pipesched.Outcome("x", schedule)}
    if not problem.settled_placement.mirrored:  # few microbatches do not show a mirror
        ways["plan"] = schedule.plan
    for entry in pipesched.compare(problem, plans=ways):
        assert entry.outcome is not None, entry.reason
        assert entry.outcome.algorithm == entry.algorithm
        assert entry.outcome.schedule.start_ticks == schedule.start_ticks
        assert [*violations(entry.outcome.schedule)] == []


@given(problems(("auto",), most_chunks=2), problems(("auto",), most_chunks=2))
def test_a_file_has_the_costs_and_stages_of_the_problem(made_for: Problem, problem: Problem) -> None:
    """The order of 1F1B does not depend on costs, so 1F1B of one problem is the row `1f1b` of any other of its size."""
    plan = pipesched.run(made_for, "1f1b")
    entry = pipesched.compare(problem, "1f1b", plans={"mine": plan})["mine"]
    sizes = [(each.devices, each.microbatches) for each in (made_for, problem)]
    if sizes[0] != sizes[1]:
        assert entry.reason.startswith("the problem has ")
    elif made_for.costs.split == problem.costs.split:
        own = pipesched.run(problem, "1f1b")
        assert entry.outcome is not None
        assert entry.outcome.problem == own.problem
        assert entry.metrics == own.metrics


@pytest.mark.parametrize("name", ["mine.json", "mine.csv"])
@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "interleaved", "v-min", "dualpipe-v"])
def test_files_are_what_they_hold(tmp_path: Path, name: str, algorithm: str) -> None:
    """What was written is compared as what was made, with its name, its file, and its place in the document."""
    outcome = pipesched.run(SMALL, algorithm)
    file = str(pipesched.write(outcome, tmp_path / name))
    comparison = pipesched.compare(SMALL, [algorithm], plans=[file])
    assert [entry.algorithm for entry in comparison] == [algorithm, "mine"]
    assert comparison["mine"].metrics == comparison[algorithm].metrics
    rows = comparison_document(comparison)["rows"]
    assert [row.get("file") for row in rows] == [None, file]
    kept = pipesched.write(comparison, tmp_path / "kept.json")
    again = pipesched.read(kept)
    assert isinstance(again, pipesched.Comparison)
    assert comparison_document(again) == comparison_document(comparison)
    assert again["mine"].file == file


def test_blocks_of_python_and_of_files(tmp_path: Path) -> None:
    """Options in Python, options alone in a file, and a config with them are one block, on the stages of that block."""
    alone, config = tmp_path / "alone.yaml", tmp_path / "config.yaml"
    alone.write_text("period: 6\nforward: [0, 1]\nbackward: [4, 2]\n")
    config.write_text(
        "devices: 2\nmicrobatches: 99\nalgorithm: {block: {period: 6, forward: [0, 1], backward: [4, 2]}}\n"
    )
    comparison = pipesched.compare(SMALL, plans={"python": BLOCK, "alone": alone, "config": str(config)})
    fused = pipesched.compare(SMALL, "1f1b")["1f1b"].outcome
    assert fused is not None
    for entry in comparison:
        assert entry.outcome is not None
        assert entry.outcome.problem == fused.problem
        assert entry.outcome.schedule.start_ticks == fused.schedule.start_ticks
        assert entry.options["period"] == 6


def test_a_block_has_the_placement_of_its_file(tmp_path: Path) -> None:
    """Where the problem leaves it open; where it does not, another one is a reason."""
    file = tmp_path / "v.yaml"
    file.write_text("placement: v\nalgorithm: {block: {period: 6, forward: [0, 1, 2, 3], backward: [9, 8, 6, 4]}}\n")
    problem = pipesched.make_problem(devices=2, stages=4, microbatches=4, backward=1)
    outcome = pipesched.compare(problem, plans={"mine": file})["mine"].outcome
    assert outcome is not None
    assert outcome.problem.settled_placement.devices == (0, 1, 1, 0)
    placed = pipesched.make_problem(devices=2, stages=4, microbatches=4, backward=1, placement="loop")
    assert "places its stages otherwise" in pipesched.compare(placed, plans={"mine": file})["mine"].reason


@pytest.mark.parametrize("placement", ["linear", "loop", "v"])
def test_layers_are_cut_for_a_block(tmp_path: Path, placement: str) -> None:
    """A problem by layers is cut into the stages of a block, for the placement of its file, as it is for a family."""
    file = tmp_path / "block.yaml"
    starts = "forward: [0, 1, 2, 3], backward: [9, 8, 6, 4]"
    file.write_text(f"placement: {placement}\nalgorithm: {{block: {{period: 9, {starts}}}}}\n")
    model: dict[str, Any] = {"devices": 2, "microbatches": 4, "layers": 9, "last": {"forward": 2, "backward": 3}}
    model["layout"] = "balanced"
    outcome = pipesched.compare(pipesched.make_problem(**model), plans={"mine": file})["mine"].outcome
    assert outcome is not None
    expected = pipesched.make_problem(**model, stages=4, placement=placement)
    assert outcome.problem == expected
    assert outcome.problem.layers == expected.layers


def test_several_processes_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared, and what comes of it, goes to other processes and back."""
    monkeypatch.setattr("pipesched.executors.opening.FEWEST_OPERATIONS", 1)
    (tmp_path / "block.yaml").write_text("period: 6\nforward: [0, 1]\nbackward: [4, 2]\n")
    (tmp_path / "named.yaml").write_text("algorithm: gpipe\n")
    files = {"block 2": tmp_path / "block.yaml", "named": tmp_path / "named.yaml"}
    plans = {"mine": pipesched.run(SMALL, "1f1b"), "block 1": BLOCK, **files}
    one, two = (pipesched.compare(SMALL, "naive", plans=plans, jobs=jobs) for jobs in (1, 2))
    assert [entry.metrics for entry in one] == [entry.metrics for entry in two]
    assert one["named"].metrics == one["naive"].metrics
    assert pickle.loads(pickle.dumps(contestants(plans))).keys() == plans.keys()


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ({"devices": 4, "stages": 4, "microbatches": 4}, "the problem has 4 devices, but mine.json has 2"),
        ({"devices": 2, "stages": 3, "microbatches": 4},
         "the problem has 3 stages, but mine.json has 4"),
        ({"devices": 2, "stages": 4, "microbatches": 5}, "the problem has 5 microbatches, but mine.json has 4"),
        ({"devices": 2, "stages": 8, "microbatches": 4, "placement": "loop"},
         "mine.json has its stages on devices [0, 0, 1, 1, 0, 0, 1, 1], not [0, 1, 0, 1, 0, 1, 0, 1]"),
    ],
)  # fmt: skip
def test_plans_of_other_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: dict[str, Any], reason: str
) -> None:
    """They are entries that say what differs; the others go on."""
    monkeypatch.chdir(tmp_path)
    pipesched.write(pipesched.run(SMALL, "interleaved"), "mine.json")
    comparison = pipesched.compare(pipesched.make_problem(**problem), "list", plans=["mine.json"])
    assert comparison["list"].applicable
    assert comparison["mine"].reason.replace("(", "[").replace(")", "]") == reason


def test_what_cannot_run_says_why(tmp_path: Path) -> None:
    """A deadlock, a stage on two devices, and a CSV that PyTorch cannot run are reasons, not errors."""
    problem = pipesched.make_problem(devices=2, microbatches=2)
    (tmp_path / "lost.csv").write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n")
    comparison = pipesched.compare(
        problem,
        plans={
            "stuck": pipesched.plan(problem, ["0B0 0F0 0F1 0B1", "1F0 1B0 1F1 1B1"]),
            "astray": pipesched.plan(problem, ["0F0 0F1 0B0 1B1", "1F0 1B0 1F1 0B1"]),
            "lost": tmp_path / "lost.csv",
        },
    )
    reasons = [entry.reason for entry in comparison]
    assert [reason.split(":")[0] for reason in reasons[:2]] == [
        "deadlock",
        "stage 0 must run on one device; this plan has it on 0 and 1",
    ]
    assert "1B1 is missing" in reasons[2]


def test_sweeps_say_where_a_plan_does_not_fit() -> None:
    """A plan has its number of microbatches; other points are not for it."""
    text = "devices: 2\nstages: 4\nmicrobatches: 4\n"
    sweep = pipesched.sweep(text, "microbatches", [2, 4], ["1f1b"], plans={"mine": pipesched.run(SMALL, "1f1b")})
    entries = [point.comparison["mine"] for point in sweep]
    assert [entry.applicable for entry in entries] == [False, True]
    assert entries[0].reason == "the problem has 2 microbatches, but the plan has 4"


def test_a_document_of_rows_is_no_plan(tmp_path: Path) -> None:
    file = pipesched.write(pipesched.compare(SMALL), tmp_path / "rows.json")
    assert json.loads(file.read_text())["format"] == "pipesched.comparison"
    with pytest.raises(ConfigError, match=r"rows\.json holds a comparison, not a schedule"):
        pipesched.compare(SMALL, plans=[str(file)])


def test_names_of_files() -> None:
    """Stems, in the order of the files; paths where those are taken or are algorithms; a number where both are."""
    files = [(None, "a/x.json"), ("x", "y.json"), (None, "1f1b.csv"), (None, "b/z.json"), (None, "c/z.json"),
             (None, "c/z.json")]  # fmt: skip
    assert list(name_files(files)) == ["a/x.json", "x", "1f1b.csv", "z", "c/z.json", "z-2"]
    with pytest.raises(ConfigError, match="'x' names two files"):
        name_files([("x", "a.json"), ("x", "b.json")])


def test_the_problem_of_the_first_schedule(tmp_path: Path) -> None:
    """Without a problem, `compare` takes that of the first schedule among plans, and a sweep varies it."""
    outcome = pipesched.run(SMALL, "zb-v")
    file = str(pipesched.write(outcome, tmp_path / "mine.json"))
    plans: list[Any] = [{"a": BLOCK, "mine": outcome}, {"mine": outcome.schedule}, [file]]
    for given_plans in plans:
        comparison = pipesched.compare(algorithms=["zb-v", "1f1b"], plans=given_plans)
        assert comparison["mine"].metrics == comparison["zb-v"].metrics == outcome.metrics
        assert comparison["1f1b"].metrics == pipesched.run(SMALL, "1f1b").metrics
        swept = pipesched.sweep(None, "budget", [9, 1], "1f1b", plans=given_plans)
        assert [dict(point.comparison["mine"].metrics or {})["fits"] for point in swept] == [True, False]
    assert pipesched.compare()["1f1b"].metrics == pipesched.run(pipesched.load(), "1f1b").metrics
    assert pipesched.compare(plans={"free": outcome.schedule.plan})["free"].reason


@given(problems(SETTLED, overlap=True, saving=True), st.randoms(use_true_random=False))
def test_a_schedule_runs_on_its_own_problem(problem: Problem, random: Any) -> None:
    """Whatever it is: a schedule that is compared without a problem has the times and the memory that it has."""
    schedule = pipesched.schedule_plan(problem, plan_of(problem, random_plan(problem, random)))
    [entry] = pipesched.compare(plans={"own": schedule})
    assert entry.outcome is not None, entry.reason
    assert entry.outcome.problem == problem
    assert entry.outcome.metrics == pipesched.Outcome("own", schedule).metrics
