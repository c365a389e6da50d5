"""What functions say of arguments that they cannot use: calls and their messages stand in tests/golden/refused."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import count, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import pipesched
from pipesched import PipeschedError, hls
from pipesched.pipeline.plan.step import Shard, SideItem
from tests.comparing.packings import GOLDEN
from tests.tuning.spaces import ALGORITHMS, SPACE

FOLDER = Path(__file__).parent / "golden" / "refused"
README = Path("README.md")  # a file that is there
HUGE = 10**5000  # more digits than Python writes
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]
P2: dict[str, Any] = {"devices": 2, "microbatches": 2}
ROWS = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]
LAYER = {"forward": [3, 1, 4, 1, 5, 9, 2, 6], "backward": [2, 7, 1, 8, 2, 8, 1, 8], "static": 1}
MODELS: dict[str, dict[str, Any]] = {  # by layers: alike, listed, as stages that are cut, and with a step
    "LAYERED": {
        "devices": 4, "microbatches": 8, "layers": 16, "layer": {"forward": 5, "backward": 10, "activation": 0.1},
        "last": {"forward": 7},
    },
    "LISTED": {"devices": 3, "microbatches": 4, "layer": LAYER},
    "BLOCKS": {
        "devices": 4, "stages": 8, "forward": LAYER["forward"], "p2p": [0, 1, 2, 3, 4, 5, 6], "layout": "balanced",
    },
    "STEPPED": {"devices": 2, "layers": 4, "layer": {"forward": 1, "gather": 0.5}, "tied": 4},
}  # fmt: skip
VISION = {"name": "vision", "forward": 3, "backward": 6}
TRAINING = "model: llama-3-8b\nhardware: h100-sxm\nparallel: {gpus: 8}\nbatch: {sequence: 4096, global: 32}\n"


def packed(**given: Any) -> pipesched.Packing:
    """Pack the published documents, with these arguments instead of the usual ones."""
    problem = pipesched.make_problem(devices=2, forward=1, backward=2)
    usual: dict[str, Any] = {"lengths": GOLDEN, "ranks": 2, "cap": 12, "microbatches": 2, "problem": problem}
    return pipesched.pack(**{**usual, **given})


def tuned(**given: Any) -> pipesched.Tuning:
    """Search the small space, with these arguments and sections instead of its own."""
    return pipesched.tune(None, ALGORITHMS, **{**SPACE, **given})


def tampered(noun: Any, place: str, value: Any) -> Any:
    """Read the document of a noun in which the value at a place, whose keys have dots between them, is another."""
    with TemporaryDirectory() as folder:
        content = json.loads(pipesched.write(noun, Path(folder) / "noun.json").read_text("utf-8"))
    *outer, last = (int(key) if key.isdecimal() else key for key in place.split("."))
    inner = content
    for key in outer:
        inner = inner[key]
    inner[last] = value
    return pipesched.read(io.StringIO(json.dumps(content)))


def tampered_nouns() -> dict[str, Any]:
    """Results whose documents are changed: with a step, a network, transfers, slices, an order, and what was solved."""
    step: dict[str, Any] = {"gather": 1, "optimizer": [1, 2.5], "weights": 2, "states": "1/3", "side": [VISION]}
    stepped = pipesched.make_problem(**P2, **step, shard={"level": "weights", "ranks": 8, "ahead": [1, 2]})
    network = pipesched.make_problem(**P2, gather=4, reduce=3, weights=1, optimizer=2, shard="weights")
    moved = pipesched.make_problem(**P2, offload=0.5, reload=1.5, placement="linear")
    lanes = pipesched.plan(moved, ROWS, transfers=["0O0 0L0", "1O0 1L0"], waits=[("0F1", "0O0")])
    sliced = pipesched.make_problem(devices=2, microbatches=1, kv=0.25, slices={"count": 2, "attention": 0.5})
    unequal = pipesched.make_problem(devices=2, microbatches=4, sizes={"work": [1, 2, 3, 1]})
    compared = pipesched.compare(unequal, ["1f1b", "zb-h1"])
    return {
        "STEP_OUTCOME": pipesched.run(stepped, "1f1b"),
        "NETWORK": pipesched.run(network, "1f1b"),
        "TRANSFERS": pipesched.Outcome("by hand", pipesched.schedule_plan(moved, lanes)),
        "SLICED": pipesched.run(sliced, "seq-1f1b"),
        "ORDERED": pipesched.run(unequal, "1f1b", order="best"),
        "SOLVED": pipesched.solve(unequal, time_limit=5),
        "ROBUST": pipesched.robustness(compared, samples=10),
        "tampered": tampered,
    }


@cache
def names() -> dict[str, Any]:
    """What calls are made of."""
    problem = pipesched.make_problem(**P2)
    outcome = pipesched.run(problem, "1f1b")
    others: list[Any] = [io, math, Decimal, Fraction, count, repeat, replace, packed, tuned]
    return {
        **{name: getattr(pipesched, name) for name in pipesched.__all__},
        **{one.__name__: one for one in others},
        **{"hls": hls, "np": np, "nan": math.nan, "inf": math.inf},
        **{"P2": P2, "HUGE": HUGE, "DEEP": DEEP, "ROWS": ROWS, "TRAINING": TRAINING, "README": README, "SPACE": SPACE},
        **{"LAYER": LAYER, "VISION": VISION, "Shard": Shard, "SideItem": SideItem, **MODELS},
        **{"SCALAR": np.array(4), "ARRAY": np.array(["1f1b", "naive"]), "PROBLEM": problem, "OUTCOME": outcome},
        "PLAN": pipesched.plan(problem, ROWS),
        "SCHEDULE": outcome.schedule,
        "OFFLOAD": pipesched.make_problem(**P2, offload=1),
        "FRONTIER": pipesched.frontier(problem, time_limit=5),
        "COMPARISON": pipesched.compare(problem, ["1f1b"]),
        "SWEEP": pipesched.sweep(None, "microbatches", [2, 4, 8], ["1f1b"]),
        **tampered_nouns(),
        "GRAPH": hls.parse_program("a*b + c"),
        "UNITS": hls.make_units(),
    }


def said(calls: str) -> Iterator[str]:
    """Each call behind `>>> `, and below it what its error says, the parameter first."""
    known = names()
    for line in calls.splitlines():
        if line[:1] in ("", "#"):
            yield line
        if not line.startswith(">>> "):
            continue
        with pytest.raises(PipeschedError) as caught:
            eval(line.removeprefix(">>> "), {**known})
        text = str(caught.value)
        assert "--" not in text  # no flag of the command line
        assert text.replace("\n", "").isprintable()
        assert len(text) < 560
        key = getattr(caught.value, "key", None) or ""
        yield from (line, text if text.startswith(key) else f"[{key}] {text}")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: str(path.stem))
def test_refused(path: Path, golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: Any) -> None:
    """Each call is an error about its parameter, of this text, and leaves no file behind."""
    calls = path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    README.write_text("precious", encoding="utf-8")
    golden(f"refused/{path.name}", "".join(f"{line}\n" for line in said(calls)))
    assert [(one.name, one.read_text("utf-8")) for one in tmp_path.iterdir()] == [("README.md", "precious")]
