"""Options of microbatches that differ: what they mean, and what a bad one is told, by flag or by place in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from pipesched.cli.groups import GROUPS
from pipesched.cli.reading import given_config
from pipesched.config.load import load

Cli = Callable[..., "CompletedProcess[str]"]


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"sizes.work": "1,2,3.5"}, {"sizes": {"work": [1, 2, 3.5]}}),
        ({"sizes.work": "2"}, {"sizes": {"work": [2]}}),
        ({"sizes.work": "1,2", "microbatches": "2"}, {"sizes": {"work": [1, 2]}}),
        ({"slices": "4"}, {"slices": 4}),
        ({"slices": "auto"}, {"slices": "auto"}),
        ({"mode": "forward", "kv": "0.25"}, {"mode": "forward", "kv": 0.25}),
    ],
)
def test_option(options: dict[str, str], meant: dict[str, Any]) -> None:
    """An option gives the value of a config; without one there are as many microbatches as `--work` lists."""
    assert given_config(GROUPS["problem"].read({"config": None, **options})).problem == load(None, **meant)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", ["--work", "1,-2"], "--work[1]: must be at least 0, not -2"),
        ("", ["--work", "x"], "--work[0]: must be a number, not 'x' (not a number)"),
        ("", ["--work", "1,2", "--microbatches", "3"],
         "--work: lists 2 numbers, one a microbatch; microbatches is 3: leave that out, or give lists of 3"),
        ("", ["--slices", "0"], "--slices: must be a whole number from 1 to 1024, or auto, not 0"),
        ("", ["--slices", "many"], "--slices: must be a whole number from 1 to 1024, or auto, not 'many'"),
        ("", ["--slices", "2", "--recompute-cost", "3"],
         "--recompute-cost: goes with whole microbatches, not with --slices"),
        ("", ["--mode", "forwrd"], "--mode: unknown mode 'forwrd'; did you mean 'forward'? known are train, forward"),
        ("", ["--kv", "2"], "--kv: must be between 0 and 1, not 2"),
        ("", ["--work", "1,2", "--overlap", "15"],
         "--overlap: is one time for all pairs of a stage; with --work by microbatch, leave it out: a pair then lasts"
         " the sum of its parts"),
        ("devices: 2\nsizes: {work: [1, 2, 3]}\n", ["--microbatches", "4"],
         "c.yaml:2: sizes.work: lists 3 numbers, one a microbatch; microbatches is 4: leave that out, or give lists of"
         " 4"),
        ("devices: 2\nmicrobatches: 4\n", ["--work", "1,2,3"],
         "--work: lists 3 numbers, one a microbatch; microbatches is 4: leave that out, or give lists of 4"),
        ("devices: 2\nslices: {count: 4, tokens: [0.1, 0.2, 0.3, 0.4]}\n", ["--slices", "2"],
         "c.yaml:2: slices.tokens: needs 2 parts, one a slice; this has 4"),
        ("devices: 2\nsizes: {work: [1, 2, 3]}\n", ["--work", "1,x"],
         "--work[1]: must be a number, not 'x' (not a number)"),
    ],
)  # fmt: skip
def test_bad_option(cli: Cli, text: str, options: list[str], said: str) -> None:
    """What is wrong is told once, on stderr, by the flag, or by its place where it stands in the file."""
    if text:
        Path("c.yaml").write_text(text)
    result = cli("run", *(["-c", "c.yaml"] if text else []), *options)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"pipesched: {said}\n")
