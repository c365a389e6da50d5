"""Options of a problem, a training run and a step, and the flags by which messages name them."""

from __future__ import annotations

import ast
import inspect
import json
import re
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

import pipesched
from pipesched import ConfigError, NotApplicable, Problem, make_problem
from pipesched.cli.app import COMMANDS, command_of
from pipesched.cli.groups import (
    ALGORITHM_FLAGS,
    COMMAND_FLAGS,
    FLAGS,
    GROUPS,
    PROBLEM_FLAGS,
    about_problem,
    setup_flags,
    spell,
    spelled,
)
from pipesched.cli.reading import given_config
from pipesched.config.hls import load_hls
from pipesched.estimation.model_reader import preset_names
from pipesched.pipeline.plan.step import Shard
from pipesched.pipeline.problem.declared import BY_KEY
from pipesched.render.view import View
from pipesched.schedulers.options import OPTIONS
from tests.cli.conftest import Cli
from tests.config.test_overrides import FILE, GIVEN, OVERRIDES as BY_NAME
from tests.examples import at_night_but

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


@cache
def texts(path: Path) -> list[tuple[int, str, bool]]:
    """The string constants of a module, parts of f-strings included: line, text, and whether it is a docstring."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value, id(node) in said)
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def parameters() -> set[str]:
    """The parameters of public functions and nouns, and of what `pipesched hls` calls; the options of algorithms."""
    public: list[Any] = [getattr(pipesched, name) for name in pipesched.__all__]
    called: list[Any] = [one for one in public if inspect.isfunction(one) or is_dataclass(one)] + [
        pipesched.Gantt,
        load_hls,
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
        for line, text, _ in texts(path)
        if FLAG.search(text.replace(SELF_TEST, "")) and path not in OF_OTHERS
    ]
    assert found == []
    assert any(FLAG.search(text) for _, text, _ in texts(SOURCE / "cli" / "solve.py"))  # which the scan does see


def test_every_parameter_in_a_message_has_a_flag() -> None:
    """Whatever a text of the library names in backticks is a parameter that has a flag, or is known to need none."""
    known = parameters()
    named = {
        name: f"{path.relative_to(SOURCE)}:{line}"
        for path in library_modules()
        for line, text, is_docstring in texts(path)
        for name in BACKTICKED.findall("" if is_docstring else text)
        if name in known or name in BY_KEY or "." in name
    }
    assert {"group_size", "split_backward", "force", "start"} <= set(named)
    without = {name: place for name, place in named.items() if name not in {**FLAGS, **setup_flags()}}
    assert set(without) == WITHOUT_FLAG, without


def test_every_option_of_an_algorithm_has_a_flag_or_stands_in_a_config() -> None:
    """Messages name options of algorithms too: each is a flag of `run`, or too long for a command line."""
    assert ALGORITHM_FLAGS.keys() == {key for key, option in OPTIONS.items() if option.flag is not None}
    assert set(ALGORITHM_FLAGS.values()) <= options_of("run")
    assert set(ALGORITHM_FLAGS.values()) <= options_of("compare")


def test_every_flag_is_an_option() -> None:
    """No table names a flag that no command has."""
    known = {option for command in COMMANDS for option in options_of(command)}
    assert {*PROBLEM_FLAGS.values(), *FLAGS.values(), *setup_flags().values()} <= known
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


def as_typed(value: object) -> str:
    """A value as it is typed."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


OVERRIDES: list[tuple[str, str, dict[str, Any]]] = [  # an option, its text, the argument of make_problem it stands for
    *((PROBLEM_FLAGS[name], as_typed(value), {name: meant}) for name, value, meant in BY_NAME if name in PROBLEM_FLAGS),
    ("--placement", "1,0,0,1", {"placement": [1, 0, 0, 1]}),
    ("--backward", "1,2, 3 ,4", {"backward": [1, 2, 3, 4]}),
    ("--backward-input", "1", {"backward": None, "backward_input": 1, "backward_weight": 2}),
    ("--backward-weight", "2", {"backward": None, "backward_input": 1, "backward_weight": 2}),
    ("--speed", "{1: 0.8}", {"speed": [1, 0.8]}),
    ("--speed", " {0: 2,1 : 0.5}", {"speed": [2, 0.5]}),
]
HALVES = {"--backward-input": "1", "--backward-weight": "2"}


def problem_of(options: dict[str, str], config: str | None = None) -> Problem:
    """The problem of a config with these options on top, read as a command reads them."""
    by_flag = {flag: name for name, flag in PROBLEM_FLAGS.items()}
    texts = {by_flag[flag]: text for flag, text in options.items()}
    return given_config(GROUPS["problem"].read({"config": config, **texts})).problem


@pytest.mark.parametrize(("option", "text", "change"), OVERRIDES)
def test_option_replaces_the_value_of_the_file(
    tmp_path: Path, option: str, text: str, change: dict[str, object]
) -> None:
    """An option replaces one value of the file, and leaves every other as it is; a half of B comes with the other."""
    config = tmp_path / "c.yaml"
    config.write_text(FILE)
    options = {**(HALVES if option in HALVES else {}), option: text}
    arguments: dict[str, Any] = {**GIVEN, **change}
    assert problem_of(options, str(config)) == make_problem(**arguments)


def test_every_option_is_tested() -> None:
    """The table above has each option that overrides a value."""
    by_layers = {"--chunks", "--layers", "--layout"}  # in test_layers.py
    by_microbatch = {"--slices", "--mode", "--rounds", "--kv"}  # in test_run.py
    by_queue = {"--receive"}  # in tests/golden/said/answers.txt
    by_step = {f"--{key}-cost" for key in ("gather", "reduce", "optimizer", "tied")}  # below
    by_step |= {"--weights", "--gradients", "--states", "--clip"}
    others = by_layers | by_microbatch | by_queue | by_step
    assert {option for option, _, _ in OVERRIDES} | others == set(PROBLEM_FLAGS.values())


sane = st.sampled_from(
    ["0", "1", "2", "4", "8", "0.5", "1/3", "1,2,3,4", "1,1", "-1", "x", "", "auto", "loop", "1e3", "0.1,,"]
)
options = st.dictionaries(st.sampled_from(sorted(PROBLEM_FLAGS.values())), sane | st.text(max_size=8), max_size=4)


@given(options)
@example({"--devices": "9e999999"})
@example({"--forward": "1e999999999999999999999"})
def test_random_options(overrides: dict[str, str]) -> None:
    """Random texts of options give a problem or a ConfigError."""
    with suppress(ConfigError):
        assert isinstance(problem_of(overrides), Problem)


WORDS = {
    "--model": "llama-3-8b",
    "--hardware": "h100-sxm",
    "--gpus": "8",
    "--pipeline": "4",
    "--sequence": "4096",
    "--global-batch": "32",
}
SETUP = """\
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 8, pipeline: 4}
batch: {sequence: 4096, global: 32}
"""
NOTE = "pipesched: note: costs and memory are estimated: llama-3-8b on 8 h100-sxm (pipeline 4, data 2), 32 sequences of"


def words(**changes: str | None) -> list[str]:
    """The options above with some changed, or left out."""
    options = {**WORDS, **{f"--{name.replace('_', '-')}": text for name, text in changes.items()}}
    return [word for flag, text in options.items() if text is not None for word in (flag, text)]


def test_a_run_without_a_file(cli: Cli) -> None:
    """A model on GPUs is named by options alone; a line on stderr says once that all is estimated."""
    result = cli("run", "1f1b", *words(), "--json")
    assert (result.returncode, result.stderr.count("\n")) == (0, result.stderr.count("note: "))
    assert result.stderr.startswith(NOTE)
    problem = json.loads(result.stdout)["problem"]
    assert (problem["devices"], problem["microbatches"], problem["time_unit"]) == (4, 16, "ms")


@pytest.mark.parametrize("layout", at_night_but(["auto"], ["auto", "[4, 4, 4, 4, 4, 4, 4, 4]"]))
def test_run_and_estimate_have_the_same_default(cli: Cli, layout: str) -> None:
    """Without an algorithm both schedule the stages that the file asks for, also where it lays them out."""
    Path("c.yaml").write_text(
        SETUP.replace("pipeline: 4", "pipeline: 4, chunks: 2") + f"training: {{layout: {layout}}}\n"
    )
    estimated = json.loads(cli("estimate", "-c", "c.yaml", "--json").stdout)
    scheduled = json.loads(cli("run", "-c", "c.yaml", "--json").stdout)
    assert scheduled["problem"]["stages"] == 8
    assert scheduled["algorithm"] == estimated["step"]["algorithm"] == "interleaved"
    assert scheduled["metrics"]["makespan"] == estimated["step"]["pipeline"]


def test_a_level_means_the_same_in_every_command(cli: Cli) -> None:
    """Of a model on GPUs `--shard` divides what the training run divides, also over a file and in a hand-over."""
    step = json.loads(cli("estimate", *words(), "--shard", "weights", "--json").stdout)["step"]["time"]
    run = json.loads(cli("run", "1f1b", *words(), "--shard", "weights", "--json").stdout)
    assert run["metrics"]["makespan"] == step
    given = "--parallelism.data_parallel_shard_degree="
    Path("c.yaml").write_text(f"{SETUP}training: {{shard: optimizer}}\nshard: {{reduce: each}}\n")
    for source, chosen, degree in (
        (words(), (), 1), (words(), ("--shard", "weights"), 2), (("-c", "c.yaml"), ("--shard", "weights"), 2),
    ):  # fmt: skip
        text = cli("export", "--algo", "1f1b", *source, *chosen, "--for", "torchtitan").stdout
        assert f"{given}{degree} " in text


def test_every_option_sets_its_key() -> None:
    """Each option stands for a key of a section; what spells a number is one, but for names."""
    estimation = GROUPS["estimation"]
    levels = {"training.shard": "weights", "parallel.shard_ranks": "8", "training.precision": "fp8"}
    levels |= {"training.dispatcher": "alltoall"}
    given = {**dict.fromkeys([*setup_flags(), *setup_flags("others")], "7"), **levels}
    sizes = ("gpus", "tensor", "pipeline", "context", "expert", "expert_tensor", "chunks")
    assert estimation.read(given).overrides == {
        "model": "7",
        "hardware": "7",
        "parallel": {**dict.fromkeys(sizes, 7), "shard_ranks": 8},
        "batch": {"sequence": 7, "micro": 7, "global": 7},
        "training": {
            "precision": "fp8",
            "optimizer": 7,
            "recompute": {"full": 7},
            "shard": "weights",
            "dispatcher": "alltoall",
        },
    }
    assert estimation.read({"training.recompute": "full"}).overrides == {"training": {"recompute": "full"}}
    assert {*setup_flags(), *setup_flags("others")} <= set(estimation.options)


def test_commands_that_take_a_problem_take_them_hidden() -> None:
    """The help of a command shows one of them; it says which command lists the others."""
    for name in ("run", "compare", "solve", "explain", "robust", "list"):
        options = {flag: option for option in command_of(name).params for flag in option.opts}
        assert set(setup_flags().values()) <= set(options)
        shown = {flag for flag in setup_flags().values() if not options[flag].hidden}
        assert shown == ({"--model", "--hardware"} if name == "list" else {"--model"})
        assert "pipesched estimate --help" in str(options["--model"].help)
    assert "init" in COMMANDS


def test_bad_input_of_a_file(cli: Cli) -> None:
    """A config.json that is too large is not read."""
    large = Path("large.json")
    with large.open("wb") as file:
        file.truncate(10**9)
    result = cli("run", *words(model="large.json"))
    assert (result.returncode, result.stderr) == (2, "pipesched: --model: large.json is larger than 1,000,000 bytes\n")


@pytest.mark.parametrize("kind", ["models", "hardware"])
def test_list_of_presets(cli: Cli, kind: str) -> None:
    """A row for each preset at any width, with its source."""
    names = list(preset_names(kind))
    for width in ("40", "160"):
        result = cli("list", f"--{kind}", "--width", width)
        assert (result.returncode, result.stderr) == (0, "")
        assert all(name in result.stdout for name in names)
        assert max(map(len, result.stdout.splitlines())) <= int(width)
        assert "source" in result.stdout


def test_init_from_a_model(cli: Cli) -> None:
    """The starter of a model is a file on which the commands of its comment run."""
    assert cli("init", "--from-model", "llama-3-8b", "my.yaml").returncode == 0
    text = Path("my.yaml").read_text()
    commands = [line.strip("# ") for line in text.splitlines() if "THIS_FILE" in line]
    assert len(commands) == 3
    for command in commands:
        _, *args = command.replace("THIS_FILE", "my.yaml").split()
        if args[0] in COMMANDS:
            assert cli(*args).returncode == 0


def test_a_file_in_another_folder(cli: Cli) -> None:
    """The path of a config.json is absolute in a config that is written to another folder."""
    source = Path(__file__).parents[1] / "data" / "models" / "llama-2-7b.json"
    Path("m.json").write_text(source.read_text())
    Path("sub").mkdir()
    assert cli("init", "--from-model", "m.json", "sub/my.yaml").returncode == 0
    assert cli("run", "sub/my.yaml", "--json").returncode == 0


def test_every_command_says_that_it_is_estimated(cli: Cli) -> None:
    """Sweeps, lists, and a CSV that is timed by a training run, say it once too."""
    Path("c.yaml").write_text(SETUP)
    assert cli("export", "--algo", "1f1b", "-c", "c.yaml", "-o", "x.csv").returncode == 0
    for command in (
        ["compare", "1f1b", "--sweep", "microbatches=8,16"], ["show", "x.csv"], ["list"],
        ["robust", "1f1b", "--samples", "5"],
    ):  # fmt: skip
        result = cli(*command, "-c", "c.yaml")
        assert (result.returncode, result.stderr.count(NOTE)) == (0, 1)
    refused = cli("show", "x.csv", "-c", "c.yaml", "--pipeline", "2")
    assert refused.stderr == "pipesched: --pipeline: llama-3-8b on 8 h100-sxm has 2 devices, but x.csv has 4\n"


STEP = """devices: 2
costs: {gather: 1, optimizer: 2}
memory: {weights: 3}
shard: {level: weights, ranks: 4, ahead: 2}
step: {clip: true}
"""
MEANT: dict[str, Any] = {
    "devices": 2, "gather": 1, "optimizer": 2, "weights": 3, "shard": Shard("weights", 4, 2), "clip": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "change"),
    [  # the key of an option, what is typed, the argument of make_problem it stands for
        ("gather", "1,2.5", {"gather": [1, 2.5]}),
        ("reduce", "3", {"reduce": 3}),
        ("optimizer", "1", {"optimizer": 1}),
        ("tied", "4", {"tied": 4}),
        ("weights", "1,2", {"weights": [1, 2]}),
        ("gradients", "1/3", {"gradients": "1/3"}),
        ("states", "12", {"states": 12}),
        ("shard.level", "gradients", {"shard": Shard("gradients", 4)}),
        ("shard.ranks", "8", {"shard": Shard("weights", 8, 2)}),
        ("shard.ahead", "full", {"shard": Shard("weights", 4, "full")}),
        ("shard.ahead", "1,3", {"shard": Shard("weights", 4, (1, 3))}),
        ("shard.reduce", "each", {"shard": Shard("weights", 4, 2, "each")}),
        ("shard.gather", "each", {"shard": Shard("weights", 4, gather="each")}),
        ("clip", False, {"clip": False}),
    ],
)  # fmt: skip
def test_an_option_of_a_step_replaces_one_value(
    tmp_path: Path, option: str, value: Any, change: dict[str, Any]
) -> None:
    """An option replaces one value of the file, or one entry of it, and leaves every other as it is."""
    config = tmp_path / "c.yaml"
    config.write_text(STEP)
    read = given_config(GROUPS["problem"].read({"config": str(config), option: value}))
    assert read.problem == make_problem(**{**MEANT, **change})
