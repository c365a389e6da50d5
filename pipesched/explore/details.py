"""What is said of a schedule and of the selected task, in lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pipesched.core.reasons import NOTHING, Arc, Idle, TimedTasks, moved
from pipesched.errors import InvalidSchedule
from pipesched.explore.board import LIVE, Board, legal, place_of
from pipesched.explore.sheet import Pause, Version
from pipesched.render.marks import IDLE_MARKS

MOST_INPUTS = 4


def change(board: Board, ticks: int) -> str:
    """Return a difference of times: +5, -5, or 0."""
    return f"{'+' if ticks > 0 else '-' if ticks < 0 else ''}{board.number(abs(ticks))}"


def title(version: Version, *, unsaved: bool) -> list[str]:
    """Return the parts of the title of a schedule."""
    amounts, board = version.board.amounts, version.board
    grown = amounts.makespan - version.base
    gain = f" ({change(board, grown)})" if version.edits and version.base else ""
    parts = [version.algorithm, amounts.sizes, f"makespan {board.number(amounts.makespan)}{gain}"]
    parts += [f"bound here {board.number(amounts.bound)}", f"bubble {amounts.bubble:.1%}"]
    if amounts.memory:
        parts.append(amounts.memory + (" over" if amounts.over else ""))
    if board.missing:
        parts.append(f"{board.missing} to place")
    elif unsaved:
        parts.append("edited")
    return parts


def details(board: Board, task: int) -> Iterator[tuple[str, str]]:
    """Yield lines on the selected task: what each is about, and its text."""
    if task == NOTHING:
        yield "", "nothing is placed yet"
        return
    tasks = board.tasks
    row, position = place_of(board, task)
    when = f"{board.number(tasks.starts[task])}-{board.number(tasks.ends[task])}"
    held = held_back_by(tasks, task)
    late = tasks.starts[task] - (0 if held is None else tasks.ends[held.before] + held.lag)
    critical = "w says the slack"
    if len(tasks.durations) <= LIVE:
        critical = "critical" if not tasks.slack[task] else f"slack {board.number(tasks.slack[task])}"
    more = f"  late by {board.number(late)}" if late else ""
    yield board.name(task), f"{board.row_name(row)} position {position}  {when}  {critical}{more}"
    yield "waits for", _inputs(board, task)
    yield "may stand at", _moves(board, task)
    yield "gap before", _gap_before(board, task)
    costs = board.what_costs_do(task)
    if costs:
        yield "cost", costs


def _inputs(board: Board, task: int) -> str:
    tasks, tight = board.tasks, held_back_by(board.tasks, task)
    arcs = sorted(tasks.arcs(task), key=lambda arc: (arc != tight, -_there(board, arc)))
    if not arcs:
        return "nothing"
    texts = []
    for arc in arcs[:MOST_INPUTS]:
        what = "" if arc.is_input else " (order)" if arc.before == tasks.previous[task] else " (wait edge)"
        binds = " binds" if arc == tight else ""
        texts.append(f"{board.name(arc.before)}{what} at {board.number(_there(board, arc))}{binds}")
    return ", ".join(texts) + (f", {len(arcs) - MOST_INPUTS} more" if len(arcs) > MOST_INPUTS else "")


def held_back_by(tasks: TimedTasks, task: int) -> Arc | None:
    """Return the arc that holds a task back, as `TimedTasks.tight` says it of all, without looking at others."""
    arcs = [*tasks.arcs(task)]
    allowed = max((tasks.ends[arc.before] + arc.lag for arc in arcs), default=0)
    if not allowed:
        return None
    reaching = [arc for arc in arcs if tasks.ends[arc.before] + arc.lag == allowed]
    return min(reaching, key=lambda arc: (not arc.is_input, -arc.lag, tasks.ranks[arc.before]))


def _there(board: Board, arc: Arc) -> int:
    return board.tasks.ends[arc.before] + arc.lag


def _moves(board: Board, task: int) -> str:
    fixed = board.why_fixed(task)
    if fixed:
        return fixed
    limits, place = legal(board, task), place_of(board, task)
    several = f"positions {limits.first} to {limits.last}"
    text = several if limits.first < limits.last else f"position {limits.first} alone"
    for key, position in (("<", place.position - 1), (">", place.position + 1)):
        if len(board.tasks.durations) <= LIVE and limits.allow(position):
            text += f"   {key} {makespan_after(board, task, position)}"
    return text


def makespan_after(board: Board, task: int, position: int) -> str:
    """Return the makespan after a legal move, with what it gains."""
    row, start = place_of(board, task)
    try:
        after = board.reordered(row, moved(board.tasks.orders[row], start, position)).tasks.makespan
    except InvalidSchedule:
        return "cannot run"
    return f"{board.number(after)} ({change(board, after - board.tasks.makespan)})"


def _gap_before(board: Board, task: int) -> str:
    """Say how long the row idles before a task, of which class, and why."""
    if len(board.tasks.durations) > LIVE:
        return "w says why"
    texts = []
    for gap in board.gaps:
        if gap.waiting == task:
            if gap.idle is not Idle.ORDER:
                why = board.gap_words(gap)
            elif legal(board, gap.culprit).allow(position := place_of(board, task).position):
                after = makespan_after(board, gap.culprit, position)
                why = f"{board.name(gap.culprit)} could run; before {board.name(task)}: {after}"
            else:
                why = f"{board.name(gap.culprit)} could run, but not before {board.name(task)}"
            texts.append(f"{board.number(gap.end - gap.start)} {IDLE_MARKS[gap.idle].meaning}: {why}")
    return "; ".join(texts) or "none"


def pause_reasons(board: Board, pause: Pause) -> tuple[str, str]:
    """Return how much of a pause is of which class, most first: `wait 10, order 5`; and why, for its longest part."""
    parts = [gap for gap in board.gaps if gap.device == pause.row and pause.start <= gap.start < pause.end]
    totals = Counter[Idle]()
    for gap in parts:
        totals[gap.idle] += gap.end - gap.start
    text = ", ".join(f"{IDLE_MARKS[idle].meaning} {board.number(ticks)}" for idle, ticks in totals.most_common())
    longest = max(parts, key=lambda gap: gap.end - gap.start, default=None)
    return text, "" if longest is None else board.gap_words(longest)
