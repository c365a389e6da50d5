"""Every key and mouse action of the app: the one table that bindings, footer, help and docs are made of."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """Keys (as Textual names them), how they are shown, what they do, and where.

    `action` is the name of the app's action; `short` stands in the footer (empty: not there); `mode` is "" for always,
    "whole" or "empty".
    """

    keys: str
    shown: str
    action: str
    text: str
    short: str = ""
    mode: str = ""


KEYS = (
    Key("left,h", "Left h", "step(-1,0)", "the operation before, on the same device"),
    Key("right,l", "Right l", "step(1,0)", "the operation behind"),
    Key("up,k", "Up k", "step(0,-1)", "the nearest in time on the device above"),
    Key("down,j", "Down j", "step(0,1)", "the nearest in time on the device below"),
    Key("left_square_bracket", "[", "gap(-1)", "the gap before: select what stands behind it"),
    Key("right_square_bracket", "]", "gap(1)", "the next gap"),
    Key("left_curly_bracket", "{", "gap_by_size(-1)", "the next larger gap, at first the largest"),
    Key("right_curly_bracket", "}", "gap_by_size(1)", "the next smaller gap, at first the largest"),
    Key("less_than_sign", "<", "move(-1)", "move the operation one position earlier", "<> move"),
    Key("greater_than_sign", ">", "move(1)", "move the operation one position later"),
    Key("u", "u", "undo", "undo", "u undo"),
    Key("ctrl+r", "Ctrl-R", "redo", "redo", "^R redo"),
    Key("x", "x", "best", "make the single move that shortens the schedule most", "x best"),
    Key("slash", "/", "jump", "jump to an operation: 3B7, then Enter", "/ find"),
    Key("w", "w", "why", "why the operation starts when it does, the idle time and the largest gaps", "w why"),
    Key("p", "p", "mark('critical')", "mark the critical path", "p path"),
    Key("d", "d", "mark('inputs')", "mark what the operation waits for (i, I binds), and what waits for it (o)",
        "d deps"),
    Key("m", "m", "mark('memory')", "memory over time", "m mem"),
    Key("plus,equals_sign", "+", "zoom(2)", "zoom in at the selected operation", "+-0 zoom"),
    Key("minus", "-", "zoom(0.5)", "zoom out"),
    Key("0", "0", "zoom_all", "all of the schedule"),
    Key("f", "f", "zoom_selected", "zoom to the selected operation"),
    Key("a", "a", "algorithm", "another algorithm: type to filter, Enter", "a algo"),
    Key("e", "e", "parameters", "parameters: microbatches, stages, budget, p2p, costs; the chart follows at every key",
        "e params"),
    Key("c", "c", "keep", "keep the schedule for comparison", "c keep"),
    Key("tab", "Tab", "switch(1)", "the next kept schedule; with a pool, from chart to pool and back", "Tab next"),
    Key("S", "S", "solve", "solve: search for a better schedule; Esc stops with the best so far", "S solve"),
    Key("s", "s", "save", "save to a file, in the format of its suffix; then it is checked", "s save"),
    Key("enter", "Enter", "place", "place the chosen operation behind the last one of its device",
        "Enter place", "empty"),
    Key("backspace", "Backspace", "take_back", "take the last operation of the selected device out",
        "Bksp out", "empty"),
    Key("1", "1", "preset(0)", "the whole schedule: naive; of hardware none/input", "123 presets", "empty"),
    Key("2", "2", "preset(1)", "the whole schedule: 1f1b; of hardware asap/fifo", "", "empty"),
    Key("3", "3", "preset(2)", "the whole schedule: interleaved; of hardware alap/pairing", "", "empty"),
    Key("question_mark", "?", "keys", "these keys", "? keys"),
    Key("escape", "Esc", "stop", "close a dialog; stop a search; cancel a drag"),
    Key("q", "q", "leave", "leave; asks if something is not saved (y leaves)", "q quit"),
)  # fmt: skip
MOUSE = (
    ("click", "select an operation"),
    ("drag", "move it: it lands before the first other operation whose middle is right of the pointer; legal positions"
     " are lit, and what is refused says why"),
    ("wheel", "pan: through time, or with Shift through devices"),
    ("Ctrl-wheel", "zoom at the pointer"),
    ("drag from the pool", "place an operation on its device (empty mode)"),
)  # fmt: skip
