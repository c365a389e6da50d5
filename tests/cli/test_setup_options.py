"""Options that describe a training run: a model on GPUs without a file, and on top of one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pipesched.cli.app import COMMANDS, command_of
from pipesched.cli.groups import ESTIMATE_FLAGS, GROUPS, SETUP_FLAGS
from pipesched.estimation.model_reader import preset_names

Cli = Callable[..., subprocess.CompletedProcess[str]]
OPTIONS = {
    "--model": "llama-3-8b",
    "--hardware": "h100-sxm",
    "--gpus": "8",
    "--pipeline": "4",
    "--sequence": "4096",
    "--global-batch": "32",
}
FILE = """\
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 8, pipeline: 4}
batch: {sequence: 4096, global: 32}
"""
NOTE = "pipesched: note: costs and memory are estimated: llama-3-8b on 8 h100-sxm (pipeline 4, data 2), 32 sequences of"


def words(**changes: str | None) -> list[str]:
    """The options above with some changed, or left out."""
    options = {**OPTIONS, **{f"--{name.replace('_', '-')}": text for name, text in changes.items()}}
    return [word for flag, text in options.items() if text is not None for word in (flag, text)]


def test_a_run_without_a_file(cli: Cli) -> None:
    """A model on GPUs is named by options alone; a line on stderr says once that all is estimated."""
    result = cli("run", "1f1b", *words(), "--json")
    assert (result.returncode, result.stderr.count("\n")) == (0, result.stderr.count("note: "))
    assert result.stderr.startswith(NOTE)
    problem = json.loads(result.stdout)["problem"]
    assert (problem["devices"], problem["microbatches"], problem["time_unit"]) == (4, 16, "ms")


@pytest.mark.parametrize("layout", ["auto", "[4, 4, 4, 4, 4, 4, 4, 4]"])
def test_run_and_estimate_have_the_same_default(cli: Cli, layout: str) -> None:
    """Without an algorithm both schedule the stages that the file asks for, also where it lays them out."""
    Path("c.yaml").write_text(
        FILE.replace("pipeline: 4", "pipeline: 4, chunks: 2") + f"training: {{layout: {layout}}}\n"
    )
    estimated = json.loads(cli("estimate", "-c", "c.yaml", "--json").stdout)
    scheduled = json.loads(cli("run", "-c", "c.yaml", "--json").stdout)
    assert scheduled["problem"]["stages"] == 8
    assert scheduled["algorithm"] == estimated["step"]["algorithm"] == "interleaved"
    assert scheduled["metrics"]["makespan"] == estimated["step"]["pipeline"]


@pytest.mark.slow
def test_options_on_top_of_a_file(cli: Cli) -> None:
    """Every command works on a file with sections; an option replaces one value of it."""
    Path("c.yaml").write_text(FILE)
    same = cli("run", "1f1b", *words(), "--json").stdout
    assert cli("run", "1f1b", "-c", "c.yaml", "--json").stdout == same
    changed = json.loads(cli("run", "1f1b", "c.yaml", "--global-batch", "64", "--json").stdout)
    assert changed["problem"]["microbatches"] == 32
    for command in (["compare", "1f1b", "zb-h1"], ["list"], ["explain", "1f1b"], ["robust", "1f1b", "--samples", "5"]):
        result = cli(*command, "-c", "c.yaml")
        assert (result.returncode, result.stderr.count("are estimated")) == (0, 1)


def test_a_level_means_the_same_in_every_command(cli: Cli) -> None:
    """Of a model on GPUs `--shard` divides what the training run divides, also over a file and in a hand-over."""
    step = json.loads(cli("estimate", *words(), "--shard", "weights", "--json").stdout)["step"]["time"]
    run = json.loads(cli("run", "1f1b", *words(), "--shard", "weights", "--json").stdout)
    assert run["metrics"]["makespan"] == step
    given = "--parallelism.data_parallel_shard_degree="
    Path("c.yaml").write_text(f"{FILE}training: {{shard: optimizer}}\nshard: {{reduce: each}}\n")
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
    given = {**dict.fromkeys([*SETUP_FLAGS, *ESTIMATE_FLAGS], "7"), **levels}
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
    assert {*SETUP_FLAGS, *ESTIMATE_FLAGS} <= set(estimation.options)


def test_commands_that_take_a_problem_take_them_hidden() -> None:
    """The help of a command shows one of them; it says which command lists the others."""
    for name in ("run", "compare", "solve", "explain", "robust", "list"):
        options = {flag: option for option in command_of(name).params for flag in option.opts}
        assert set(SETUP_FLAGS.values()) <= set(options)
        shown = {flag for flag in SETUP_FLAGS.values() if not options[flag].hidden}
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
    """A row for each preset at any width, with its source, as a table and as JSON."""
    names = list(preset_names(kind))
    document = json.loads(cli("list", f"--{kind}", "--json").stdout)
    assert (document["format"], document["version"]) == (f"pipesched.{kind}", 1)
    assert [row["name"] for row in document["rows"]] == names
    for width in ("40", "80", "160"):
        result = cli("list", f"--{kind}", "--width", width)
        assert (result.returncode, result.stderr) == (0, "")
        assert [line.split()[0] for line in result.stdout.splitlines()[1 : len(names) + 1] if line[0] != " "][
            :2
        ] == names[:2]
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
    other = cli("init", "--from-model", "llama-3-70b", "--hardware", "b200", "--gpus", "16").stdout
    assert "hardware: b200" in other
    assert "gpus: 16" in other


def test_a_file_in_another_folder(cli: Cli) -> None:
    """The path of a config.json is absolute in a config that is written to another folder."""
    source = Path(__file__).parents[1] / "data" / "models" / "llama-2-7b.json"
    Path("m.json").write_text(source.read_text())
    Path("sub").mkdir()
    assert cli("init", "--from-model", "m.json", "sub/my.yaml").returncode == 0
    assert cli("run", "sub/my.yaml", "--json").returncode == 0


def test_every_command_says_that_it_is_estimated(cli: Cli) -> None:
    """Sweeps, and a CSV that is timed by a training run, say it once too."""
    Path("c.yaml").write_text(FILE)
    assert cli("export", "--algo", "1f1b", "-c", "c.yaml", "-o", "x.csv").returncode == 0
    for command in (["compare", "1f1b", "--sweep", "microbatches=8,16"], ["show", "x.csv"]):
        result = cli(*command, "-c", "c.yaml")
        assert (result.returncode, result.stderr.count(NOTE)) == (0, 1)
    refused = cli("show", "x.csv", "-c", "c.yaml", "--pipeline", "2")
    assert refused.stderr == "pipesched: --pipeline: llama-3-8b on 8 h100-sxm has 2 devices, but x.csv has 4\n"
