"""The public API is what the pages say, and `pipesched.testing` finds what is wrong with a family."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pipesched
import pipesched.hls
from pipesched import ConfigError, NotApplicable, Problem, hls, run, runtime
from pipesched.testing import check_family

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
    with pytest.raises(AttributeError, match="module 'pipesched' has no attribute 'magic'"):
        pipesched.magic  # noqa: B018


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


PROBLEM = pipesched.make_problem(devices=2, microbatches=2)
SCHEDULE = pipesched.run(PROBLEM, "1f1b").schedule
GRAPH, UNITS = hls.parse_program("a*b + c"), hls.make_units()


def test_numbers_of_numpy_become_ints() -> None:
    """What `replace` puts into a problem, a schedule or an operation is written to JSON like any other number."""
    problem = dataclasses.replace(PROBLEM, microbatches=np.int64(4))
    assert type(problem.microbatches) is int
    schedule = dataclasses.replace(SCHEDULE, start_ticks=[np.int64(time) for time in SCHEDULE.start_ticks])
    assert list(schedule.start_ticks) == list(SCHEDULE.start_ticks)
    assert {type(time) for time in schedule.start_ticks} == {int}
    assert type(pipesched.Op(np.int64(0), "F", np.int64(1)).stage) is int


def test_parameters_of_make_problem_have_types() -> None:
    """Where mypy no longer sees them, the comment ignores nothing, and mypy says so."""
    with pytest.raises(TypeError, match="'device'"):
        pipesched.make_problem(device=4)  # type: ignore[call-arg]


def test_a_program_is_shown_with_its_mistake() -> None:
    """The only errors of several lines: with the line of the program and a caret under the mistake."""
    with pytest.raises(ConfigError, match=r"^expression:1:3: invalid syntax\n  a b\n    \^$") as caught:
        hls.parse_program("a b")
    assert caught.value.key == "text"
    with pytest.raises(ConfigError, match=r"^expression:1:2: no unit runs 'mul'; .*\n  a\*b \+ c\n   \^$") as caught:
        hls.list_outcome(GRAPH, hls.make_units({"add": 1}))
    assert caught.value.key == "units"


pytestmark = pytest.mark.usefixtures("no_own_families")


@pytest.mark.parametrize("name", ["1f1b", "interleaved", "zb-h1", "dualpipe", "list"])
def test_ours_are_right(name: str) -> None:
    """Families of every number of stages, of two copies, and under a budget, pass."""
    assert check_family(name, n=8) >= 4


def forgets_the_last(problem: Problem) -> Any:
    plan = run(problem, "1f1b").schedule.plan
    rows = [[*map(str, plan.slots(device))] for device in range(problem.devices)]
    return [*rows[:-1], rows[-1][:-1] if problem.microbatches > 3 else rows[-1]]


def by_costs(problem: Problem) -> Any:
    is_long = problem.ticks.mean["forward"][0] > problem.ticks.mean["backward"][0] // 2
    return run(problem, "naive" if is_long else "1f1b").schedule.plan


def as_naive(problem: Problem) -> Any:
    return run(problem, "naive").schedule.plan


def says_no(problem: Problem) -> Any:
    raise NotApplicable("never")


def rarely(problem: Problem) -> Any:
    if (problem.devices, problem.microbatches % 3) != (1, 0):
        raise NotApplicable("nearly never")
    return run(problem, "1f1b").schedule.plan


def never_sliced(problem: Problem) -> Any:
    if problem.slices.are_several:
        raise NotApplicable("it says so too late")
    return run(problem, "1f1b").schedule.plan


def without_slices(problem: Problem) -> Any:
    return [[f"{d}{kind}{m}" for kind in "FB" for m in range(problem.microbatches)] for d in range(problem.devices)]


def of_numbers(problem: Problem) -> Any:
    return [] if problem.sizes else run(problem, "1f1b").schedule.plan


def drops_of_odd(problem: Problem) -> Any:
    if problem.microbatches % 2 == 0:
        return run(problem, "chimera").schedule.plan
    return [[] for _ in range(problem.devices)]


@pytest.mark.parametrize(
    ("function", "facts", "said"),
    [(rarely, {}, "rarely makes a schedule of [1-5] of 60 problems$"),
     (never_sliced, {"slices": True}, "never-sliced makes a schedule of none of [0-9]+ problems for slices=True"),
     (without_slices, {"slices": True}, "without-slices: (.|\n)*slices="),
     (without_slices, {"forward_only": True}, "without-slices: (.|\n)*mode='forward'"),
     (of_numbers, {"looks_at_each": True}, "of-numbers: "),
     (drops_of_odd, {"placement": "bidirectional"}, r"drops-of-odd: (.|\n)*microbatches=[0-9]*[13579],"),
     (forgets_the_last, {}, r"forgets-the-last: .*\non pipesched.make_problem\(devices=.*microbatches=(?!1,|2,|3,)"),
     (by_costs, {"settled_order": True}, "its order depends on costs"),
     (as_naive, {"obeys_budget": True}, "exceeds the budget"),
     (says_no, {}, "says-no makes a schedule of none of 60 problems")],
)  # fmt: skip
def test_what_is_wrong_is_found(function: Callable[[Problem], Any], facts: dict[str, Any], said: str) -> None:
    """A missing operation, and a fact that does not hold, are found; the message makes the problem again."""
    pipesched.family(function, **{"placement": "linear", **facts})
    with pytest.raises(AssertionError, match=said):
        check_family(function, n=60)


def test_every_family_is_tried_on_what_all_run() -> None:
    """Microbatches that differ and steps are among the problems of a family that claims nothing; slices are not."""
    seen: list[Problem] = []
    pipesched.family(as_naive, placement="linear", requires=seen.append)
    assert check_family(as_naive, n=40) == 40
    assert [{getattr(one, key) for one in seen} for key in ("has_units", "has_step")] == [{False, True}] * 2
    assert not any(one.slices.are_several or one.mode == "forward" for one in seen)


def test_claims_that_hold() -> None:
    """A family that has what it claims passes: slices, and forwards alone."""
    pipesched.family(as_naive, placement="linear", slices=True, forward_only=True)
    assert check_family(as_naive, n=40) == 40
