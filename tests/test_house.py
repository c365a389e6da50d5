"""The house keeps its rules: rooms on levels, imports down, one name a class, numbers and texts in their place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipesched.core.arrays import compiled_kernels
from pipesched.schedulers.registry import ALIASES, FAMILIES
from tests import house
from tests.house import House, read_house

HOUSE = read_house()
Rule = Callable[[House], Iterator[str]]


def families_are_named_by_schedulers(checked: House) -> Iterator[str]:
    """Yield lists of the families that there are."""
    return house.families_are_named_by_schedulers(checked, {*FAMILIES, *ALIASES})


RULES: list[Rule] = [
    house.imports_point_down,
    house.no_circle_of_files,
    house.modules_as_text_point_down,
    house.few_rooms,
    house.tree_is_written_down,
    house.one_class_a_name,
    house.small_pieces,
    house.policy_has_the_numbers,
    families_are_named_by_schedulers,
    house.shown_texts_are_not_parsed,
    house.one_writer_of_configs,
    house.one_look_ahead,
]
BROKEN: list[tuple[Rule, str, str, str]] = [  # a rule, a file, the line that breaks it, and what the fault says
    (
        house.imports_point_down,
        "core/timing",
        "from pipesched.pipeline.plan.plan import Plan",
        "core imports pipeline/plan/plan",
    ),
    (house.imports_point_down, "cli/run", "import pipesched", "imports the package"),
    (
        house.imports_point_down,
        "solver/model",
        "def f():\n    from pipesched.tuning.tune import tune",
        "solver imports",
    ),
    (
        house.imports_point_down,
        "pipeline/plan/plan",
        "if TYPE_CHECKING:\n    from pipesched.hls.graph import DataflowGraph",
        "pipeline imports hls/graph",
    ),
    (
        house.no_circle_of_files,
        "pipeline/problem/ops",
        "from pipesched.pipeline.plan.plan import Plan",
        "imports itself through",
    ),
    (house.modules_as_text_point_down, "core/timing", 'LATER = "solver.solve:solve"', "names 'solver.solve:solve'"),
    (house.modules_as_text_point_down, "core/timing", "import_module(name)", "imports a module by a text"),
    (house.few_rooms, "garage", "CAR = 1", "27 rooms, at most 26"),
    (house.few_rooms, "garage", "CAR = 1", "8 files at the top, at most 7"),
    (house.one_class_a_name, "core/timing", "class Plan: ...", "class Plan stands at"),
    (house.small_pieces, "core/timing", "def long():\n" + "    pass\n" * 60, "long has 61 lines, at most 60"),
    (house.small_pieces, "core/timing", "\n" * 800, "lines, at most 800"),
    (house.policy_has_the_numbers, "solver/variant", "SECONDS = 2 * 3.5", "SECONDS is a number"),
    (house.policy_has_the_numbers, "solver/periodic/search", "TRIES, SIZE = 5, WIDE", "TRIES, SIZE is a number"),
    (families_are_named_by_schedulers, "tuning/tune", 'QUICK = ("naive", "1f1b")', "lists families: naive, 1f1b"),
    (house.shown_texts_are_not_parsed, "render/table", 'name = found.source.split(" ")[0]', "takes the text"),
    (house.shown_texts_are_not_parsed, "cli/run", 'late = "late" in error.message', "looks for a word in"),
    (house.one_writer_of_configs, "tuning/tune", "yaml.safe_dump(values)", "writes YAML"),
    (house.one_writer_of_configs, "tuning/tune", 'TEXT = "costs:\\n"', "writes a section of a config"),
    (house.one_look_ahead, "solver/solve", "pool.submit(work)", "sends work ahead"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.__name__))
def test_rule(rule: Rule) -> None:
    """The package breaks no rule; each fault says its file and line."""
    faults = [*rule(HOUSE)]
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)


@pytest.mark.parametrize(("rule", "name", "line", "said"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_broken_copy(rule: Rule, name: str, line: str, said: str) -> None:
    """A copy of the package in which one line breaks a rule has that fault, and the line is named."""
    text = HOUSE.modules[name].text if name in HOUSE.modules else ""
    faults = [*rule(HOUSE.changed(name, f"{text}\n{line}\n"))]
    assert [fault for fault in faults if said in fault]


def test_tree_that_is_not_written_down() -> None:
    """A room whose sentence CONTRIBUTING.md does not have is a fault."""
    changed = HOUSE.changed("core/__init__", '"""Another core."""\n')
    assert any(" 3  core/          Another core." in fault for fault in house.tree_is_written_down(changed))


def test_field_without_a_sentence() -> None:
    """A field of the policy that no sentence explains is a fault."""
    text = "@dataclass(frozen=True)\nclass Times:\n    seconds: float = 3.0\n"
    assert [*house.policy_has_the_numbers(HOUSE.changed("solver/policy", text))]


MOST_OF_ALL = 67_851  # lines of Python in the package: this number only falls, as do the next two
MOST_FILES = 279  # in the package
MOST_OF_TESTS = 51_415  # lines of Python in tests/
MOST_PASSED = {"run --algo 1f1b --quiet": 265, "solve --mem-budget 4 --quiet": 455}  # functions of the package, without
# progress, which a slow machine shows, and in the first process
COUNTED = """
import inspect, os, sys, pipesched.cli.app, pipesched.cli.groups
from pipesched.__main__ import main
def note(frame, event, _):
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name[0] != "<"
    if event == "call" and is_function and f"{os.sep}pipesched{os.sep}" in code.co_filename:
        passed.add(code)
def end(status):
    sys.setprofile(None)
    print(len(passed), status, file=sys.stderr)
passed, os._exit, sys.argv[0] = set(), end, "pipesched"
sys.setprofile(note)
main()
"""  # bodies of classes are no functions, and lambdas and comprehensions are left out


def test_the_package_grows_no_more() -> None:
    """What is added makes something else deletable, and that is deleted."""
    assert sum(module.text.count("\n") for module in HOUSE.modules.values()) <= MOST_OF_ALL
    assert len(HOUSE.modules) <= MOST_FILES
    tests = Path(__file__).parent.rglob("*.py")
    assert sum(path.read_text(encoding="utf-8").count("\n") for path in tests) <= MOST_OF_TESTS


@pytest.mark.skipif(sys.version_info[:2] != (3, 11) or compiled_kernels() is None, reason="counted so")
@pytest.mark.parametrize("command", MOST_PASSED)
def test_a_command_passes_few_functions(command: str) -> None:
    """What a reader of a command's way has to hold in the head."""
    run = subprocess.run(
        [sys.executable, "-c", COUNTED, *command.split()], capture_output=True, text=True, encoding="utf-8", check=True
    )
    passed, status = run.stderr.split()[-2:]
    assert (int(passed) <= MOST_PASSED[command], status) == (True, "0")
