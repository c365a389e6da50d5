"""Which network programs are legal, a second time. Nothing of the package is imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.oracle.step_graph import Texts, places, turn_of
from tests.oracle.step_setup import WORKS, Op, Program, Step, parse, parts


class Illegal(Exception):
    """A program breaks a rule; the text says which."""


def require_legal(step: Step, plan: Texts) -> None:
    """Raise Illegal, with all that is wrong, for programs that break a rule."""
    given = [text for program in plan.programs for text, _ in program]
    turns = {text for text in given if step.level == "weights" and parse(text).kind in ("UNSHARD", "RESHARD")}
    due = set(_due(step))
    wrong = [
        f"{text} stands twice or need not be" for text in given if given.count(text) > 1 or text not in due | turns
    ]
    wrong += [f"{text} is missing" for text in due - {*given}]
    for device, (row, program) in enumerate(zip(plan.rows, plan.programs, strict=True)):
        wrong += [f"{text} on device {device}" for text, _ in program if _home(step, parse(text)) != device]
        wrong += _out_of_place(row, program)
        if step.level == "weights":
            wrong += _out_of_turn(program)
            works = [text for slot in row for text in parts(slot) if parse(text).kind in WORKS]
            wrong += [f"{text} while its stage is sharded" for text in works if turn_of(row, program, text) is None]
    if wrong:
        raise Illegal("; ".join(wrong))


def _home(step: Step, op: Op) -> int:
    return step.setup.placement[op.stage]


def _due(step: Step) -> Iterator[str]:
    """What must stand in the programs, turns apart."""
    for stage in range(step.setup.stages):
        if step.gathers and step.level != "weights":
            yield f"{stage}UNSHARD0"
        if step.reduces:
            numbers = range(step.setup.microbatches) if step.each else [""]
            yield from (f"{stage}REDUCE_GRAD{number}" for number in numbers)
        if step.ties and stage in step.ends:
            yield f"{stage}REDUCE_TIED"


def _out_of_place(row: Sequence[str], program: Program) -> Iterator[str]:
    """What goes back in a program, and reductions before a backward that they need."""
    place, last = places(row), -1
    for text, after in program:
        op = parse(text)
        if op.kind == "REDUCE_TIED":
            continue
        at = -1 if after is None else place[after]
        if at < last:
            yield f"{text} goes back"
        last = at
        if op.kind == "REDUCE_GRAD":
            for one, where in place.items():
                back = parse(one) if not one.startswith("(") else op
                needed = back.kind in ("B", "W") and back.stage == op.stage and op.number in (None, back.number)
                if needed and where > at:
                    yield f"{text} before {one}"


def _out_of_turn(program: Program) -> Iterator[str]:
    """UNSHARDs and RESHARDs of a stage that do not alternate, or are not counted from 0."""
    counts: dict[int, int] = {}
    for text, _ in program:
        op = parse(text)
        if op.kind in ("UNSHARD", "RESHARD"):
            turn, is_end = divmod(counts.get(op.stage, 0), 2)
            counts[op.stage] = counts.get(op.stage, 0) + 1
            if op.number != turn or (op.kind == "RESHARD") != is_end:
                yield f"{text} out of turn"
    yield from (f"stage {stage} stays whole" for stage, count in counts.items() if count % 2)
