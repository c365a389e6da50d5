"""Algorithms and given plans side by side, at one value or at several."""

from __future__ import annotations

import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError, Entry, NotApplicable, Problem, compare, grade, load, sweep
from pipesched.cli.compare import read_sweep
from pipesched.comparing.compare import candidates, every_name, name_files
from pipesched.comparing.sweep import sweep_points, varied_field
from pipesched.config.load import load_values
from pipesched.documents.comparison import comparison_document, sweep_document, sweep_of
from pipesched.estimation.trace import trace
from pipesched.pipeline.plan.step import Shard
from pipesched.pipeline.problem.declared import NUMERIC
from pipesched.render.comparison import sweep_lines
from tests.strategies import SETTLED, plan_of, problems, random_plan

FAMILIES = {one.name: one for one in pipesched.algorithms()}
AUTOPIPE = pipesched.make_problem(devices=4, stages=8, microbatches=8, forward=5, backward=10)


def makespans(comparison: pipesched.Comparison) -> dict[str, Any]:
    """The makespan of each algorithm; None where it does not apply."""
    return {entry.algorithm: entry.metrics and entry.metrics["makespan"] for entry in comparison}


@pytest.mark.parametrize("executor", [None, "local:1"])
def test_a_listener_hears_each_name(executor: Any) -> None:
    """Names come in the order of the entries, each before the entry is made."""
    heard: list[str] = []
    names = ["zb-h1", "naive", "dualpipe"]
    assert [
        entry.algorithm for entry in pipesched.compare(AUTOPIPE, names, executor=executor, listener=heard.append)
    ] == names
    assert heard == names


def test_all_leaves_out_what_needs_options() -> None:
    """`all` takes every algorithm but block, whose period nobody gave; with it block too."""
    whole = [name for name in FAMILIES if name != "seq-1f1b"]  # which is 1f1b without slices
    assert [entry.algorithm for entry in pipesched.compare(AUTOPIPE, "all")] == [n for n in whole if n != "block"]
    assert every_name({}) == [name for name in FAMILIES if name != "block"]
    problem = pipesched.make_problem(devices=1, microbatches=2)
    block = {"block": {"period": 3, "forward": [0], "backward": [1]}}
    assert [entry.algorithm for entry in pipesched.compare(problem, "all", each=block)] == whole


def test_entries_by_number_and_by_name() -> None:
    """A comparison is a sequence of entries, and a table by the names of algorithms."""
    comparison = pipesched.compare(AUTOPIPE)
    assert comparison[0] is comparison["naive"]
    assert comparison[-1].algorithm == "interleaved"
    assert [entry.algorithm for entry in comparison[:2]] == ["naive", "1f1b"]
    assert (len(comparison), comparison["1f1b"] in comparison) == (3, True)
    assert comparison["gpipe"] is comparison["GPipe"] is comparison["naive"]
    for unknown in ("zb-1p", "nobody"):
        with pytest.raises(KeyError, match=unknown):
            comparison[unknown]
    with pytest.raises(IndexError):
        comparison[3]


def test_ranked_and_best() -> None:
    """Shortest first, of equal ones the least peak; over budget after all that fit; what does not apply last."""
    problem = pipesched.make_problem(devices=4, stages=8, microbatches=9, forward=5, backward=10, budget=4)
    comparison = pipesched.compare(problem, ["dualpipe", "interleaved", "naive", "1f1b", "sequential"])
    ranked = comparison.ranked()
    assert [entry.algorithm for entry in ranked] == ["1f1b", "sequential", "interleaved", "naive", "dualpipe"]
    assert comparison.best is comparison["1f1b"]
    assert [entry.applicable for entry in ranked] == [True, True, True, True, False]
    assert pipesched.compare(problem, ["dualpipe"]).best is None
    assert pipesched.Comparison(()).best is None


def test_an_algorithm_has_one_entry() -> None:
    """Whoever is listed twice, or under an alias too, is run once, at its first place."""
    assert list(makespans(pipesched.compare(AUTOPIPE, ["naive", "1f1b", "gpipe", "1f1b"]))) == ["naive", "1f1b"]
    assert [entry.algorithm for entry in pipesched.compare(AUTOPIPE, ["gpipe", "naive"])] == ["naive"]


def test_none_is_not_given() -> None:
    """None is an option left out: for all algorithms, for one, and in `run`; a number may be spelled in any way."""
    each = {"interleaved": {"group_size": 8}}
    own = pipesched.compare(AUTOPIPE, ["interleaved", "list"], each=each, group_size=None, tie=None, priority=None)
    assert [dict(entry.options) for entry in own] == [{"group_size": 8}, {}]
    unset = pipesched.compare(AUTOPIPE, "interleaved", each={"interleaved": {"group_size": None}})
    assert dict(unset[0].options) == {}
    plain = pipesched.run(AUTOPIPE, "interleaved")
    assert pipesched.run(AUTOPIPE, "interleaved", group_size="4").metrics == plain.metrics
    assert pipesched.run(AUTOPIPE, "interleaved", group_size=4.0).metrics == plain.metrics
    for name, family in FAMILIES.items():
        options: dict[str, Any] = dict.fromkeys(family.options)
        if name != "block":
            assert pipesched.run(AUTOPIPE, name, **options).metrics == pipesched.run(AUTOPIPE, name).metrics


def test_options_for_all_replace_those_for_each() -> None:
    """Whoever knows an option gets it; `each` gives single ones to single algorithms, under their aliases too."""
    comparison = pipesched.compare(
        AUTOPIPE,
        ["naive", "interleaved", "looped-bfs"],
        each={"gpipe": {"lifo": True}, "interleaved": {"group_size": 8}},
    )
    assert [dict(entry.options) for entry in comparison] == [{"lifo": True}, {"group_size": 8}, {}]
    given = pipesched.compare(AUTOPIPE, ["interleaved"], each={"interleaved": {"group_size": 8}}, group_size=4)
    assert given[0].options == {"group_size": 4}


def test_too_few_layers_for_the_chunks_of_some() -> None:
    """Families with fewer stages run, others say why not; where no row could run, the problem is refused."""
    problem = pipesched.make_problem(devices=4, chunks=3, layers=9, microbatches=8)
    rows = pipesched.compare(problem, ["1f1b", "interleaved", "zb-v", "list"])
    assert [entry.cut and len(entry.cut.layout) for entry in rows] == [4, None, 8, None]
    for name in ("interleaved", "list"):
        assert rows[name].reason == "12 stages need at least 12 layers; the model has 9"
    with pytest.raises(NotApplicable, match="12 stages need at least 12 layers; the model has 9"):
        pipesched.solve(problem, time_limit=1)
    others: list[dict[str, Any]] = [{"devices": 10}, {"placement": "loop"}]
    for more in others:
        with pytest.raises(ConfigError, match="layers"):
            pipesched.make_problem(**{"devices": 4, "chunks": 3, "layers": 9, **more})


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
        assert pipesched.check(entry.outcome.schedule) == []


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
@pytest.mark.parametrize("algorithm", ["zb-h1", "dualpipe-v"])
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
    plans = {"mine": fused, "starts": BLOCK, "file": alone}
    assert pickle.loads(pickle.dumps(candidates(plans))).keys() == plans.keys()


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


def test_layers_are_cut_for_a_block(tmp_path: Path) -> None:
    """A problem by layers is cut into the stages of a block, for the placement of its file, as it is for a family."""
    file = tmp_path / "block.yaml"
    starts = "forward: [0, 1, 2, 3], backward: [9, 8, 6, 4]"
    file.write_text(f"placement: v\nalgorithm: {{block: {{period: 9, {starts}}}}}\n")
    model: dict[str, Any] = {"devices": 2, "microbatches": 4, "layers": 9, "last": {"forward": 2, "backward": 3}}
    model["layout"] = "balanced"
    outcome = pipesched.compare(pipesched.make_problem(**model), plans={"mine": file})["mine"].outcome
    assert outcome is not None
    expected = pipesched.make_problem(**model, stages=4, placement="v")
    assert outcome.problem == expected
    assert outcome.problem.layers == expected.layers


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


@pytest.mark.parametrize("field", NUMERIC, ids=lambda field: str(field.key))
def test_every_varied_field_can_be_swept(field: Any) -> None:
    """Each field that takes numbers can be swept, a half of the backward with the other, a way back with the way."""
    given: dict[str, Any] = {}
    if field.name in ("backward_input", "backward_weight"):
        given = {"backward_input": 3, "backward_weight": 3}
    elif field.name == "reload":
        given = {"offload": 3}
    elif field.name == "rounds":
        given = {"mode": "forward"}
    elif field.name == "receive":
        given = {"messages": "rank"}
    assert varied_field(field.name) == varied_field(str(field.key)) == field
    values: list[Any] = [8, 16] if field.name in ("stages", "microbatches", "layers") else [1, 2]
    if field.name in ("retain", "checkpoint", "kv"):
        values = [0.5, 1]
    points = sweep_points(load_values(None, given), field, values)
    assert points == [(value, load(None, **{**given, field.name: value})) for value in values]
    others = {name: value for name, value in given.items() if name != field.name}
    found = sweep(None, str(field.key), values, "naive", overrides=others)
    assert (found.field, [point.value for point in found]) == (field.key, values)


def test_a_point_is_the_comparison_at_its_value() -> None:
    """Each point holds what `compare` gives for that problem, with the options of all and of each algorithm."""
    config, each = "devices: 4\nstages: 8\n", {"interleaved": {"group_size": 4}}
    found = sweep(config, "devices", [2, 3, 4], ["naive", "interleaved"], each=each, lifo=True)
    assert len(found) == 3
    for point in found:
        alone = compare(load(config, devices=point.value), ["naive", "interleaved"], each=each, lifo=True)
        assert [told(entry) for entry in point.comparison] == [told(entry) for entry in alone]
    assert [point.comparison["interleaved"].applicable for point in found] == [True, False, True]


def told(entry: Entry) -> tuple[object, ...]:
    """All that an entry tells."""
    return entry.algorithm, entry.metrics, entry.reason, entry.options


def test_values_are_numbers_as_users_read_them() -> None:
    """However a number was given, a point has it as an int or a float."""
    found = sweep_points(load_values(None, {}), varied_field("activation"), ["2", 1.0, Decimal("0.5"), Fraction(1, 3)])
    values = [value for value, _ in found]
    assert values == [2, 1, 0.5, 1 / 3]
    assert [type(value) for value in values] == [int, int, float, float]
    assert found[3][1].memory.activation[0] == Fraction(1, 3)


def test_words_of_a_shard() -> None:
    """Levels, and numbers and words of stages ahead, go on top of what else the config says of a shard."""
    config = "devices: 2\nmemory: {weights: 8, states: 32}\nshard: {level: weights, ranks: 8, ahead: 2}\n"
    levels = sweep_points(load_values(config, {}), varied_field("shard"), ["none", "gradients", "weights"])
    assert [(word, problem.shard) for word, problem in levels] == [
        ("none", Shard("none", 8)), ("gradients", Shard("gradients", 8)), ("weights", Shard("weights", 8, 2)),
    ]  # fmt: skip
    swept = sweep(config, "shard.ahead", [1, "3", "full"], "1f1b")
    assert ([point.value for point in swept], swept.field, swept.of_words) == ([1, 3, "full"], "shard.ahead", True)
    ahead = [entry.outcome.problem.sharding.ahead for point in swept for entry in point.comparison if entry.outcome]
    assert ahead == [1, 3, "full"]
    assert [x for x, _, _ in sweep_lines(swept, "makespan")["1f1b"]] == [0, 1, 2]
    assert sweep_of(sweep_document(swept)).points[2].value == "full"
    assert sweep_of(sweep_document(sweep(config, "shard", ["none", "weights"], "1f1b"))).field == "shard"


def test_a_sweep_says_where_it_is() -> None:
    """The listener hears each algorithm with the value of its point, in turn."""
    heard: list[str] = []
    sizes = {"work": [1, 2, 3, 4]}
    sweep(
        "devices: 2", "order", ["given", "best"], ["1f1b", "naive"], overrides={"sizes": sizes}, listener=heard.append
    )
    assert heard == ["1f1b at given", "naive at given", "1f1b at best", "naive at best"]


def test_group_sizes_are_varied() -> None:
    """Group sizes and best, read back as they are; other algorithms stand beside them as ever."""
    base = {"devices": 4, "stages": 8, "microbatches": 9, "forward": 1, "backward": 2}
    values = [4, 5, 6, 7, 8, 9, "best"]
    swept = sweep("devices: 4", "group_size", values, ["interleaved", "1f1b"], overrides=base)
    assert [point.value for point in swept] == values
    found = [(point.comparison["interleaved"].metrics or {})["makespan"] for point in swept]
    assert found == [74, 63, 65, 68, 73, 63, 63]
    assert {(point.comparison["1f1b"].metrics or {})["makespan"] for point in swept} == {72}
    assert [point.value for point in sweep_of(sweep_document(swept))] == values
    assert (
        "deadlocks"
        in next(iter(sweep("devices: 4", "group_size", [2], "interleaved", overrides=base))).comparison[0].reason
    )


PLAIN = "devices: 4\nmicrobatches: 8\nspeed: [1, 2, 1, 1]\ncosts: {forward: 5, backward: 10}"
MODEL: dict[str, Any] = {
    "model": "gpt2-xl",
    "hardware": "h100-sxm",
    "parallel": {"gpus": 4, "pipeline": 4},
    "batch": {"sequence": 512, "global": 8},
}


def test_a_sweep_of_one_device() -> None:
    """Device 2 takes each value, the others keep theirs; a range may have decimals, both ends included."""
    swept = read_sweep("speed[2]=0.5:1:0.25", load_values(PLAIN, {}), ["1f1b"])
    problems = [point.comparison[0].outcome.problem for point in swept.points]  # type: ignore[union-attr]
    assert [point.value for point in swept.points] == [0.5, 0.75, 1]
    assert [problem.speed for problem in problems] == [(1, 2, 0.5, 1), (1, 2, 0.75, 1), (1, 2, 1, 1)]
    assert swept.field == "speed[2]"


@pytest.mark.parametrize(("base", "others"), [({}, (1, 1)), ({"speed": 2}, (2, 2)), ({"speed": {1: 3}}, (3, 1))])
def test_a_sweep_over_any_form_of_speed(base: dict[str, Any], others: tuple[int, int]) -> None:
    """What is varied is laid over numbers by device, one number for all, and nothing."""
    swept = pipesched.sweep("devices: 3", "speed[0]", [0.5], ["1f1b"], overrides=base)
    assert swept.points[0].comparison[0].outcome.problem.speed == (0.5, *others)  # type: ignore[union-attr]


def test_links_replace_the_network_of_a_model() -> None:
    """Beside a model links replace the derived latency, but not one that is given; speed divides its costs."""
    plain = pipesched.load(None, **MODEL)
    links: dict[str, Any] = {"links": {"size": 2, "inside": 1, "between": 3}}
    linked = pipesched.load(None, **MODEL, **links, speed={2: 0.8})
    both = pipesched.load(None, **MODEL, **links, p2p=0.5)
    assert any(plain.costs.p2p)
    assert not any(linked.costs.p2p)
    assert set(both.costs.p2p) == {0.5}
    with pytest.raises(ConfigError, match="`links` were given"):
        trace(pipesched.estimate(None, **MODEL, **links), "stage.0.p2p")
    assert linked.speed == (1, 1, 0.8, 1)
    assert pipesched.run(linked, "1f1b").schedule.makespan > pipesched.run(plain, "1f1b").schedule.makespan


def test_solve_is_no_longer_than_a_family_on_devices_that_differ() -> None:
    """On every placement and with each cut of layers a solve knows speeds and links, and its bound holds."""
    for sizes in ({"stages": 8}, {"layers": 13, "chunks": 2}):
        given: dict[str, Any] = {"devices": 4, "microbatches": 4, "speed": [1, 0.7, 3, 1], **sizes}
        problem = pipesched.make_problem(**given, links={"size": 2, "inside": 1, "between": 3})
        found = pipesched.solve(problem, method="portfolio", time_limit=60, advice=False)
        shortest = min(pipesched.run(problem, name).schedule.makespan for name in ("interleaved", "hanayo"))
        assert found.bound.value <= found.schedule.makespan <= shortest


FOLDER = Path(__file__).parents[2] / "docs" / "tutorial" / "exercises"
TASK = "task: {say: Try., goal: 11, best: 9, hints: [first, second]}\n"
TEXT = "devices: 2\nstages: 2\nmicrobatches: 2\ncosts: {forward: 1, backward: 2}\n"
PROBLEM = pipesched.load(TEXT)
ALONE = ["0F0 0B0 0F1 0B1", "1F0 1B0 1F1 1B1"]  # makespan 12
RIGHT = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]  # makespan 9


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_ten_exercises_have_solutions(file: Path) -> None:
    """A solve reaches the best that is known, proves it, and gets ten points; the plainest order gets fewer."""
    problem = pipesched.load(file)
    solved = pipesched.solve(problem, time_limit=60)
    verdict = grade(file, solved)
    assert (verdict.points, verdict.hint) == (10, "")
    assert verdict.reason == f"makespan {verdict.makespan} is the best that is known"
    assert solved.status == "optimal"
    plainest = pipesched.compare(problem, "sequential")[0].outcome
    assert plainest is None or grade(file, plainest).points < 5


@pytest.mark.parametrize(
    ("orders", "task", "points", "said", "hint"),
    [
        (RIGHT, {}, 10, "makespan 9 is the best that is known", ""),
        (RIGHT, {"best: 9": "best: 10"}, 10, "makespan 9 is better than the best known, 10", ""),
        (ALONE, {}, 4, "makespan 12; the goal is 11", "first"),
        (ALONE, {"goal: 11": "goal: 15"}, 7, "makespan 12 reaches the goal of 15; the best that is known is", "second"),
        (RIGHT, {"devices": "memory: {budget: 1}\ndevices"}, 0, "device 0 holds 2 of 1", "first"),
        (RIGHT, {"microbatches: 2": "microbatches: 3"}, 0, "the problem has 3 microbatches", "first"),
        (RIGHT, {"stages: 2": "stages: 4"}, 0, "it has 2 stages; the exercise has 4", "first"),
        (["0F0 0F1 0I0 0W0 0I1 0W1", "1F0 1I0 1W0 1F1 1I1 1W1"], {}, 0, "it splits the backward", "first"),
        (["0F0 0F1 0B0", "1F0 1B0 1F1 1B1"], {}, 0, "the schedule breaks the rules of its problem: 0B1", "first"),
    ],
)  # fmt: skip
def test_points(orders: list[str], task: dict[str, str], points: int, said: str, hint: str) -> None:
    """Ten for the best, five for the goal, at most four beside it, and none for what is no solution, with a hint."""
    text = TASK + TEXT
    for old, new in task.items():
        text = text.replace(old, new)
    verdict = grade(text, pipesched.plan(PROBLEM, orders))
    assert (verdict.points, verdict.hint) == (points, hint)
    assert str(verdict).startswith(f"{points} of 10 points: {said}")
