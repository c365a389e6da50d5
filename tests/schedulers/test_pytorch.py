"""The families that PyTorch has too equal its classes operation by operation.

`pytorch_orders.txt` holds orders of the classes of torch 2.13, frozen, so that the comparison needs no torch; where
torch is installed, the classes themselves are asked, at many more sizes, and whether the file still says the same.

    python -m tests.schedulers.test_pytorch > tests/schedulers/pytorch_orders.txt      # writes it (with torch)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pipesched import Plan, make_problem, run
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.schedulers.zero_bubble import published_order
from tests.schedulers.pytorch import MULTI, SINGLE, executed, rounds, takes
from tests.strategies import texts_of
from tests.torch_ranks import REQUIRED, needs_torch

FROZEN = Path(__file__).with_name("pytorch_orders.txt")
FAMILIES = [*SINGLE, *MULTI]


class Size(NamedTuple):
    """A family, and how large its pipeline is: devices, chunks a device, microbatches."""

    name: str
    devices: int
    chunks: int
    microbatches: int


SIZES_IN_FILE = [
    Size("1f1b", 3, 1, 4), Size("naive", 2, 1, 3), Size("looped-bfs", 2, 2, 3), Size("interleaved", 3, 2, 2),
    Size("interleaved", 3, 2, 8), Size("interleaved-zb", 3, 2, 2), Size("interleaved-zb", 3, 2, 8),
    Size("dualpipe-v", 2, 2, 5), Size("dualpipe-v", 3, 2, 6), Size("zb-v", 2, 2, 3), Size("zb-v", 3, 2, 7),
]  # fmt: skip


def ours(size: Size) -> list[list[str]]:
    """Our order, with PyTorch's group size where that is to be said; of zb-v the published one."""
    name, devices, chunks, microbatches = size
    if name == "zb-v":
        index = OpIndex("FIW", devices * chunks, microbatches)
        orders = [published_order(index, devices, device) for device in range(devices)]
        return texts_of(Plan(index, orders))
    problem = make_problem(devices=devices, stages=devices * chunks, microbatches=microbatches)
    grouped = name in ("interleaved", "interleaved-zb")
    options = {"group_size": microbatches // rounds(devices, microbatches)} if grouped else {}
    return texts_of(run(problem, name, **options).schedule.plan)


def frozen() -> dict[Size, list[list[str]]]:
    """The orders in the file."""
    found = {}
    for block in FROZEN.read_text(encoding="utf-8").strip().split("\n\n"):
        head, *rows = block.splitlines()
        name, *numbers = head.split()
        found[Size(name, *map(int, numbers))] = [row.split() for row in rows]
    return found


@pytest.mark.parametrize("size", SIZES_IN_FILE, ids=lambda size: "-".join(map(str, size)))
def test_the_frozen_orders(size: Size) -> None:
    """Operation by operation what PyTorch's class ran."""
    assert ours(size) == frozen()[size]


@pytest.fixture(scope="module")
def schedules() -> Any:
    """PyTorch's module of schedules, in a version that we follow; another one is skipped where none is required."""
    version: str = import_module("torch").__version__
    if not version.startswith(("2.13.", "2.15.")) and not REQUIRED:
        pytest.skip(f"the classes are compared as they are in torch 2.13 and 2.15, not {version}")
    return import_module("torch.distributed.pipelining.schedules")


def sizes(name: str) -> Iterator[Size]:
    """Sizes that the class takes: P from 2 to 8, up to 4 chunks, and few, some and many microbatches.

    Not interleaved with one chunk, which is 1F1B here and in Megatron-LM; PyTorch's class warms up for longer.
    """
    for devices in range(2, 9):
        for chunks in range(2 if name == "interleaved" else 1, 5):
            for microbatches in [*range(1, 2 * devices + 5), 4 * devices, 5 * devices + 5]:
                if takes(name, devices, chunks, microbatches):
                    yield Size(name, devices, chunks, microbatches)


@needs_torch
@pytest.mark.parametrize("name", FAMILIES)
def test_against_pytorch(name: str, schedules: Any) -> None:
    """Operation by operation what PyTorch's class runs, for every size that it takes."""
    compared = 0
    for size in sizes(name):
        assert ours(size) == executed(schedules, *size), size
        compared += 1
    assert compared >= 40


@needs_torch
def test_the_file_says_what_pytorch_does(schedules: Any) -> None:
    """The frozen orders are those of the classes."""
    assert frozen() == {size: executed(schedules, *size) for size in SIZES_IN_FILE}


if __name__ == "__main__":
    module = import_module("torch.distributed.pipelining.schedules")
    blocks = []
    for each in SIZES_IN_FILE:
        rows = executed(module, *each)
        blocks.append("\n".join([" ".join(map(str, each)), *map(" ".join, rows)]))
    sys.stdout.write("\n\n".join(blocks) + "\n")
