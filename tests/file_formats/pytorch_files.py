"""PyTorch's CSV files for tests: with communication, and with small changes that may or may not break them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random

from pipesched import Problem
from tests.oracle.alike import parts, replay


def with_transfers(problem: Problem, rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows with SEND and RECV: both stand in their rows at once, at the moment when the result is there."""
    homes, start = problem.settled_placement.devices, replay(problem, rows).start
    place = {text: (device, number) for device, row in enumerate(rows) for number, text in enumerate(row)}
    table: list[list[str]] = [[] for _ in rows]
    for text in sorted(place, key=lambda text: (start[text], _depth(text, problem.stages), place[text])):
        ((stage, kind, microbatch, _),) = parts(text)
        table[homes[stage]].append(text)
        other = stage + 1 if kind == "F" else stage - 1
        if kind != "W" and 0 <= other < problem.stages and homes[other] != homes[stage]:
            letter = "F" if kind == "F" else "B"
            table[homes[stage]].append(f"{stage}SEND_{letter}{microbatch}")
            table[homes[other]].append(f"{other}RECV_{letter}{microbatch}")
    return table


def with_waits(table: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows as PyTorch 2.15 writes them: a SEND_F is waited for behind its stage's backward, a SEND_B at the end."""
    rows = []
    for cells in table:
        row, pending = list[str](), list[str]()
        for cell in cells:
            row.append(cell)
            if "REDUCE_GRAD" in cell:
                row.append(cell.replace("REDUCE", "WAIT_REDUCE"))
            if "SEND" in cell:
                pending.append(cell.replace("SEND", "WAIT_SEND"))
            wait = re.sub(r"^(\d+)[BI](\d+)$", r"\1WAIT_SEND_F\2", cell)
            if wait in pending:
                pending.remove(wait)
                row.append(wait)
        rows.append(row + pending)
    return rows


def _depth(text: str, stages: int) -> int:
    """What comes first of operations that start at one time, having no length: forwards, then backwards."""
    ((stage, kind, _, _),) = parts(text)
    return stage if kind == "F" else 2 * stages - stage


def transfers(table: Sequence[Sequence[str]]) -> Iterator[tuple[int, int]]:
    """Where SENDs and RECVs stand."""
    for row, cells in enumerate(table):
        for column, cell in enumerate(cells):
            if "SEND" in cell or "RECV" in cell:
                yield row, column


def disturb(table: list[list[str]], random: Random) -> None:
    """One small change: a cell goes, stands twice, moves within its row, or gets another number or letter."""
    row = random.choice([row for row in table if row])
    place, to = random.randrange(len(row)), random.randrange(len(row))
    change = random.choice(["drop", "repeat", "move", "move", "move", "number", "letter"])
    cell = row[place] if change == "repeat" else row.pop(place)
    if change == "number":
        cell = cell.replace(random.choice("012"), random.choice("0123"))
    if change == "letter":
        cell = cell.replace(random.choice("FBIW"), random.choice("FBIW"))
    if change != "drop":
        row.insert(to if change == "move" else place, cell)
