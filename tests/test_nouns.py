"""The nouns of the public API: checked when they are made, equal after pickle, short when they are printed."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError, Status, StoppedBy, hls
from pipesched.documents.comparison import comparison_document, frontier_document, sweep_document
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document
from pipesched.file_formats.registry import FIGURES
from pipesched.pipeline.plan.step import Shard, SideItem
from pipesched.render.view import View
from pipesched.results.comparison import SweepPoint
from pipesched.schedulers.family import FLAGS
from pipesched.schedulers.registry import Catalogue, family
from tests.strategies import ALL_PLACEMENTS, SETTLED, plan_of, problems, random_plan

PROBLEM = pipesched.make_problem(
    devices=2, stages=4, microbatches=3, placement="loop", forward=[1.5, 2, 2, 1], overlap=3, p2p=0.5, offload=1,
    static=0.5, budget=7, name="mine",
)  # fmt: skip
LAYERS = pipesched.make_problem(devices=2, layers=4).layers
OUTCOME = pipesched.run(PROBLEM, "interleaved")
SOLVED = pipesched.solve(pipesched.make_problem(devices=2, budget=1), time_limit=10)
COMPARISON = pipesched.compare(PROBLEM, ["1f1b", "interleaved", "list"])
SWEEP = pipesched.sweep(None, "microbatches", [4, 6], ["1f1b", "interleaved"])
FRONTIER = pipesched.frontier(pipesched.make_problem(devices=2, microbatches=3, placement="linear"), time_limit=10)
PACKING = pipesched.pack([3, 2, 1, 1], ranks=2, cap=4, problem=pipesched.make_problem(devices=2), microbatches=2)

LAYOUT = pipesched.Parallelism(2, 4, 1, 1, 1, 1, 2, "none")

NOUNS: dict[str, Any] = {
    "problem": PROBLEM,
    "costs": PROBLEM.costs,
    "memory": PROBLEM.memory,
    "layers": LAYERS,
    "part": LAYERS and LAYERS.layer,
    "placement": PROBLEM.placement,
    "op": pipesched.Op(0, "F", 1),
    "pair": pipesched.Pair(pipesched.Op(0, "F", 1), pipesched.Op(0, "B", 0)),
    "plan": OUTCOME.schedule.plan,
    "schedule": OUTCOME.schedule,
    "bound": OUTCOME.bound,
    "outcome": OUTCOME,
    "solved": SOLVED,
    "report": SOLVED.report,
    "entry": COMPARISON[1],
    "comparison": COMPARISON,
    "sweep": SWEEP,
    "frontier": FRONTIER,
    "point": FRONTIER[0],
    "packing": PACKING,
    "packing baseline": PACKING.baselines[0],
    "event": pipesched.Event("bounds", 0.5, 3, "list", 2),
    "advice": pipesched.Advice("offload", 20, -4, {"offload": True}, {"offload": 1}),
    "heuristic": pipesched.BestHeuristic("list", 24),
    "repetition": pipesched.Repetition("v", 34, 1, 33.5),
    "ordering": pipesched.Ordering((0, 2, 1), "best", True, 6, 30, 28.5),
    "quartiles": pipesched.Quartiles(1, 2.5, 3),
    "layout": LAYOUT,
    "space point": pipesched.SpacePoint(LAYOUT, "1f1b"),
    "trial": pipesched.Trial(pipesched.SpacePoint(LAYOUT, "1f1b"), reason="does not apply"),
    "progress": pipesched.Progress(3, 5, None, {"memory": 2}),
    "interval": pipesched.Interval(90, 100, 111),
    "ratio": pipesched.SpeedRatio(0.9, 0.95, 1.0, 0.92),
    "outside": pipesched.OutsideField("context", 8, "2 at 4,096 tokens a rank"),
    "near": pipesched.NearRun("run-1", "torchtitan", "https://example.org", 0.04, 400.0, 0.02),
    "evidence": pipesched.Evidence((pipesched.OutsideField("context", 8, "none"),), ()),
    "trust": pipesched.estimate(
        model="gpt2-xl", hardware="h100-sxm", parallel={"gpus": 1}, batch={"sequence": 512, "global": 1}
    ).trust,
    "catalogue": pipesched.algorithms(),
    "family": family("interleaved"),
    "varied": SWEEP.points[0],
    "shard": Shard("weights", 8, 2, "each"),
    "side item": SideItem((1, 2), (3,), (1, 0), 1, 1, 1, 1, 1, "vision"),
}


class Foreign:
    """Something that no field takes; its text is the same in every run."""

    def __repr__(self) -> str:
        return "Foreign()"


ALIEN = Foreign()
WRONG: dict[tuple[str, str], list[Any]] = {
    **{("problem", key): [None, 0, -1, 1.5, "2", True, [2]] for key in ("devices", "stages", "microbatches")},
    ("problem", "placement"): ["loop", (0, 1, 0, 1), pipesched.Placement((0, 1)), pipesched.Placement((0, 1, 2, 0))],
    ("problem", "costs"): [None, {}, pipesched.make_problem(devices=2).costs],
    ("problem", "memory"): [None, 7, pipesched.make_problem(devices=2).memory],
    **{("problem", key): [None, 7, "two\nlines", "\x1b[0m"] for key in ("name", "time_unit")},
    ("problem", "lanes"): [None, "none", "", 2],
    ("problem", "cutter"): [4, "model", {}],
    ("problem", "speed"): [0.5, "11", (1,), (1, 0), (1, -1), (1, 1001), (1, "0.0001"), (1, nan), (1, ALIEN)],
    ("problem", "links"): [5, (0, 0), ((0, 1),), ((0, 1), (1, 2)), ((0, -1), (1, 0)), ((0, nan), (1, 0)), {"size": 2}],
    ("problem", "layers"): [4, (1, 1, 1, 1), LAYERS],
    **{("layers", key): [None, 4, {}] for key in ("layer", "first", "last", "mtp")},
    ("layers", "items"): [None, 4, [1], (1, 1)],
    ("layers", "layout"): [None, (), (1, -1), (1.5, 1), "11"],
    ("layers", "rule"): [None, "even", 5],
    ("layers", "p2p"): [4, "11", (1,) * 9, ("x",) * 3, (1, 1, -1)],
    ("layers", "blocks"): [None, 1, "yes"],
    **{
        ("part", key): ["x", -1, nan, ALIEN]
        for key in ("whole", "overlap", "offload", "reload", "retain", "checkpoint", "gather", "reduce", "optimizer")
    },
    **{
        ("part", key): [None, "x", -1, nan, ALIEN]
        for key in (
            "forward",
            "backward_input",
            "backward_weight",
            "recompute",
            "activation",
            "static",
            "weights",
            "gradients",
            "states",
        )
    },
    **{
        ("costs", key): [5, "1111", (1, 1), (1, 1, 1, -1), (1, 1, 1, nan), (1, 1, 1, inf), (1, 1, 1, ALIEN)]
        for key in (
            "forward",
            "backward_input",
            "backward_weight",
            "whole",
            "recompute",
            "overlap",
            "offload",
            "reload",
            "gather",
            "reduce",
            "optimizer",
        )
    },
    ("costs", "tied"): ["x", -1, nan, inf, (1, 1), ALIEN],
    ("costs", "p2p"): [None, 0, (), (0, 0), (0, 0, -1), (0, 0, "x"), (0, 0, True)],
    ("costs", "split"): [None, 1, "yes"],
    ("costs", "resolution"): [None, 0, -10, 1.5, "10", True],
    **{("memory", key): [None, 1, (1, 1), (1, 1, 1, -1), (1, 1, 1, nan)] for key in ("activation", "static")},
    **{("memory", key): [1, (1, 1), (1, 1, 1, -1), (1, 1, 1, nan)] for key in ("weights", "gradients", "states")},
    ("memory", "resolution"): [None, 0, -10, 1.5, "10", True],
    ("memory", "retain"): [None, 1, (1, 1), (1, 1, 1, -1)],
    ("memory", "checkpoint"): [None, 1, (1, 1), (1, 1, 1, -1), (1, 1, 1, 1.5)],
    ("memory", "budget"): [7, (7, 0), (7, -1), (7, nan), (7, ALIEN)],
    ("memory", "unit"): [None, 1, "two\nlines"],
    ("memory", "kv"): [None, "x", -1, 1.5, nan, (1, 1), ALIEN],
    ("memory", "receive"): [None, "x", -1, nan, (1, 1), ALIEN],
    ("placement", "devices"): [None, (), 4, "0101", (0, 2, 0, 2), (0, -1), (0, 0.5), (0, 10**30)],
    ("placement", "mirrored"): [None, 1, "no"],
    ("placement", "second"): [5, "01", (0,), (1, 0), (0.5,), (-1,)],
    ("plan", "index"): [None, "FB", ("FB", 4, 3)],
    ("plan", "orders"): [None, 1, "0F0", [1], [["0F0"], []], [[0.5], []], [[-1], []], [[24], []], [None, None]],
    ("plan", "pairs"): [None, [], {-1: 0}, {0: 24}, {"0F0": "0B0"}],
    ("plan", "note"): [None, 1, "two\nlines"],
    ("plan", "name"): [None, 1, "two\nlines"],
    ("plan", "lanes"): [None, 1, [1], [[]], [([24], [])], [([], ["0L0"])], [([0], [1], [2])]],
    ("plan", "network"): [None, 1, [[0]], [[(-1, -1)], []], [[(24, -1)], []], [[(0, 24)], []]],
    ("plan", "messages"): [None, 1, [[0]], [[(-1, -1)], []]],
    ("plan", "waits"): [None, 1, [1], [(0,)], [(0, 24)], [("0F0", "0B0")], [(0, 1, 2)]],
    ("schedule", "problem"): [None, "x", pipesched.make_problem(devices=2)],
    ("schedule", "plan"): [None, [[0]], SOLVED.schedule.plan],
    **{
        ("schedule", key): [None, 5, "x" * 24, [], [0], (0,) * 25, [0.5] * 24, [True] * 24, ["0"] * 24, [[]] * 24]
        for key in ("start_ticks", "end_ticks")
    },
    ("schedule", "own_lengths"): [None, 1, "yes"],
    ("schedule", "arrival_ticks"): [None, 5, "x" * 24, [0], (0,) * 25, [0.5] * 24, [True] * 24, ["0"] * 24],
    ("problem", "sizes"): [1, "x", {"work": [1]}, pipesched.Sizes((1, 2), (1, 1), (1, 1))],
    ("problem", "slices"): [None, 2, "auto", {"count": 2}],
    ("problem", "messages"): [1, "rank", {"queue": "rank"}],
    ("problem", "shard"): [1, "weights", {"level": "weights"}, Shard("weights", 1, (1, 2, 3))],
    ("problem", "clip"): [1, "yes", True],
    ("problem", "side"): [1, None, [{"forward": 1}], [SideItem((1,), None, (9,))]],
    ("shard", "level"): [None, 3, "zero3"],
    ("shard", "ranks"): [None, 0, 1.5, "8", True],
    ("shard", "ahead"): [None, 0, 1.5, "8", "all", True, [1, 0]],
    ("shard", "reduce"): [None, "all", 1],
    ("shard", "gather"): [None, "x", 1],
    ("side item", "forward"): [None, 1, (), (-1,), (nan,), ("x",), (ALIEN,)],
    ("side item", "backward"): [1, (), (-1,), (nan,), ("x",), (ALIEN,)],
    ("side item", "devices"): [None, 0, (), (1, 1), (-1,), (0.5,)],
    ("side item", "into"): [None, -1, 0.5, "1"],
    **{("side item", key): [None, -1, nan, "x", (1, 1)] for key in ("p2p", "activation", "output", "static")},
    ("side item", "name"): [None, 1, "two\nlines"],
    ("problem", "mode"): [None, 1, "training"],
    ("problem", "rounds"): [None, 0, -1, 1.5, "2", True, 2],
    ("report", "objective"): [None, "time", 5, ALIEN],
    ("report", "status"): [None, "optimal", StoppedBy.PROOF],
    **{("report", key): [None, 24, OUTCOME] for key in ("bound", "makespan_bound")},
    ("report", "value_ticks"): [None, -1, 1.5, "24", True],
    ("report", "seconds"): [None, -1, nan, inf, "1"],
    ("report", "stopped_by"): [None, "proof", Status.OPTIMAL],
    ("report", "source"): [None, 1, "two\nlines"],
    ("report", "heuristic"): [1, "list", ("list", 24)],
    ("report", "placements"): [None, 5, "linear", [1], ["two\nlines"]],
    ("report", "covers"): [None, 1, "two\nlines"],
    ("report", "cut_off"): [None, 5, "cuts", [1], ["two\nlines"]],
    ("report", "not_tried"): [None, 5, "hanayo", [1], ["two\nlines"]],
    ("frontier", "covers"): [None, 1, "two\nlines"],
    ("entry", "frozen"): [None, 1, "x"],
    ("entry", "failed"): [None, 1, "x"],
    ("entry", "algorithm"): [None, 1],
    ("entry", "outcome"): [1, "x", OUTCOME.schedule],
    ("entry", "reason"): [None, 1],
    ("entry", "options"): [None, [], "x", {1: 2}],
    ("entry", "document"): [1, [], {1: 2}],
    ("entry", "trainers"): [1, "x", [1]],
    ("entry", "copies"): [0, "x", 1.5],
    ("entry", "dominated"): [1, "x"],
    ("entry", "standing"): [1, "x"],
    ("entry", "ordering"): [1, "best", (0, 1)],
    ("entry", "cut"): [1, "best", (4, 4)],
    ("entry", "file"): [None, 1],
    ("report", "equal"): [1, [], None],
    ("report", "repetition"): [1, "v", ("v", 6, 1, 5)],
    ("report", "cuts"): [1, (3, 1), {"layout": [1]}],
    ("report", "advice"): [1, "split", [("split backward", 3, -1)], [None]],
    ("varied", "value"): [None, "4", -1, True, nan, [1]],
    ("varied", "comparison"): [None, [], OUTCOME],
    **{("family", key): [None, 1, "two\nlines"] for key in ("name", "needs", "bubble", "memory", "paper", "elsewhere")},
    ("family", "plan"): [None, "plan", 5],
    ("family", "placement"): [None, "somewhere", 5, ["loop"]],
    ("family", "chunks"): [None, 0, "2P", 1.5],
    ("family", "options"): [None, 5, "lifo", [1], [None]],
    ("family", "required"): [None, 5, "lifo", [1], ["lifo"]],
    **{("family", key): [5, "x"] for key in ("requires", "most_chunks")},
    **{("family", key): [None, 1, "yes"] for key in FLAGS},
    ("family", "splits_backward"): [1, "yes"],
    **{
        ("family", key): [None, 1, "two\nlines"]
        for key in ("same_with_one_stage", "same_without_slices", "with_slices", "origin", "summary", "title")
    },
    ("bound", "ticks"): [None, -1, 1.5, "x", True],
    ("bound", "reason"): [None, 1, "two\nlines"],
    ("bound", "per_unit"): [None, 0, 1.5],
    ("outcome", "algorithm"): [None, 1, "two\nlines"],
    ("outcome", "schedule"): [None, "x", OUTCOME],
    ("outcome", "report"): [1, "x", OUTCOME.schedule],
    ("outcome", "ordering"): [1, "x", OUTCOME.schedule],
    ("outcome", "is_grouped"): [1, "x", None],
    ("outcome", "cut"): [1, "best", (4, 4)],
    **{("comparison", key): [None, 1, "two\nlines"] for key in ("time_unit", "memory_unit")},
    ("comparison", "entries"): [None, 5, "1f1b", [None], ["1f1b"], [COMPARISON]],
    ("sweep", "field"): [None, 5, "two\nlines"],
    ("sweep", "known_unit"): [None, 5, "two\nlines"],
    ("sweep", "points"): [None, 5, [None], [COMPARISON]],
    ("frontier", "points"): [None, 5, [None], [OUTCOME]],
    ("frontier", "objective"): [None, "time", 5],
    **{("frontier", key): [None, 5, "two\nlines"] for key in ("time_unit", "memory_unit")},
}


@pytest.mark.parametrize(("noun", "field"), WRONG)
def test_a_wrong_value_is_refused(noun: str, field: str) -> None:
    """Replacing one field of a noun by what it cannot be is a ConfigError about a parameter, on one line."""
    for value in WRONG[noun, field]:
        with pytest.raises(ConfigError) as caught:
            replace(NOUNS[noun], **{field: value})
        assert caught.value.key == blamed(noun, field, value), repr(value)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 300


def blamed(noun: str, field: str, value: Any) -> str:
    """The parameter that the error names: the field, but for a placement's devices, and where two fields disagree."""
    if (noun, field) == ("placement", "devices"):
        return "placement"
    if noun in ("shard", "side item"):  # which are about the parameter that they are an entry of
        return noun.partition(" ")[0]
    if value == (1, 1) and field in ("forward", "activation"):  # the number of stages, which the next one lacks
        return "backward_input" if field == "forward" else "retain"
    if (noun, field) == ("schedule", "problem") and isinstance(value, pipesched.Problem):
        return "plan"
    return field


def test_every_field_of_a_noun_is_refused_something() -> None:
    """The table above has a row for each field of each noun that is made by hand."""
    made = ("shard", "side item", "problem", "costs", "memory", "layers", "part", "placement", "plan", "schedule",
            "bound", "outcome", "report", "entry", "comparison", "varied", "sweep", "frontier", "family")  # fmt: skip
    assert {(noun, field.name) for noun in made for field in fields(NOUNS[noun]) if field.init} == set(WRONG)


@pytest.mark.parametrize("noun", NOUNS)
def test_pickle_and_copies(noun: str) -> None:
    """What comes back from pickle, and a deep copy, is of the same type, and has the same text."""
    made = NOUNS[noun]
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert type(again) is type(made)
        assert repr(again) == repr(made)
        assert contents(again) == contents(made)


def contents(noun: Any) -> Any:
    """All that a noun holds, as plain values: what documents say of it, and its fields."""
    if isinstance(noun, pipesched.Schedule):
        noun = pipesched.Outcome("x", noun)
    writers: list[tuple[type, Callable[[Any], dict[str, Any]]]] = [
        (pipesched.Outcome, document),
        (pipesched.Comparison, comparison_document),
        (pipesched.Sweep, sweep_document),
        (pipesched.Frontier, frontier_document),
    ]
    for kind, write in writers:
        if isinstance(noun, kind):
            return dump(write(noun))
    if isinstance(noun, SweepPoint):
        return [noun.value, contents(noun.comparison)]
    if isinstance(noun, pipesched.Entry):
        return [noun.algorithm, contents(noun.outcome), noun.reason, noun.options]
    if isinstance(noun, pipesched.FrontierPoint):
        return [noun.budget, noun.value, noun.bound, noun.gap, noun.status, contents(noun.outcome)]
    if isinstance(noun, pipesched.Plan):
        return [noun.index, *map(list, noun.machines), noun.pairs, noun.note, list(noun.waits)]
    return noun


def integers(problem: pipesched.Problem) -> list[object]:
    """Return the costs and sizes of a problem in ticks and grains."""
    ticks, grains = problem.ticks, problem.grains
    return [ticks.per_unit, ticks.rows, grains.per_unit, grains.rows, grains.static, grains.budget]


def test_what_is_cached_is_not_pickled() -> None:
    """A schedule is as short in pickle after its metrics were asked for as before."""
    schedule = pipesched.run(PROBLEM, "interleaved").schedule
    fresh = pickle.loads(pickle.dumps(schedule))
    before = len(pickle.dumps(fresh))
    assert (fresh.bubble, fresh.peak_memory) == (schedule.bubble, schedule.peak_memory)
    assert len(pickle.dumps(fresh)) == before
    problem = pickle.loads(pickle.dumps(PROBLEM))
    assert problem == PROBLEM
    assert integers(problem) == integers(PROBLEM)


@pytest.mark.slow
def test_formats_survive_pickle() -> None:
    """A format comes back with writers that work."""
    for form, again in zip(pipesched.formats(), pickle.loads(pickle.dumps(pipesched.formats())), strict=True):
        assert (again.name, again.suffix, again.holds, again.reads) == (form.name, form.suffix, form.holds, form.reads)
        if "schedule" in form.writers and form.name not in FIGURES:
            assert again.writers["schedule"](OUTCOME, View()) == form.writers["schedule"](OUTCOME, View())


@given(problems(ALL_PLACEMENTS, overlap=True, saving=True))
def test_any_problem_survives_pickle(problem: pipesched.Problem) -> None:
    """Equal after pickle, costs and sizes in integers too, and of the same hash."""
    again = pickle.loads(pickle.dumps(problem))
    assert (again, integers(again), hash(again)) == (problem, integers(problem), hash(problem))


SHORT = {
    "problem": "Problem('mine', devices=2, stages=4, microbatches=3, placement=loop)",
    "costs": "Costs(forward=[1.5, 2, 2, 1], backward=[3, 4, 4, 2], stages=4)",
    "memory": "Memory(activation=0.5, budget=7, unit='microbatch')",
    "plan": "Plan(2 devices, 24 operations of F/B)",
    "schedule": "Schedule(2 devices, 3 microbatches, makespan 32.5)",
    "bound": "Bound(32.5, 'device 1: first input after 2, work 27, then 3.5 until the last gradient is home')",
    "outcome": "Outcome('interleaved', makespan 32.5, optimal)",
    "solved": "Outcome('solve', makespan 24, optimal)",
    "report": "SolveReport(makespan 24, bound 24, optimal)",
    "comparison": "Comparison(1f1b n/a, interleaved 32.5, list 32.5)",
    "sweep": "Sweep(microbatches=[4, 6])",
    "entry": "Entry('interleaved', makespan 32.5)",
    "varied": "SweepPoint(4, 2 algorithms)",
    "catalogue": "Catalogue(sequential, naive, 1f1b, seq-1f1b, eager-1f1b, 1f1b-overlap, .. 27 in all)",
    "family": "Family('interleaved', placement=loop, needs='S = VP, any M; groups of at least P, or others that run')",
    "packing": "Packing(4 documents, 2 ranks x 2 microbatches, '1f1b', makespan 4.75)",
    "frontier": "Frontier(makespan by budget 1: 18, 2: 12)",
}


@pytest.mark.parametrize("noun", SHORT)
def test_short_texts(noun: str) -> None:
    """A noun prints what people ask first: names, sizes, the makespan; on one line."""
    assert repr(NOUNS[noun]) == SHORT[noun]


LABEL = "name " * 60
MANY: dict[str, Callable[[], Any]] = {
    "problem": lambda: pipesched.make_problem(devices=64, name=LABEL, placement=[*range(64)][::-1]),
    "costs": lambda: pipesched.make_problem(devices=1024, forward=[*range(1024)]).costs,
    "memory": lambda: (
        pipesched.make_problem(devices=99, activation=[*range(99)], budget=range(1, 100), unit=LABEL).memory
    ),
    "outcome": lambda: pipesched.Outcome(LABEL, OUTCOME.schedule),
    "comparison": lambda: pipesched.compare(pipesched.make_problem(devices=4, stages=8), "all"),
    "sweep": lambda: pipesched.Sweep(LABEL, tuple(pipesched.sweep(None, "microbatches", range(1, 31), "1f1b"))),
    "catalogue": lambda: Catalogue(pipesched.algorithms() * 3),
    "family": lambda: replace(family("1f1b"), name=LABEL, needs=LABEL),
    "graph": lambda: hls.parse_program("+".join("abcdefgh"), LABEL),
}


@pytest.mark.parametrize("made", MANY.values(), ids=MANY)
def test_long_texts_are_cut(made: Callable[[], Any]) -> None:
    """However many stages, values or entries it has, and whatever its name is, a noun prints a short line."""
    assert len(repr(made())) < 120
    assert repr(made()).isprintable()


@given(problems(SETTLED, overlap=True), st.randoms(use_true_random=False))
def test_figures_in_the_users_units_are_the_metrics(problem: pipesched.Problem, random: Any) -> None:
    """Properties with the names of metrics are the document's numbers; ticks and grains are the same, scaled."""
    schedule = pipesched.schedule_plan(problem, plan_of(problem, random_plan(problem, random, split=0.5)))
    written = json.loads(dump(document(pipesched.Outcome("random", schedule))))["metrics"]
    for name in ("makespan", "span", "ideal", "busy", "idle", "peak_memory", "bubble", "bubble_over_ideal",
                 "bubble_span", "fits"):  # fmt: skip
        assert getattr(schedule, name) == written[name]
    unit, grain = problem.ticks.per_unit, problem.grains.per_unit
    for name in ("makespan", "span", "ideal"):
        assert getattr(schedule, name) == getattr(schedule, f"{name}_ticks") / unit
    for name in ("busy", "idle"):
        assert getattr(schedule, name) == [ticks / unit for ticks in getattr(schedule, f"{name}_ticks")]
    assert schedule.peak_memory == [grains / grain for grains in schedule.peak_grains]
