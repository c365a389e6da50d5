"""What a user's model, data or loss raises: one line that says what, where, and what may help."""

from __future__ import annotations

import traceback
from typing import Any

import torch

from pipesched.checks import cut
from pipesched.errors import ModelFailed
from pipesched.runtime.channels import shapes_of

LONGEST = 400  # letters of a message, and of shapes
IN_LOSS = "in the loss"


def add_place(error: BaseException, where: str) -> None:
    """Let an exception say where it was raised: in its text, or in its notes where that is no short line."""
    text = error.args[0] if len(error.args) == 1 and type(error).__str__ is BaseException.__str__ else None
    if isinstance(text, str) and len(text) <= LONGEST and "\n" not in text:
        error.args = (f"{text} ({where})",)
    else:
        vars(error)["__notes__"] = [*getattr(error, "__notes__", ()), where]  # add_note, on Python 3.10 too


def line_of(error: BaseException) -> str:
    """Return the type, the message and the places of an exception, in one line."""
    said = cut(str(error), 2 * LONGEST)
    notes = "".join(f" ({cut(note, LONGEST)})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}{': ' if said else ''}{said}{notes}"


def failure_of(error: Exception, *, hint: str = "") -> ModelFailed:
    """Return an exception of the user's code as ours."""
    return ModelFailed(line_of(error), hint=hint, trace=trace_of(error))


def trace_of(error: BaseException) -> str:
    """Return the traceback of an exception."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def loss_place(output: Any, target: Any) -> str:
    """Return the place of what the loss raises, with what it was given."""
    given = f"output {shapes_text(output)}, target {shapes_text(target)}"
    return f"{IN_LOSS}: {cut(given, LONGEST - len(IN_LOSS) - 2)}"


def shapes_text(value: Any) -> str:
    """Return the shapes and types of tensors."""
    if isinstance(value, torch.Tensor):
        return str(shapes_of([value])[0])
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(shapes_text, value))})"
    return f"a {type(value).__name__}"
