"""The public API: every name is documented where users look for it, and every function refuses what it cannot use."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pipesched
import pipesched.hls
from pipesched import ConfigError

ROOT = Path(__file__).parent.parent
API = ROOT / "docs" / "reference" / "api"
MODULES = [pipesched, pipesched.hls]
NAMES = [(module, name) for module in MODULES for name in module.__all__ if name != "__version__"]
FUNCTIONS = [(module, name) for module, name in NAMES if inspect.isfunction(getattr(module, name))]


def entries() -> list[str]:
    """The names that the pages of the API reference document."""
    return [name for page in API.glob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.M)]


def test_every_public_name_has_one_entry() -> None:
    """The pages document `__all__` and nothing else, and the first of them says which page has which name."""
    assert sorted(entries()) == sorted(f"{module.__name__}.{name}" for module, name in NAMES)
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

BAD: list[tuple[Callable[[], Any], str]] = [  # a call, and the parameter that its error is about
    (lambda: pipesched.make_problem(devices=0), "devices"),
    (lambda: pipesched.make_problem(devices=2.5), "devices"),
    (lambda: pipesched.make_problem(devices=2, stages=3, placement="v"), "placement"),
    (lambda: pipesched.make_problem(**P2, forward=[1, 2, 3]), "forward"),
    (lambda: pipesched.make_problem(**P2, forward=-1), "forward"),
    (lambda: pipesched.make_problem(**P2, backward="fast"), "backward"),
    (lambda: pipesched.make_problem(**P2, backward=2, backward_input=1, backward_weight=1), "backward"),
    (lambda: pipesched.make_problem(**P2, p2p=float("nan")), "p2p"),
    (lambda: pipesched.make_problem(**P2, placement=[0, 2]), "placement"),
    (lambda: pipesched.make_problem(**P2, placement="lop"), "placement"),
    (lambda: pipesched.make_problem(**P2, budget=0), "budget"),
    (lambda: pipesched.make_problem(**P2, retain=2), "retain"),
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
    (lambda: pipesched.check("schedule.json"), "schedule"),  # type: ignore[arg-type]
    (lambda: pipesched.read("no-such-file.json"), "path_or_file"),
    (lambda: pipesched.read(1), "path_or_file"),  # type: ignore[arg-type]
    (lambda: pipesched.read(ROOT / "README.md", problem="none"), "problem"),  # type: ignore[arg-type]
    (lambda: pipesched.write(OUTCOME, "schedule.docx"), "path"),
    (lambda: pipesched.write(OUTCOME, "schedule", format="word"), "format"),
    (lambda: pipesched.write(OUTCOME, ROOT / "README.md", format="json"), "path"),
    (lambda: pipesched.write("1f1b", "schedule.json"), "result"),  # type: ignore[arg-type]
    (lambda: pipesched.figure("1f1b"), "result"),  # type: ignore[arg-type]
    (lambda: pipesched.figure(OUTCOME, inches=-1), "inches"),
    (lambda: pipesched.Gantt(OUTCOME, zoom=0), "zoom"),
    (lambda: pipesched.Gantt(OUTCOME, start=5, end=5), "end"),
    (lambda: pipesched.Gantt(OUTCOME, rows=[2]), "rows"),
    (lambda: pipesched.Table(3), "result"),
]


@pytest.mark.parametrize(("call", "key"), BAD, ids=range(len(BAD)))
def test_a_bad_call_is_an_error_about_the_parameter(call: Callable[[], Any], key: str) -> None:
    """A ConfigError of one line whose `key` is the parameter, and which speaks of no flag of the command line."""
    with pytest.raises(ConfigError) as caught:
        call()
    assert caught.value.key == key, str(caught.value)
    assert "--" not in str(caught.value)
    assert str(caught.value).count("\n") == 0
