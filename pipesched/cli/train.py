"""`pipesched train`: train a model by a schedule."""

from __future__ import annotations

from typing import Annotated

import typer

from pipesched.cli.options import Screen


def command(
    file: Annotated[str, typer.Argument(help="The document of a schedule.", metavar="FILE")],
    *,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="A function that returns the pieces of the model in forward order; default: a small perceptron.",
            metavar="MODULE:FUNCTION",
            show_default=False,
        ),
    ] = None,
    shape: Annotated[str, typer.Option("--shape", help="The sizes of a microbatch.", metavar="N,N,..")] = "8,64",
    dtype: Annotated[
        str, typer.Option("--dtype", help="The type of the input, as in float32 or int64.", metavar="NAME")
    ] = "float32",
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss",
            help="A function of the output and the target; default: the mean squared error.",
            metavar="MODULE:FUNCTION",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[str, typer.Option("--steps", help="Training steps.", metavar="N")] = "5",
    rate: Annotated[str, typer.Option("--rate", help="The learning rate of Adam.", metavar="X")] = "0.001",
    seed: Annotated[str, typer.Option("--seed", help="Of the data and of dropout.", metavar="N")] = "0",
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            help="A folder for PyTorch's profiles of the steps, a file for each rank.",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = None,
    screen: Screen,
) -> None:
    """Train a model on random data by any schedule, recomputation, offload and two copies of the weights included.

    Starts one process for each device, or is one of them under torchrun. It is meant to be read and copied: the loop
    stands in pipesched/runtime/training.py. Needs `pip install 'pipesched[torch]'`.
    """
    from pipesched.cli.output import print_json
    from pipesched.cli.parse import number_of, whole_number
    from pipesched.cli.profile import sizes
    from pipesched.runtime import require_torch

    require_torch()
    from pipesched.runtime.model_source import SMALL
    from pipesched.runtime.training import train

    result = train(
        file,
        model or SMALL,
        sizes(shape),
        loss=loss,
        dtype=dtype,
        steps=whole_number("--steps", steps, least=1),
        rate=number_of("--rate", rate) or 0.0,
        seed=whole_number("--seed", seed, least=0),
        trace=trace,
    )
    if result is None:
        return
    if screen.as_json:
        print_json(result)
        return
    for step, mean in enumerate(result["losses"]):
        print(f"step {step}: loss {mean:.6f}")
    for report in result["ranks"]:
        lasted = max((one["end"] for one in report["operations"]), default=0.0)
        print(f"rank {report['rank']}: {lasted:.1f} ms, peak of activations {report['peak_bytes'] / 1e6:.6g} MB")
