"""The option --sweep: FIELD=VALUES, where the field may be a key, a parameter or a flag."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from pipesched.cli.compare import read_sweep
from pipesched.cli.groups import PROBLEM_FLAGS
from pipesched.comparing.compare import compare
from pipesched.config.load import load, load_values
from pipesched.pipeline.problem.declared import BY_NAME, words_of

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
