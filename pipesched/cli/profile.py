"""`pipesched profile`: measure the stages of a model, and write the config to schedule them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipesched.cli.option import option, whole_number, whole_numbers
from pipesched.cli.options import Screen, Target
from pipesched.errors import ConfigError


def command(
    model: Annotated[
        str,
        typer.Argument(
            help="package.module:function, which returns the modules of the stages in forward order.",
            metavar="MODULE:FUNCTION",
        ),
    ],
    *,
    shape: Annotated[str, option("--shape N,N,..", "The sizes of a microbatch of the input, as in 8,64.")] = "",
    dtype: Annotated[str, option("--dtype NAME", "The type of the input, as in float32 or int64.")] = "float32",
    devices: Annotated[str | None, option("--devices N", "Pipeline ranks; default: one for each stage.")] = None,
    microbatches: Annotated[str | None, option("--microbatches N", "Of a step; default: twice the devices.")] = None,
    repeats: Annotated[str, option("--repeats N", "How often each operation is measured.")] = "20",
    loss: Annotated[
        str | None,
        option("--loss MODULE:FUNCTION", "A function of the output and a target; default: the mean squared error."),
    ] = None,
    split_backward: Annotated[
        bool,
        option(
            "--split-backward/--no-split-backward",
            "Give the backward by its halves I and W, or whole, which takes less; the other way is a comment.",
        ),
    ] = True,
    target: Target,
    screen: Screen,
) -> None:
    """Measure F, B, I, W, recomputation, transfers, messages and bytes of a model's stages; print a config.

    On the GPU, if there is one; else on one core, as torchrun starts its ranks. Needs `pip install 'pipesched[torch]'`.
    """
    from pipesched.cli.output import print_json, printed_before, warnings_on_stderr, write_target
    from pipesched.cli.reading import note_on_stderr
    from pipesched.file_formats.files import refuse_existing
    from pipesched.runtime import require_torch

    require_torch()
    if not shape:
        raise ConfigError("--shape: is missing: the sizes of a microbatch, as in 8,64")
    if target.path is not None:
        refuse_existing(Path(target.path), target.force)
    from pipesched.runtime.model_source import named_function, pieces_of
    from pipesched.runtime.profile_text import config_text, profile_document
    from pipesched.runtime.profiling import profile

    with warnings_on_stderr():
        measured = profile(
            pieces_of(model),
            sizes(shape),
            dtype=dtype,
            devices=None if devices is None else whole_number("--devices", devices, least=1),
            microbatches=None if microbatches is None else whole_number("--microbatches", microbatches, least=1),
            repeats=whole_number("--repeats", repeats, least=2),
            loss_fn=None if loss is None else named_function(loss, "loss"),
            name=model,
        )
    text = config_text(measured, split_backward=split_backward)
    if screen.as_json:
        with printed_before(lambda: write_target(text, target)):
            print_json(profile_document(measured))
    elif target.path is not None:
        write_target(text, target)
    else:
        sys.stdout.write(text)
        if text.note:
            note_on_stderr(text.note)
    if target.path is not None:
        print(f"wrote {target.path}", file=sys.stderr)


def sizes(text: str) -> list[int]:
    """Return the sizes that a text lists. Raises ConfigError."""
    return whole_numbers("--shape", text, least=1)
