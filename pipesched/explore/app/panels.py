"""The texts around the chart: title, footer, parameters, reasons, the pool; a function each, of the state alone."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from pipesched.core.reasons import NOTHING, Idle
from pipesched.explore.board import LIVE, FormField
from pipesched.explore.drawing import BoardDrawing, names_of, painter_of
from pipesched.explore.pipeline_board import MOST_SENSITIVE, PipelineBoard
from pipesched.explore.sheet import by_size, details, legal, pause_reasons, pauses, rows_of, title, waits_for
from pipesched.explore.state import ALGORITHM, KEYS, State, Unplaced
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.render.gantt import Line, LineFrame
from pipesched.render.palette import IDLE_MARKS

ABOUT = 13  # columns of what a line of details is about
MOST_ROWS = 8  # of a table beside the chart
FOOTER = ("move(-1)", "undo", "best", "why", "algorithm", "parameters", "save", "keep", "switch(1)", "solve", "redo")
BOLD, DIM = Style(bold=True), Style(dim=True)


def title_text(state: State, width: int) -> Text:
    """Return the title line: what it is, its measures, what is kept; parts at the end are left out where none fit."""
    parts = title(state.sheet.version, unsaved=state.sheet.is_unsaved)
    text = Text(no_wrap=True).append(parts[0], style="bold")
    tail = f"  [{state.current + 1}/{len(state.sheets)}]" if len(state.sheets) > 1 else ""
    edited = "  edited" if parts[-1] == "edited" else ""
    for part in parts[1:-1] if edited else parts[1:]:
        if len(text) + 2 + len(part) + len(tail) + len(edited) <= width:
            text.append(f"  {part}")
    if edited:
        text.append(edited, style="bold")
    text.append(tail)
    text.pad_right(max(width - len(text), 0))
    return text


def footer_text(state: State, width: int, *, empty: bool, searching: bool) -> Text:
    """Return the keys that do something now, as many as fit."""
    if searching:
        return Text("Esc stop".ljust(width), style="bold")
    alone = len(state.sheets) < 2 and not empty
    useless = {"undo": not state.sheet.done, "redo": not state.sheet.undone, "switch(1)": alone}
    shown = [key for key in KEYS if key.short and not useless.get(key.action) and (key.mode != "empty" or empty)]
    shown.sort(key=lambda key: (key.mode != "empty", FOOTER.index(key.action) if key.action in FOOTER else len(FOOTER)))
    last = [key for key in shown if key.action in ("keys", "leave")]
    text, ends = Text(no_wrap=True), sum(len(key.short) + 2 for key in last)
    for key in [*(key for key in shown if key not in last), *last]:
        if len(text) + len(key.short) + 2 + (0 if key in last else ends) <= width + 2:
            first, _, rest = key.short.partition(" ")
            text.append(first, style="bold").append(f" {rest}  ")
    text.right_crop(2)
    text.pad_right(max(width - len(text), 0))
    return text


def parameter_fields(state: State) -> list[FormField]:
    """Return the lines beside the chart: the algorithm, then the parameters."""
    return [FormField(ALGORITHM, ALGORITHM, state.sheet.version.algorithm), *state.fields]


def reasons_text(state: State, *, asked: bool = False) -> Text:
    """Return where idle time goes, and which costs hurt most; of many operations where it is `asked`."""
    board, tasks = state.board, state.board.tasks
    if board.missing:
        return Text("reasons come when all\noperations are placed", style="dim")
    if len(tasks.durations) > LIVE and not asked:
        return Text(f"more than {LIVE:,} operations:\nw says why", style="dim")
    totals = dict.fromkeys(Idle, 0)
    for gap in board.gaps:
        totals[gap.idle] += gap.end - gap.start
    text = Text().append("idle time\n", style="bold")
    whole = sum(totals.values())
    for idle, ticks in sorted(totals.items(), key=lambda item: -item[1]):
        if ticks:
            text.append(f"{IDLE_MARKS[idle].meaning.ljust(9)}{board.number(ticks).rjust(9)}{ticks / whole:>6.0%}\n")
    text.append(f"{'all'.ljust(9)}{board.number(whole).rjust(9)}\n")
    busy = sum(tasks.durations[task] for order in rows_of(board) for task in order)
    least = max(tasks.devices * board.amounts.bound - busy, 0)
    text.append(f"no order avoids {board.number(least)} of it, one might {board.number(whole - least)}\n\n")
    if isinstance(board, PipelineBoard) and not board.is_late and len(tasks.durations) <= MOST_SENSITIVE:
        text.append("one unit of a cost\n", style="bold")
        text.append(f"{''.ljust(18)}{'less':>6}{'more':>6}\n", style="dim")
        rows = sorted(board.sensitive, key=lambda row: (-row.faster, -row.slower, row.stage, row.kind))
        for row in (row for row in rows[:MOST_ROWS] if row.slower):
            name = KINDS[row.kind].name if row.kind in KINDS else row.kind
            text.append(f"{f'{name} {row.stage}'.ljust(18)}{-row.faster:>6}{row.slower:>+6}\n")
        text.append("\n")
    text.append("longest gaps\n", style="bold")
    for pause in by_size(pauses(tasks))[:MOST_ROWS]:
        when = f"{board.row_name(pause.row)}  {board.number(pause.start)}-{board.number(pause.end)}"
        classes, words = pause_reasons(board, pause)
        text.append(f"{when}  {classes}\n").append(f"  {words}\n", style="dim")
    return text


def kept_lines(
    state: State, drawing: BoardDrawing, width: int, height: int, *, letters: bool, ascii_only: bool
) -> list[Line]:
    """Return the kept schedules on the scale of the chart, each with its title, as many rows as there is room for."""
    others = [sheet for number, sheet in enumerate(state.sheets) if number != state.current]
    each = max(height // max(len(others), 1), 3)
    lines: list[Line] = []
    for sheet in others:
        painter = painter_of(sheet.board, LineFrame(drawing.gutter, [drawing.scale], 0, not letters, ascii_only))
        head = "  ".join(title(sheet.version, unsaved=sheet.is_unsaved))
        lines.append([Segment(f"{state.sheets.index(sheet) + 1} {head}"[:width], BOLD)])
        block: list[Line] = []
        for row, name in enumerate(names_of(sheet.board, long=drawing.gutter > len("device 0"))):
            cells = painter.lines(painter.row(row).runs(drawing.scale)) if painter.row(row).order else []
            for number, line in enumerate(cells):
                block.append([Segment(("" if number else name).ljust(drawing.gutter), DIM), *line])
        lines += [*block[: each - 1], *([[]] if len(block) + 1 < each else [])]
    return lines[:height]


def pool_lines(pool: Unplaced, height: int, *, focused: bool) -> tuple[list[Text], Sequence[int]]:
    """Return the operations of the pool that fit, the chosen one among them, and which stands on which line."""
    waiting = pool.waiting
    if not waiting:
        return [Text("all placed", style="bold")], [NOTHING]
    place = waiting.index(pool.chosen) if pool.chosen in waiting else 0
    room = max(height - 1, 1)
    top = min(max(place - room // 2, 0), max(len(waiting) - room, 0))
    lines = [Text(f"pool: {len(waiting)}", style="bold")]
    rows = [NOTHING]
    for task in waiting[top : top + room]:
        ready = pool.is_ready(task)
        cursor = ">" if task == pool.chosen else " "
        text = f"{cursor}{'*' if ready else ' '}{pool.board.name(task)}".ljust(11) + pool.board.home_name(task)
        style = "bold" if ready else "dim"
        lines.append(Text(text, style=f"{style} reverse" if task == pool.chosen and focused else style))
        rows.append(task)
    return lines, rows


def why_text(state: State) -> RenderableType:
    """Return why the selected operation starts when it does, the chain to time 0, idle time and gaps."""
    board, task = state.board, state.selected
    if task == NOTHING:
        return Text("nothing is placed yet")
    slack = board.tasks.slack[task]
    chain = [board.name(other) for other in board.tasks.chain(task)]
    more = f" <- .. {len(chain) - 24} more" if len(chain) > 24 else ""
    held = Text(f"\nheld back by: {' <- '.join(chain[:24])}{more} <- time 0\n")
    held.append(f"it may end {board.number(slack)} later without making the step longer\n" if slack else "critical\n")
    limits = legal(board, task) if not board.why_fixed(task) else None
    if limits is not None:
        for chained, word in ((limits.behind, "not earlier"), (limits.before, "not later")):
            if chained:
                held.append(f"{word}: {waits_for(board, chained)}\n")
    table = Table.grid()  # of details, where long lines go on in the next one
    table.add_column(width=ABOUT, style="dim")
    table.add_column()
    for number, texts in enumerate(details(board, task)):
        table.add_row(*(Text(text, "" if number else "bold") for text in texts))
    return Group(table, held, reasons_text(state, asked=True))
