"""The public API: every name is documented where users look for it, and every function refuses what it cannot use."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import count, repeat
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pipesched
import pipesched.hls
from pipesched import ConfigError, hls, runtime

ROOT = Path(__file__).parent.parent
API = ROOT / "docs" / "reference" / "api"
MODULES = [pipesched, pipesched.hls]
NAMES = [(module, name) for module in MODULES for name in module.__all__ if name != "__version__"]
FUNCTIONS = [(module, name) for module, name in NAMES if inspect.isfunction(getattr(module, name))]


WITHOUT_EXTRAS = """
import importlib.util, sys
extras = ("matplotlib", "textual", "distributed", "dask", "torch", "IPython")
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *others: None if name in extras else find_spec(name, *others)
class Nothing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in extras:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing)
import inspect, pipesched
from pipesched import *
assert hasattr(pipesched, "figure") and callable(figure), "figure"
assert {name for name, _ in inspect.getmembers(pipesched)} >= {*pipesched.__all__}, "members"
assert dir(pipesched) == sorted(pipesched.__all__), "dir"
assert callable(compare) and callable(pipesched.compare), "a folder hides a function"
try:
    figure(run(load(), "1f1b"))
except ConfigError as error:
    assert "pip install 'pipesched[plot]'" in str(error), error
else:
    raise AssertionError("a figure without matplotlib")
"""


def test_every_name_loads_without_extras() -> None:
    """All names can be had, listed and inspected where no extra is installed; only drawing a figure asks for one."""
    result = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def entries() -> list[str]:
    """The names that the pages of the API reference document."""
    return [name for page in API.glob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.M)]


def test_every_public_name_has_one_entry() -> None:
    """The pages document `__all__` and nothing else, and the first of them says which page has which name."""
    others = [f"pipesched.runtime.{name}" for name in runtime.__all__]  # which need PyTorch to be looked up
    others.append("pipesched.testing.check_family")
    assert sorted(entries()) == sorted([*(f"{module.__name__}.{name}" for module, name in NAMES), *others])
    start = (API / "index.md").read_text("utf-8")
    assert [name for module, name in NAMES if module is pipesched and f"`{name}`" not in start] == []


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda value: getattr(value, "__name__", value))
def test_every_public_name_says_what_it_is(module: ModuleType, name: str) -> None:
    """A docstring of its own, and a first line that is a sentence."""
    documented = getattr(module, name)
    docstring = inspect.cleandoc(documented.__doc__ or "")
    assert docstring.partition("\n")[0].endswith((".", ":", ","))
    assert not docstring.startswith(f"{name}(")  # the one that dataclasses write by themselves


@pytest.mark.parametrize(("module", "name"), FUNCTIONS, ids=lambda value: getattr(value, "__name__", value))
def test_functions_document_arguments_and_errors(module: ModuleType, name: str) -> None:
    """Every parameter stands in the docstring, and a function that takes one says what it raises."""
    function = getattr(module, name)
    docstring, parameters = inspect.getdoc(function) or "", list(inspect.signature(function).parameters)
    said = re.findall(r"^ *(?:\*\*)?(\w+): ", docstring, re.M) + re.findall(r"`(\w+)`", docstring)
    if module is pipesched and len(parameters) > 2:
        assert [parameter for parameter in parameters if parameter not in said] == []
    assert "Raises" in docstring or not parameters or name == "interval_bounds"


P2: dict[str, Any] = {"devices": 2, "microbatches": 2}
PROBLEM = pipesched.make_problem(**P2)
PLAN = pipesched.plan(PROBLEM, ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"])
SCHEDULE = pipesched.schedule_plan(PROBLEM, PLAN)
OUTCOME = pipesched.run(PROBLEM, "1f1b")
ROWS = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]
OFFLOAD = pipesched.make_problem(**P2, offload=1)
FRONTIER = pipesched.frontier(PROBLEM, time_limit=5)
COMPARISON = pipesched.compare(PROBLEM, ["1f1b"])
SWEEP = pipesched.sweep(None, "microbatches", [2, 4, 8], ["1f1b"])
GRAPH, UNITS = hls.parse_program("a*b + c"), hls.make_units()
TRAINING = "model: llama-3-8b\nhardware: h100-sxm\nparallel: {gpus: 8}\nbatch: {sequence: 4096, global: 32}\n"
HUGE = 10**5000  # more digits than Python writes
SCALAR, ARRAY = np.array(4), np.array(["1f1b", "naive"])
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]

BAD: list[tuple[Callable[[], Any], str]] = [  # a call, and the parameter that its error is about
    (lambda: pipesched.make_problem(devices=0), "devices"),
    (lambda: pipesched.make_problem(devices=2.5), "devices"),
    (lambda: pipesched.make_problem(devices=2, stages=3, placement="v"), "placement"),
    (lambda: pipesched.make_problem(**P2, forward=[1, 2, 3]), "forward"),
    (lambda: pipesched.make_problem(**P2, forward=-1), "forward"),
    (lambda: pipesched.make_problem(**P2, backward="fast"), "backward"),
    (lambda: pipesched.make_problem(**P2, backward=2, backward_input=1), "backward_input"),
    (lambda: pipesched.make_problem(**P2, p2p=float("nan")), "p2p"),
    (lambda: pipesched.make_problem(**P2, placement=[0, 2]), "placement"),
    (lambda: pipesched.make_problem(**P2, placement="lop"), "placement"),
    (lambda: pipesched.make_problem(**P2, budget=0), "budget"),
    (lambda: pipesched.make_problem(**P2, retain=-2), "retain"),
    (lambda: pipesched.make_problem(**P2, lanes="triple"), "lanes"),
    (lambda: pipesched.make_problem(devices=2, microbatches=10**9), "microbatches"),
    (lambda: pipesched.load("no-such-file.yaml"), "path_or_text"),
    (lambda: pipesched.load(42), "path_or_text"),  # type: ignore[arg-type]
    (lambda: pipesched.load(None, device=4), "device"),
    (lambda: pipesched.load(None, microbatches="many"), "microbatches"),
    (lambda: dataclasses.replace(PROBLEM, microbatches=0), "microbatches"),
    (lambda: dataclasses.replace(PROBLEM, costs=None), "costs"),  # type: ignore[arg-type]
    (lambda: dataclasses.replace(PROBLEM.costs, forward=[1, -1]), "forward"),  # type: ignore[arg-type]
    (lambda: dataclasses.replace(PROBLEM.memory, activation=(1, -1)), "activation"),
    (lambda: pipesched.Placement((0, 2)), "placement"),
    (lambda: pipesched.run(PROBLEM, "1f2b"), "algorithm"),
    (lambda: pipesched.run("1f1b", "1f1b"), "problem"),  # type: ignore[arg-type]
    (lambda: pipesched.run(PROBLEM, "1f1b", group_size=2), "group_size"),
    (lambda: pipesched.run(PROBLEM, "interleaved", group_size=0), "group_size"),
    (lambda: pipesched.compare(PROBLEM, []), "algorithms"),
    (lambda: pipesched.compare(PROBLEM, ["naive", "naiv"]), "algorithms"),
    (lambda: pipesched.compare(PROBLEM, ["naive"], jobs=-1), "jobs"),
    (lambda: pipesched.compare(PROBLEM, ["naive"], wait=3), "wait"),
    (lambda: pipesched.sweep(None, "colour", [1]), "field"),
    (lambda: pipesched.sweep(None, "microbatches", []), "values"),
    (lambda: pipesched.sweep(None, "microbatches", [0]), "microbatches"),
    (lambda: pipesched.solve(PROBLEM, time_limit=-1), "time_limit"),
    (lambda: pipesched.solve(PROBLEM, workers=-3), "workers"),
    (lambda: pipesched.solve(PROBLEM, placement="lop"), "placement"),
    (lambda: pipesched.solve(PROBLEM, offload=True), "offload"),
    (lambda: pipesched.solve(PROBLEM, stop=True), "stop"),  # type: ignore[arg-type]
    (lambda: pipesched.solve(PROBLEM, listener="print"), "listener"),  # type: ignore[arg-type]
    (lambda: pipesched.frontier(PROBLEM, gap="5 %"), "gap"),  # type: ignore[arg-type]
    (lambda: pipesched.frontier(PROBLEM, objective="bubble"), "objective"),
    (lambda: pipesched.plan(PROBLEM, ["0F0 0F1 0B0 0B1"]), "orders"),
    (lambda: pipesched.plan(PROBLEM, ["0F0 0F0 0B0 0B1", "1F0"]), "orders"),
    (lambda: pipesched.plan(PROBLEM, [["0X0"], []]), "orders"),
    (lambda: pipesched.plan(PROBLEM, 7), "orders"),  # type: ignore[arg-type]
    (lambda: pipesched.plan(PROBLEM, PLAN.orders, waits=["0F0"]), "orders"),  # type: ignore[arg-type, list-item]
    (lambda: pipesched.schedule_plan(PROBLEM, [["0F0"]]), "plan"),  # type: ignore[arg-type]
    (lambda: pipesched.schedule_plan(pipesched.make_problem(devices=3), PLAN), "plan"),
    (lambda: pipesched.check("schedule.json"), "schedule"),
    (lambda: pipesched.read("no-such-file.json"), "path_or_file"),
    (lambda: pipesched.read(1), "path_or_file"),  # type: ignore[arg-type]
    (lambda: pipesched.read(ROOT / "README.md", problem="none"), "problem"),  # type: ignore[arg-type]
    (lambda: pipesched.write(OUTCOME, "schedule.docx"), "path"),
    (lambda: pipesched.write(OUTCOME, "schedule", format="word"), "format"),
    (lambda: pipesched.write(OUTCOME, ROOT / "README.md", format="json"), "path"),
    (lambda: pipesched.write("1f1b", "schedule.json"), "result"),
    (lambda: pipesched.figure("1f1b"), "result"),
    (lambda: pipesched.figure(OUTCOME, inches=-1), "inches"),
    (lambda: pipesched.Gantt(OUTCOME, zoom=0), "zoom"),
    (lambda: pipesched.Gantt(OUTCOME, start=5, end=5), "end"),
    (lambda: pipesched.Gantt(OUTCOME, rows=[2]), "rows"),
    (lambda: pipesched.Table(3), "result"),
    # What is no number, or no list, in one way or another.
    (lambda: pipesched.make_problem(devices=HUGE), "devices"),
    (lambda: pipesched.make_problem(devices=DEEP), "devices"),  # type: ignore[arg-type]
    (lambda: pipesched.make_problem(**P2, forward=HUGE), "forward"),
    (lambda: pipesched.make_problem(**P2, forward=Fraction(HUGE, 3)), "forward"),
    (lambda: pipesched.make_problem(**P2, forward=DEEP), "forward"),
    (lambda: pipesched.make_problem(**P2, forward=range(10**9)), "forward"),
    (lambda: pipesched.make_problem(**P2, forward=range(10**30)), "forward"),
    (lambda: pipesched.make_problem(**P2, forward=count(1)), "forward"),  # type: ignore[arg-type]
    (lambda: pipesched.make_problem(**P2, forward={"a": 1}), "forward"),  # type: ignore[arg-type]
    (lambda: pipesched.make_problem(**P2, backward=Fraction(1, 3)), "backward"),
    (lambda: pipesched.make_problem(**P2, placement=SCALAR), "placement"),  # type: ignore[arg-type]
    (lambda: pipesched.make_problem(**P2, placement=count()), "placement"),  # type: ignore[arg-type]
    (lambda: pipesched.make_problem(**P2, lanes=ARRAY), "lanes"),  # type: ignore[arg-type]
    (lambda: pipesched.make_problem(devices=4, stages=2), "stages"),
    (lambda: pipesched.make_problem(devices=4, stages=2, placement=None), "stages"),
    (lambda: pipesched.make_problem(devices=999_999_999, stages=2, microbatches=2, budget=4), "stages"),
    (lambda: dataclasses.replace(PROBLEM, devices=10**30), "devices"),
    (lambda: dataclasses.replace(PROBLEM.costs, forward=(HUGE, 1)), "forward"),
    (lambda: pipesched.run(PROBLEM, "x" * 100_000), "algorithm"),
    (lambda: pipesched.run(PROBLEM, "block"), "period"),
    (lambda: pipesched.run(PROBLEM, "block", period=6, forward=None), "forward"),
    (lambda: pipesched.run(PROBLEM, "block", period=6, forward=[0, 1]), "backward"),
    (lambda: pipesched.compare(PROBLEM, ARRAY), "algorithms"),  # type: ignore[arg-type]
    (lambda: pipesched.compare(PROBLEM, each=ARRAY), "each"),  # type: ignore[arg-type]
    (lambda: pipesched.compare(PROBLEM, each=0), "each"),  # type: ignore[arg-type]
    (lambda: pipesched.compare(PROBLEM, each={"1f2b": {}}), "each"),
    (lambda: pipesched.compare(PROBLEM, "list", each={"list": {1: 1}}), "each"),  # type: ignore[dict-item]
    (lambda: pipesched.compare(PROBLEM, "1f1b", each={"interleaved": {"group_size": 2}}), "each"),
    (lambda: pipesched.compare(PROBLEM, "naive", each={"naive": {}, "gpipe": {}}), "each"),
    (lambda: pipesched.sweep(None, [1], [4]), "field"),  # type: ignore[arg-type]
    (lambda: pipesched.sweep(None, ARRAY, [4]), "field"),  # type: ignore[arg-type]
    (lambda: pipesched.sweep(None, "stages", SCALAR), "values"),  # type: ignore[arg-type]
    (lambda: pipesched.sweep(None, "stages", [4], overrides="x"), "overrides"),  # type: ignore[arg-type]
    (lambda: pipesched.sweep(None, "stages", [4], overrides=ARRAY), "overrides"),  # type: ignore[arg-type]
    (lambda: pipesched.sweep(None, "stages", [4], overrides={"stages": 2}), "overrides"),
    (lambda: pipesched.plan(PROBLEM, SCALAR), "orders"),  # type: ignore[arg-type]
    (lambda: pipesched.plan(PROBLEM, [SCALAR, ""]), "orders"),  # type: ignore[list-item]
    (lambda: pipesched.plan(PROBLEM, repeat("")), "orders"),  # type: ignore[arg-type]
    (lambda: pipesched.plan(PROBLEM, [repeat("0F0"), ""]), "orders"),  # type: ignore[list-item]
    (lambda: pipesched.plan(PROBLEM, ROWS, waits=5), "waits"),  # type: ignore[arg-type]
    (lambda: pipesched.plan(PROBLEM, ROWS, waits=None), "waits"),  # type: ignore[arg-type]
    (lambda: pipesched.plan(PROBLEM, ROWS, waits=[(1, 2)]), "waits"),  # type: ignore[list-item]
    (lambda: pipesched.plan(PROBLEM, ROWS, transfers=0), "transfers"),  # type: ignore[arg-type]
    (lambda: pipesched.plan(PROBLEM, ROWS, transfers=False), "transfers"),  # type: ignore[arg-type]
    (lambda: pipesched.plan(PROBLEM, ROWS, transfers=""), "transfers"),
    (lambda: pipesched.plan(PROBLEM, ROWS, transfers=ARRAY), "transfers"),  # type: ignore[arg-type]
    (lambda: pipesched.plan(OFFLOAD, ROWS, transfers=[["0O0", "0O0"], []]), "transfers"),
    (lambda: pipesched.plan(OFFLOAD, ROWS, transfers=[["0O9"], []]), "transfers"),
    (lambda: pipesched.schedule_plan(pipesched.make_problem(devices=2, stages=4), PLAN), "plan"),
    (lambda: pipesched.schedule_plan(PROBLEM, pipesched.plan(PROBLEM, ["0F0 1F0 1B0 0B0", ""])), "plan"),
    (lambda: PLAN.slots("x"), "device"),  # type: ignore[arg-type]
    (lambda: PLAN.slots(9), "device"),
    (lambda: PLAN.slots(-1), "device"),
    (lambda: PLAN.count(["F"]), "kind"),  # type: ignore[arg-type]
    (lambda: SCHEDULE.timeline(1.0), "device"),  # type: ignore[arg-type]
    (lambda: SCHEDULE.memory_steps(9), "device"),
    (lambda: dataclasses.replace(SCHEDULE, start_ticks=[0.5] * 8), "start_ticks"),  # type: ignore[list-item]
    (lambda: pipesched.Op(0, [], 0), "kind"),  # type: ignore[arg-type]
    (lambda: pipesched.Pair(pipesched.Op(0, "B", 0), pipesched.Op(0, "F", 1)), "forward"),
    (lambda: pipesched.Pair(pipesched.Op(0, "F", 0), "0B0"), "backward"),  # type: ignore[arg-type]
    # What a chart or a figure cannot use.
    (lambda: pipesched.Gantt(OUTCOME, rows=5), "rows"),  # type: ignore[arg-type]
    (lambda: pipesched.Gantt(OUTCOME, rows=False), "rows"),  # type: ignore[arg-type]
    (lambda: pipesched.Gantt(OUTCOME, rows=range(10**9)), "rows"),
    (lambda: pipesched.Gantt(OUTCOME, together="x"), "together"),  # type: ignore[arg-type]
    (lambda: pipesched.Gantt(OUTCOME, together=False), "together"),  # type: ignore[arg-type]
    (lambda: pipesched.Gantt(OUTCOME, together=""), "together"),  # type: ignore[arg-type]
    (lambda: pipesched.Gantt(OUTCOME, together=ARRAY), "together"),  # type: ignore[arg-type]
    (lambda: pipesched.Gantt(OUTCOME, together=[PLAN]), "together"),  # type: ignore[list-item]
    *((lambda bad=bad: pipesched.Gantt(OUTCOME, until=bad), "until") for bad in ("x", math.inf, 2.5, True, -1, 0)),
    *((lambda bad=bad: pipesched.Gantt(OUTCOME, show_legend=bad), "show_legend") for bad in (1, None, "no", ARRAY)),
    *((lambda bad=bad: pipesched.Gantt(OUTCOME, zoom=bad), "zoom") for bad in (10**400, Decimal("sNaN"), SCALAR)),
    *((lambda bad=bad: pipesched.Gantt(OUTCOME, fold=bad), "fold") for bad in (1, "yes", math.nan, ARRAY)),
    (lambda: pipesched.Gantt(OUTCOME, fold=True, zoom=2), "fold"),
    (lambda: pipesched.Gantt(OUTCOME, fold=True, start=1), "fold"),
    (lambda: pipesched.figure(OUTCOME, inches=10**400), "inches"),
    (lambda: pipesched.figure(OUTCOME, charts=1), "charts"),
    (lambda: pipesched.figure(OUTCOME, show="memory"), "show"),
    *((lambda bad=bad: pipesched.figure(COMPARISON, charts=bad), "charts") for bad in (-1, 1.5, "few", ARRAY, [1])),
    *((lambda bad=bad: pipesched.figure(SWEEP, show=bad), "show") for bad in ("time", 5, ARRAY, [1], "x" * 10**5)),
    (lambda: pipesched.figure(SWEEP, start=1), "start"),
    (lambda: pipesched.figure(SWEEP, charts=1), "charts"),
    (lambda: pipesched.figure(COMPARISON, show="memory"), "show"),
    (lambda: pipesched.figure(FRONTIER, start=1), "start"),
    (lambda: pipesched.figure(FRONTIER, end=1), "end"),
    (lambda: pipesched.figure(FRONTIER, zoom=2), "zoom"),
    (lambda: pipesched.figure(FRONTIER, label="op"), "label"),
    (lambda: pipesched.figure(FRONTIER, memory=False), "memory"),
    (lambda: pipesched.tune("no-such-file.yaml"), "path_or_text"),
    (lambda: pipesched.tune(42), "path_or_text"),  # type: ignore[arg-type]
    (lambda: pipesched.tune(None), "model"),
    (lambda: pipesched.tune(TRAINING, ["1f2b"]), "algorithms"),
    (lambda: pipesched.tune(TRAINING, []), "algorithms"),
    *((lambda bad=bad: pipesched.tune(TRAINING, top=bad), "top") for bad in (0, 2.5, "few", True, HUGE)),
    *((lambda bad=bad: pipesched.tune(TRAINING, time_limit=bad), "time_limit") for bad in (-1, math.nan, "x", ARRAY)),
    (lambda: pipesched.tune(TRAINING, jobs=-1), "jobs"),
    (lambda: pipesched.tune(TRAINING, executor="lokal"), "executor"),
    (lambda: pipesched.tune(TRAINING, resume=5), "resume"),  # type: ignore[arg-type]
    (lambda: pipesched.tune(TRAINING, stop=True), "stop"),  # type: ignore[arg-type]
    (lambda: pipesched.tune(TRAINING, listener="print"), "listener"),  # type: ignore[arg-type]
    (lambda: pipesched.tune(TRAINING, parallel={"tensor": [2, "x"]}), "parallel.tensor"),
    (lambda: pipesched.robustness("1f1b"), "outcomes"),
    *((lambda bad=bad: pipesched.robustness(OUTCOME, noise=bad), "noise") for bad in (-1, math.nan, "x", ARRAY, HUGE)),
    *((lambda bad=bad: pipesched.robustness(OUTCOME, samples=bad), "samples") for bad in (1, 2.5, ARRAY, HUGE, None)),
    *((lambda bad=bad: pipesched.robustness(OUTCOME, straggler=bad), "straggler") for bad in (0, -1, math.inf, DEEP)),
    # High-level synthesis.
    (lambda: hls.parse_program(None), "text"),  # type: ignore[arg-type]
    (lambda: hls.parse_program("a + b", 5), "name"),  # type: ignore[arg-type]
    (lambda: hls.parse_program("a + b", loop=1), "loop"),  # type: ignore[arg-type]
    (lambda: hls.parse_program("a"), "text"),
    (lambda: hls.make_units(5), "counts"),  # type: ignore[arg-type]
    (lambda: hls.make_units({"mul": 1.5}), "counts"),  # type: ignore[dict-item]
    (lambda: hls.make_units({"mul": 1, "MUL": 2}), "counts"),
    (lambda: hls.make_units({1: 1}), "counts"),  # type: ignore[dict-item]
    (lambda: hls.make_units(latencies=None), "latencies"),  # type: ignore[arg-type]
    (lambda: hls.make_units(latencies={"mul": 0}), "latencies"),
    (lambda: hls.make_units(pipelined="mul"), "pipelined"),
    (lambda: hls.make_units(pipelined=[1]), "pipelined"),  # type: ignore[list-item]
    (lambda: hls.list_outcome(5, UNITS), "graph"),  # type: ignore[arg-type]
    (lambda: hls.list_outcome(GRAPH, 5), "units"),  # type: ignore[arg-type]
    (lambda: hls.list_outcome(GRAPH, [5]), "units"),  # type: ignore[arg-type]
    (lambda: hls.list_outcome(GRAPH, UNITS + UNITS), "units"),
    (lambda: hls.list_outcome(GRAPH, UNITS, priority=None), "priority"),  # type: ignore[arg-type]
    (lambda: hls.list_outcome(GRAPH, UNITS, priority=[1, 2]), "priority"),  # type: ignore[arg-type]
    (lambda: hls.list_outcome(GRAPH, UNITS, tie="best"), "tie"),
    (lambda: hls.list_outcome(GRAPH, UNITS, seed=math.nan), "seed"),  # type: ignore[arg-type]
    (lambda: hls.interval_bounds(GRAPH, None), "units"),  # type: ignore[arg-type]
    *(
        (lambda search=search, bad=bad: search(GRAPH, UNITS, **bad), next(iter(bad)))
        for search in (hls.solve, hls.pipeline, hls.compare_rules)
        for bad in ({"time_limit": 0}, {"time_limit": "1"}, {"workers": -1}, {"workers": 1.5}, {"seed": math.nan})
    ),
    (lambda: hls.solve(None, UNITS), "graph"),  # type: ignore[arg-type]
    (lambda: hls.UnitClass("mul", -1), "count"),
    (lambda: hls.UnitClass("mul", 1, latency=0), "latency"),
    (lambda: hls.DataflowGraph(()), "operations"),
    (lambda: hls.DataflowGraph(5), "operations"),  # type: ignore[arg-type]
    (lambda: hls.DataflowGraph((hls.Operation("a", "add"),), (hls.Dependence(0, 1),)), "dependences"),
    (lambda: hls.DataflowGraph((hls.Operation("a", "add"),), (hls.Dependence(0, 0),)), "dependences"),
]


@pytest.mark.parametrize(("call", "key"), BAD, ids=range(len(BAD)))
def test_a_bad_call_is_an_error_about_the_parameter(call: Callable[[], Any], key: str) -> None:
    """A ConfigError of one line whose `key` is the parameter, and which speaks of no flag of the command line."""
    with pytest.raises(ConfigError) as caught:
        call()
    assert caught.value.key == key, str(caught.value)
    assert "--" not in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 560


def test_arrays_without_dimensions_are_numbers() -> None:
    """An array that holds one value and has no dimensions counts as that value, wherever a number is due."""
    problem = pipesched.make_problem(devices=np.array(2), forward=np.array(4), budget=np.array(2.5))  # type: ignore[arg-type]
    assert (problem.devices, problem.costs.forward, problem.memory.budget) == (2, (4, 4), (2.5, 2.5))
    swept = pipesched.sweep(None, "microbatches", [np.array(4)], "1f1b")
    assert [point.value for point in swept] == [4]


def test_numbers_of_numpy_become_ints() -> None:
    """What `replace` puts into a problem, a schedule or an operation is written to JSON like any other number."""
    problem = dataclasses.replace(PROBLEM, microbatches=np.int64(4))
    assert type(problem.microbatches) is int
    ticks = [np.int64(time) for time in SCHEDULE.start_ticks]
    schedule = dataclasses.replace(SCHEDULE, start_ticks=ticks)
    assert list(schedule.start_ticks) == list(SCHEDULE.start_ticks)
    assert {type(time) for time in schedule.start_ticks} == {int}
    assert type(pipesched.Op(np.int64(0), "F", np.int64(1)).stage) is int


def test_a_program_is_shown_with_its_mistake() -> None:
    """The only errors of several lines: with the line of the program and a caret under the mistake."""
    with pytest.raises(ConfigError, match=r"^expression:1:3: invalid syntax\n  a b\n    \^$") as caught:
        hls.parse_program("a b")
    assert caught.value.key == "text"
    with pytest.raises(ConfigError, match=r"^expression:1:2: no unit runs 'mul'; .*\n  a\*b \+ c\n   \^$") as caught:
        hls.list_outcome(GRAPH, hls.make_units({"add": 1}))
    assert caught.value.key == "units"
