"""`pipesched profile`: measure the stages of a model, and write the config to schedule them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipesched.cli.options import Screen, Target, argument, option, whole_number, whole_numbers
from pipesched.cli.output import print_json, printed_before, warnings_on_stderr, write_target
from pipesched.cli.reading import note_on_stderr
from pipesched.errors import RankFailed

DATA = option(
    "--data MODULE:FUNCTION",
    "Called as data(step, microbatches), returns (inputs, targets), so many microbatches each; default: random.",
)
LOSS = option(
    "--loss NAME|MODULE:FUNCTION",
    "mse, cross-entropy, or called as loss(output, target) for the last stage's output and one microbatch's target,"
    " returns one number; default: mse, for inputs of integers cross-entropy of output (.., classes), target (..).",
)
DTYPE = option(
    "--dtype NAME",
    "The type of random inputs, as in float32 (default) or int64. The target of floats is random numbers of the input's"
    " shape; of integers both are numbers from 0 to --vocab - 1.",
)
VOCAB = option("--vocab N", "Random integers, of inputs and targets, are below it; default: 2.")
TRACEBACK = option("--traceback", "Of what the model, the data or the loss raises print where, too.")


def command(
    model: str = argument(
        "MODULE:FUNCTION", "package.module:function, which returns the modules of the stages in forward order.", ...
    ),
    *,
    shape: str | None = option("--shape N,N,..", "The sizes of a microbatch of random inputs, as in 8,64."),
    dtype: str | None = DTYPE,
    vocab: str | None = VOCAB,
    data: str | None = DATA,
    loss: str | None = LOSS,
    devices: str | None = option("--devices N", "Pipeline ranks; default: one for each stage."),
    microbatches: str | None = option("--microbatches N", "Of a step; default: twice the devices."),
    repeats: str = option("--repeats N", "How often each operation is measured.", absent="20"),
    split_backward: bool = option(
        "--split-backward/--no-split-backward",
        "Give the halves I and W of the backward beside the whole, which takes less; or they are a comment.",
        absent=True,
    ),
    traceback: bool = TRACEBACK,
    target: Target,
    screen: Screen,
) -> None:
    """Measure F, B, I, W, recomputation, transfers, messages and bytes of a model's stages; print a config.

    It calls data(0, 1); beside --data --shape, --dtype and --vocab are refused, without it --shape is needed. What the
    model, the data or the loss raises is said in one line, exit code 1.

    On the GPU, if there is one; else on one core, as torchrun starts its ranks. Needs `pip install 'pipesched[torch]'`.
    """
    from pipesched.file_formats.files import refuse_existing
    from pipesched.runtime import require_torch

    require_torch()
    if target.path is not None:
        refuse_existing(Path(target.path), target.force)
    from pipesched.runtime.model_source import pieces_of
    from pipesched.runtime.profiling import config_text, profile, profile_document

    with warnings_on_stderr(), traced(traceback):
        measured = profile(
            pieces_of(model),
            **data_options(shape, dtype, vocab, data, loss),
            devices=None if devices is None else whole_number("--devices", devices, least=1),
            microbatches=None if microbatches is None else whole_number("--microbatches", microbatches, least=1),
            repeats=whole_number("--repeats", repeats, least=2),
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


def data_options(
    shape: str | None, dtype: str | None, vocab: str | None, data: str | None, loss: str | None
) -> dict[str, Any]:
    """Return what to train on, as `profile` and `train` of the library take it. Raises ConfigError."""
    return {
        "shape": None if shape is None else whole_numbers("--shape", shape, least=1),
        "vocab": None if vocab is None else whole_number("--vocab", vocab, least=1),
        "dtype": dtype,
        "data": data,
        "loss": loss,
    }


@contextmanager
def traced(wanted: bool) -> Iterator[None]:
    """Print the traceback of what a model or a rank raised, where it is wanted."""
    try:
        yield
    except RankFailed as error:
        if wanted:
            sys.stderr.write(error.trace)
        raise
