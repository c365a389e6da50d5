"""The rule of families, a second time: what network program and which other slots the order of a family gets.

Rows are texts of slots, device by device, in the order of the family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from tests.oracle.step_graph import Texts
from tests.oracle.step_replay import Whole, replay_step
from tests.oracle.step_setup import WORKS, Op, Program, Step, parse, parts

Rows = Sequence[Sequence[str]]


def with_side_first(step: Step, rows: Rows, order: Sequence[int] | None = None) -> list[list[str]]:
    """The rows with side work by the rule `first`: all E before, all G behind, by microbatch as fed, then item."""
    before: list[list[str]] = [[] for _ in rows]
    behind: list[list[str]] = [[] for _ in rows]
    for place, microbatch in enumerate(order or range(step.setup.microbatches)):
        for number, item in enumerate(step.side):
            device = item.devices[place % len(item.devices)]
            before[device].append(f"{number}E{microbatch}")
            if item.backward is not None:
                behind[device].append(f"{number}G{microbatch}")
    return [[*first, *row, *last] for first, row, last in zip(before, rows, behind, strict=True)]


def with_optimizers(step: Step, rows: Rows) -> list[list[str]]:
    """The rows with OPTIMIZER behind all else, in the order of the stages' last B or W; tied stages come last."""
    if step.optimizer is None:
        return [[*row] for row in rows]
    whole = []
    for row in rows:
        last = _last_backwards(row)
        stages = sorted(last, key=lambda stage: (step.ties and stage in step.ends, last[stage]))
        whole.append([*row, *(f"{stage}OPTIMIZER" for stage in stages)])
    return whole


def programs_of(step: Step, rows: Rows) -> list[Program]:
    """The network program of each device by the rule of families; REDUCE_TIED last."""
    programs = []
    for device, row in enumerate(rows):
        issued = issued_turns(row, step.ahead[device]) if step.level == "weights" else {-1: _heads(step, row)}
        issued = issued_late(row) if step.gathers_late else issued
        program: Program = []
        for at in range(-1, len(row)):
            after = row[at] if at >= 0 else None
            reduces = _reduces(step, row, at) if at >= 0 else []
            program += [(text, after) for text in [*reduces, *issued.get(at, [])]]
        if step.ties:
            ends = [stage for stage in step.ends if step.setup.placement[stage] == device]
            program += [(f"{stage}REDUCE_TIED", None) for stage in ends]
        programs.append(program)
    return programs


def by_rule(step: Step, rows: Rows, order: Sequence[int] | None = None) -> Texts:
    """The plan of a family's rows: with side work by `first`, and network programs."""
    whole = with_optimizers(step, with_side_first(step, rows, order))
    return Texts(whole, programs_of(step, whole))


def best_ahead(step: Step, rows: Rows, budget: Sequence[Fraction] | None = None) -> tuple[int, Whole]:
    """The number that `ahead: auto` becomes: the shortest that fits, else the least largest memory; the smaller one."""
    budget = budget or step.setup.budget
    tried = []
    for ahead in range(1, max(step.setup.placement.count(device) for device in range(step.setup.devices)) + 1):
        at = replace(step, ahead=[ahead] * step.setup.devices)
        replayed = replay_step(at, by_rule(at, rows))
        memory = [peak + static for peak, static in zip(replayed.peak, step.statics(), strict=True)]
        fits = budget is None or all(one <= limit for one, limit in zip(memory, budget, strict=True))
        tried.append(((not fits, replayed.makespan if fits else max(memory), ahead), replayed))
    (_, _, ahead), replayed = min(tried, key=lambda one: one[0])
    return ahead, replayed


def _ops(slot: str) -> list[Op]:
    return [parse(text) for text in parts(slot)]


def _last_backwards(row: Sequence[str]) -> dict[int, int]:
    """Where in a row the last B or W of each stage stands."""
    return {op.stage: at for at, slot in enumerate(row) for op in _ops(slot) if op.kind in "BW"}


def _heads(step: Step, row: Sequence[str]) -> list[str]:
    """Below level weights: one UNSHARD a stage, by the stage's first slot."""
    stages = dict.fromkeys(op.stage for slot in row for op in _ops(slot) if op.is_pass)
    return [f"{stage}UNSHARD0" for stage in stages] if step.gathers else []


def _reduces(step: Step, row: Sequence[str], at: int) -> list[str]:
    """The REDUCE_GRADs that come directly behind a slot."""
    backwards = [op for op in _ops(row[at]) if op.kind in "BW"]
    if not step.reduces or not backwards:
        return []
    if not step.each:
        return [f"{op.stage}REDUCE_GRAD" for op in backwards if _last_backwards(row)[op.stage] == at]
    return [
        f"{op.stage}REDUCE_GRAD{op.number}"
        for op in backwards
        if not any(
            (other.stage, other.number) == (op.stage, op.number) and other.kind in "BW"
            for slot in row[at + 1 :]
            for other in _ops(slot)
        )
    ]


def issued_turns(row: Sequence[str], ahead: int) -> dict[int, list[str]]:
    """The RESHARDs and UNSHARDs behind each slot (-1: before the first), with `ahead` stages whole at once."""
    works = [[op.stage for op in _ops(slot) if op.kind in WORKS] for slot in row]
    turns: dict[int, int] = {}
    whole: set[int] = set()
    issued: dict[int, list[str]] = {}
    for at, stages in enumerate(works):
        if stages:
            wanted: list[int] = []
            for coming in works[at:]:
                if len(wanted) >= ahead:
                    break
                wanted += [stage for stage in dict.fromkeys(coming) if stage not in wanted]
            behind = issued.setdefault(at - 1, [])
            behind += [f"{stage}RESHARD{turns[stage]}" for stage in sorted(whole - {*wanted})]
            for stage in wanted:
                if stage not in whole:
                    turns[stage] = turns.get(stage, -1) + 1
                    behind.append(f"{stage}UNSHARD{turns[stage]}")
            whole = {*wanted}
    if whole:
        last = max(at for at, stages in enumerate(works) if stages)
        issued.setdefault(last, []).extend(f"{stage}RESHARD{turns[stage]}" for stage in sorted(whole))
    return issued


def issued_late(row: Sequence[str]) -> dict[int, list[str]]:
    """The same where a forward frees its stage, a backward leaves it whole until then, and nothing is gathered ahead.

    A stage is freed behind its last slot too.
    """
    works = [[op for op in _ops(slot) if op.kind in WORKS] for slot in row]
    state: dict[int, tuple[int, bool]] = {}  # of each stage: its turn, and whether it is whole
    issued: dict[int, list[str]] = {}
    for at, ops in enumerate(works):
        for stage in dict.fromkeys(op.stage for op in ops):
            turn, is_whole = state.get(stage, (-1, False))
            if not is_whole:
                state[stage] = turn + 1, True
                issued.setdefault(at - 1, []).append(f"{stage}UNSHARD{turn + 1}")
        for stage in sorted({op.stage for op in ops}):
            kinds = [op.kind for op in ops if op.stage == stage]
            if kinds == ["F"] or all(op.stage != stage for later in works[at + 1 :] for op in later):
                state[stage] = state[stage][0], False
                issued.setdefault(at, []).append(f"{stage}RESHARD{state[stage][0]}")
    return issued
