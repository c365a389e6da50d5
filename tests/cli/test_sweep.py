"""The option --sweep: FIELD=VALUES, where the field may be a key, a parameter or a flag."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pipesched.cli.compare import read_sweep
from pipesched.cli.groups import PROBLEM_FLAGS
from pipesched.comparing.compare import compare
from pipesched.config.load import load, load_values
from pipesched.pipeline.declared import BY_NAME, words_of

Cli = Callable[..., "CompletedProcess[str]"]

NUMERIC = sorted(flag for name, flag in PROBLEM_FLAGS.items() if BY_NAME[name].shape.is_number)


@pytest.mark.parametrize(
    ("sweep", "name"),
    [
        ("microbatches=4,8", "microbatches"),
        ("--microbatches=4,8", "microbatches"),
        ("forward=4,8", "forward"),
        ("costs.forward=4,8", "forward"),
        ("p2p = 4 , 8", "p2p"),
        ("recompute=4,8", "recompute"),
        ("recompute-cost=4,8", "recompute"),
        ("recompute_cost=4,8", "recompute"),
        ("--recompute-cost=4,8", "recompute"),
        ("budget=4,8", "budget"),
        ("mem-budget=4,8", "budget"),
        ("memory.budget=4,8", "budget"),
    ],
)
def test_field_by_any_of_its_names(sweep: str, name: str) -> None:
    """A field is named by its key, the last part of it, or its flag; each value is that flag's override."""
    found = read_sweep(sweep, load_values(None, {}), ["1f1b"])
    assert found.field == BY_NAME[name].key
    assert [point.value for point in found] == [4, 8]
    for point in found:
        (entry,) = compare(load(None, **{name: point.value}), ["1f1b"])
        assert point.comparison["1f1b"].metrics == entry.metrics is not None


@pytest.mark.parametrize("flag", NUMERIC)
def test_every_numeric_flag_can_be_swept(cli: Cli, flag: str) -> None:
    """Each flag that takes numbers can be swept, a half of the backward together with the other half."""
    halves = ("--backward-input", "--backward-weight")
    given = [word for half in halves if flag in halves and half != flag for word in (half, "1")]
    given += ["--messages", "rank"] if flag == "--receive" else []
    value = "8" if flag in ("--stages", "--microbatches", "--layers") else "1"
    result = cli("compare", "list", "--sweep", f"{flag.strip('-')}={value}", *given)
    (name,) = [name for name, known in PROBLEM_FLAGS.items() if known == flag]
    assert (result.returncode, result.stderr) == (0, "")
    assert words_of(BY_NAME[name].key) in result.stdout


@pytest.mark.parametrize(
    ("sweep", "fragments"),
    [
        ("", ["--sweep", "unknown field", "microbatches"]),
        ("foo=1", ["--sweep", "unknown field 'foo'", "microbatches"]),
        ("name=1", ["--sweep", "'name' cannot be varied"]),
        ("placement=loop", ["--sweep", "'placement' cannot be varied"]),
        ("mode=train,forward", ["--sweep", "'mode' cannot be varied", "slices"]),
        ("slices=0", ["--slices", "from 1 to 1024, or auto, not 0"]),
        ("work=1,2", ["--sweep", "unknown field 'work'"]),
        ("microbatches", ["--sweep", "no values", "microbatches=4,8,16,32"]),
        ("microbatches=", ["--sweep", "no values"]),
        ("microbatches=,", ["--sweep", "no values"]),
        ("microbatches=4,abc", ["--sweep", "'abc' is no number"]),
        ("microbatches=4,nan", ["--sweep", "'nan' is no number"]),
        ("microbatches=0", ["--microbatches", "at least 1", "not 0"]),
        ("microbatches=2.5", ["--microbatches", "whole number", "2.5"]),
        ("stages=8,2", ["--stages", "number of devices (4)", "not 2"]),
        ("forward=-1", ["--forward", "at least 0"]),
        ("budget=0", ["--mem-budget", "more than 0"]),
        ("forward=1e400", ["--forward", "1E+400 is too large: at most 1e12"]),
        ("forward=1e99999999999999999999", ["1e99999999999999999999"]),
        ("clip=true", ["--sweep", "'clip' cannot be varied"]),
        ("shard=optimizr", ["--sweep", "unknown value 'optimizr'; did you mean 'optimizer'?"]),
        ("shard=2", ["--sweep", "must be a name, one of none, optimizer, gradients, weights, not 2"]),
        ("shard.ahead=1,ful", ["--sweep", "'ful' is no number, nor one of full, auto"]),
        ("shard.ahead=1,2", ["--shard-ahead", "has no effect below level weights"]),
    ],
)
def test_bad_sweep(cli: Cli, sweep: str, fragments: list[str]) -> None:
    """A bad field or value of a sweep is told by what was found and what is known, with flags."""
    result = cli("compare", "--sweep", sweep)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    for fragment in fragments:
        assert fragment in result.stderr


@pytest.mark.parametrize(
    ("sweep", "given", "flag"),
    [
        ("microbatches=4,8", ["--microbatches", "3"], "--microbatches"),
        ("costs.p2p=1,2", ["--p2p", "7"], "--p2p"),
        ("chunks=1,2", ["--stages", "8"], "--stages"),
        ("stages=4,8", ["--chunks", "2"], "--chunks"),
        ("shard=none,weights", ["--shard", "optimizer"], "--shard"),
        ("shard-ahead=1,2", ["--shard", "weights", "--shard-ahead", "3"], "--shard-ahead"),
    ],
)
def test_an_option_that_the_sweep_replaces_is_refused(cli: Cli, sweep: str, given: list[str], flag: str) -> None:
    """What no value of the sweep would heed is not ignored."""
    result = cli("compare", "1f1b", "--sweep", sweep, *given)
    said = f"pipesched: {flag}: has no effect with --sweep {sweep}, which varies it\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", said)


def test_memory_of_a_sweep_has_its_unit(cli: Cli, tmp_path: Path) -> None:
    """The plot says in which unit memory is, as it does of time."""
    file = tmp_path / "gb.yaml"
    file.write_text("devices: 2\nmemory: {unit: GB, activation: 3}\n")
    shown = cli("compare", "1f1b", str(file), "--sweep", "microbatches=1,2,4", "--show", "memory").stdout
    assert shown.startswith("memory of the fullest device (GB)\n")


def test_bad_chunks_of_a_sweep(cli: Cli) -> None:
    """A list of chunks is refused under its own name."""
    result = cli("compare", "1f1b", "--chunks", "1,x")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "pipesched: --chunks: must be whole numbers, for instance 1,2,4, not 'x'\n"


@pytest.mark.parametrize("more", [[], ["--sweep", "p2p=1,2"], ["--json"]], ids=" ".join)
def test_what_only_leaves_out_is_said(cli: Cli, more: list[str]) -> None:
    """A named algorithm that the trainer cannot run is not left out in silence; where none is left that is an error."""
    some = cli("compare", "1f1b", "dualpipe", "--only", "pytorch", *more)
    assert (some.returncode, some.stderr) == (0, "pipesched: note: --only pytorch leaves out dualpipe\n")
    none = cli("compare", "dualpipe", "--only", "pytorch", *more)
    assert (none.returncode, none.stdout) == (2, "")
    assert none.stderr == "pipesched: --only: pytorch can run none of these as they are: dualpipe\n"
