"""The table of flags: messages of the library name parameters, and the command line turns each into its flag."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.cli.app import COMMANDS, command_of
from pipesched.cli.groups import ALGORITHM_FLAGS, COMMAND_FLAGS, KEY_FLAGS, PROBLEM_FLAGS, about_problem, spell, spelled
from pipesched.config.hardware import load_hardware
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.problem.declared import BY_KEY
from pipesched.render.view import View
from pipesched.schedulers.options import OPTIONS

SOURCE = Path(pipesched.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z]")
BACKTICKED = re.compile(r"`([a-z][a-z_0-9]*(?:\.[a-z_]+)?)`")
# Of these messages speak that are about the problem, where `about_problem` has the flags, or about a block, which
# stands in a config, as the last two do.
OF_OTHERS = {*(SOURCE / "results" / "handover").glob("*.py")}  # flags
WITHOUT_FLAG = {
    "links",  # in files and in Python only
    "sizes",
    "sizes.activation",
    "batch.lengths",
    "exact",  # of a document
    "backward_input",
    "backward_weight",
    "layer",
    "messages",  # in Python, what is read from its parts
    "mtp",
    "first",
    "last",
} | {
    "training.layout",
    "training.recompute",
    "training.shard",  # `--shard` of a model's commands, a level of the problem in others
    "shard",
    "side",  # in files and in Python only
    "estimate",  # the function
}


def library_modules() -> list[Path]:
    """Every module of pipesched but the command line."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if SOURCE / "cli" not in path.parents]


def texts(path: Path, *, docstrings: bool) -> Iterator[tuple[int, str]]:
    """The string constants of a module with their lines, parts of f-strings included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(constant) for node in ast.walk(tree) for constant in docstring(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (docstrings or id(node) not in said):
            yield node.lineno, node.value


def docstring(node: ast.AST) -> Iterator[ast.expr]:
    """The docstring of a module, a class or a function, if it has one."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        for first in node.body[:1]:
            if isinstance(first, ast.Expr):
                yield first.value


def parameters() -> set[str]:
    """The parameters of public functions and nouns, and of what `pipesched hls` calls; the options of algorithms."""
    public: list[Any] = [getattr(pipesched, name) for name in pipesched.__all__]
    called: list[Any] = [one for one in public if inspect.isfunction(one) or is_dataclass(one)] + [
        pipesched.Gantt,
        load_hardware,
    ]
    return {name for one in called for name in inspect.signature(one).parameters} | set(OPTIONS)


def options_of(command: str) -> set[str]:
    """The options of a command, as they are typed."""
    single = command_of(command)
    return {name for parameter in single.params for name in (*parameter.opts, *parameter.secondary_opts)}


SELF_TEST = "`pipesched train --self-test`"  # the one command that the runtime sends to, which GPUs need as it is


def test_the_library_knows_no_flags() -> None:
    """Below the command line no text, docstrings included, spells a flag."""
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in library_modules()
        for line, text in texts(path, docstrings=True)
        if FLAG.search(text.replace(SELF_TEST, "")) and path not in OF_OTHERS
    ]
    assert found == []


def test_the_scan_finds_flags() -> None:
    """The scan above does see texts: the command line's own are full of flags."""
    modules = [SOURCE / "cli" / name for name in ("options.py", "solve.py", "compare.py")]
    assert all(any(FLAG.search(text) for _, text in texts(path, docstrings=True)) for path in modules)


def test_every_parameter_in_a_message_has_a_flag() -> None:
    """Whatever a text of the library names in backticks is a parameter that has a flag, or is known to need none."""
    known = parameters()
    named = {
        name: f"{path.relative_to(SOURCE)}:{line}"
        for path in library_modules()
        for line, text in texts(path, docstrings=False)
        for name in BACKTICKED.findall(text)
        if name in known or name in BY_KEY or "." in name
    }
    assert {"group_size", "split_backward", "force", "start"} <= set(named)
    without = {name: place for name, place in named.items() if name not in {**COMMAND_FLAGS, **KEY_FLAGS}}
    assert set(without) == WITHOUT_FLAG, without


def test_every_option_of_an_algorithm_has_a_flag_or_stands_in_a_config() -> None:
    """Messages name options of algorithms too: each is a flag of `run`, or too long for a command line."""
    assert ALGORITHM_FLAGS.keys() == {key for key, option in OPTIONS.items() if option.flag is not None}
    assert set(ALGORITHM_FLAGS.values()) <= options_of("run")
    assert set(ALGORITHM_FLAGS.values()) <= options_of("compare")


def test_every_flag_is_an_option() -> None:
    """No table names a flag that no command has."""
    known = {option for command in COMMANDS for option in options_of(command)}
    assert {*PROBLEM_FLAGS.values(), *COMMAND_FLAGS.values(), *KEY_FLAGS.values()} <= known
    for command in ("run", "compare", "solve", "list", "show", "check", "export"):
        assert set(PROBLEM_FLAGS.values()) <= options_of(command)


@pytest.mark.parametrize(
    ("function", "command", "untold"),
    [
        ("solve", "solve", {"listener", "stop", "budget"}),
        ("frontier", "solve", {"listener", "stop"}),
        ("compare", "compare", {"algorithms", "plans", "each", "options", "listener"}),
        ("sweep", "compare", {"algorithms", "plans", "overrides", "each", "options", "listener"}),
        ("run", "run", {"options"}),
        ("write", "export", {"problem"}),
        ("figure", "compare", {"problem"}),
        ("robustness", "robust", {"problem"}),
        ("tune", "tune", {"algorithms", "stop", "listener", "overrides"}),
    ],
)
def test_every_parameter_of_a_function_is_an_option_of_its_command(
    function: str, command: str, untold: set[str]
) -> None:
    """An error about any parameter of a function, but what it is called with, names an option of its command."""
    _, *named = inspect.signature(getattr(pipesched, function)).parameters
    assert untold <= set(named)
    assert {COMMAND_FLAGS[name] for name in set(named) - untold} <= options_of(command)


def test_every_field_of_a_view_is_an_option() -> None:
    """The same of the fields of a view, which `run` sets but for those of a comparison and a sweep."""
    fields = set(inspect.signature(View).parameters)
    assert {COMMAND_FLAGS[name] for name in fields - {"charts", "show"}} <= options_of("run")
    assert {COMMAND_FLAGS[name] for name in fields} <= options_of("compare")


def test_spell() -> None:
    """Parameters and keys in backticks become flags; what is none of them stays as it is."""
    assert spell("`group_size` and `costs.offload`, `memory.budget`") == "--group-size and --offload-cost, --mem-budget"
    assert spell("with `recompute`; `ops`, `a b`, group_size") == "with --recompute; `ops`, `a b`, group_size"


def test_spelled_errors() -> None:
    """An error names its flag, with the entry of a list; one that is about no option, or a file, is left alone."""
    assert spelled(ConfigError("must be `start`", "end")) == "--to: must be --from"
    assert spelled(ConfigError("is out of range", "rows", entry=1)) == "--rows[1]: is out of range"
    assert spelled(ConfigError("must be known", "nothing")) == "nothing: must be known"
    assert spelled(ConfigError("no `force`")) == "no --force"
    assert spelled(ConfigError("unknown algorithm", "algorithms")) == "unknown algorithm"
    assert spelled(NotApplicable("has no option `lifo`", "lifo")) == "has no option --lifo"
    placed = ConfigError("give `offload` too", "reload", where="c.yaml:3: costs.reload")
    assert spelled(placed) == "c.yaml:3: costs.reload: give `offload` too"


def test_errors_about_the_problem() -> None:
    """An error about a number of the problem names its flag, others too, unless the number stands in a file."""
    error = about_problem(ConfigError("needs `recompute` too", "offload", entry=2))
    assert str(error) == "--offload-cost[2]: needs --recompute-cost too"
    placed = ConfigError("must be 1", "forward", where="c.yaml:3: costs.forward")
    assert about_problem(placed) is placed
    foreign = ConfigError("must be 1", "group_size")
    assert about_problem(foreign) is foreign
    assert isinstance(about_problem(NotApplicable("no", "stages")), NotApplicable)
