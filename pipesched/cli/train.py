"""`pipesched train`: train a model by a schedule, or test that training is right on this machine."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from pipesched.cli.option import number_of, option, whole_number
from pipesched.cli.options import Screen
from pipesched.errors import ConfigError

DEFAULTS = {"--shape": "8,64", "--dtype": "float32", "--steps": "5", "--rate": "0.001", "--seed": "0"}


def command(
    file: Annotated[str | None, typer.Argument(help="The document of a schedule.", metavar="FILE")] = None,
    *,
    model: Annotated[
        str | None,
        option(
            "--model MODULE:FUNCTION",
            "A function that returns the pieces of the model in forward order; default: a small perceptron.",
        ),
    ] = None,
    shape: Annotated[str, option("--shape N,N,..", "The sizes of a microbatch.")] = DEFAULTS["--shape"],
    dtype: Annotated[str, option("--dtype NAME", "The type of the input, as in float32 or int64.")] = DEFAULTS[
        "--dtype"
    ],
    loss: Annotated[
        str | None,
        option("--loss MODULE:FUNCTION", "A function of the output and the target; default: the mean squared error."),
    ] = None,
    steps: Annotated[str, option("--steps N", "Training steps.")] = DEFAULTS["--steps"],
    rate: Annotated[str, option("--rate X", "The learning rate of Adam.")] = DEFAULTS["--rate"],
    seed: Annotated[str, option("--seed N", "Of the data and of dropout.")] = DEFAULTS["--seed"],
    trace: Annotated[
        str | None, option("--trace FOLDER", "A folder for PyTorch's profiles of the steps, a file for each rank.")
    ] = None,
    self_test: Annotated[
        bool,
        option(
            "--self-test",
            "Without FILE: train a small model by a dozen plans, and compare it with PyTorch without a pipeline.",
        ),
    ] = False,
    device: Annotated[
        str | None, option("--device NAME", "With --self-test: cpu or cuda; default: CUDA where it is.")
    ] = None,
    ranks: Annotated[
        str | None, option("--ranks N", "With --self-test: an even number; default: 2, and 4 unless GPUs are too few.")
    ] = None,
    screen: Screen,
) -> None:
    """Train a model on random data by any schedule, recomputation, offload and two copies of the weights included.

    Starts one process for each device, or is one of them under torchrun. It is meant to be read and copied: the loop
    stands in pipesched/runtime/training.py. Needs `pip install 'pipesched[torch]'`.

    The path for GPUs is untried: `pipesched train --self-test` checks it on yours. The first plan that is wrong ends
    the test with exit code 1, and is printed.
    """
    if self_test:
        given = {"FILE": file, "--model": model, "--shape": shape, "--dtype": dtype, "--loss": loss, "--steps": steps}
        given |= {"--rate": rate, "--seed": seed, "--trace": trace}
        for flag, text in given.items():
            if text not in (None, DEFAULTS.get(flag)):
                raise ConfigError(f"{flag}: has no effect with --self-test, which has a model and plans of its own")
        _self_test(device, ranks, screen)
        return
    for flag, text in (("--device", device), ("--ranks", ranks)):
        if text is not None:
            raise ConfigError(f"{flag}: has no effect without --self-test")
    if file is None:
        raise ConfigError("FILE: is missing: the document of a schedule, which only --self-test does without")
    _train(file, model, screen, shape=shape, dtype=dtype, loss=loss, steps=steps, rate=rate, seed=seed, trace=trace)


def _train(file: str, model: str | None, screen: Screen, **options: Any) -> None:
    """Train, and print the losses and what each rank reports."""
    from pipesched.cli.output import print_json, warnings_on_stderr
    from pipesched.cli.profile import sizes
    from pipesched.runtime import require_torch

    require_torch()
    from pipesched.runtime.model_source import SMALL
    from pipesched.runtime.training import train

    read = {
        "shape": sizes(options["shape"]),
        "steps": whole_number("--steps", options["steps"], least=1),
        "rate": number_of("--rate", options["rate"]) or 0.0,
        "seed": whole_number("--seed", options["seed"], least=0),
    }
    with warnings_on_stderr():
        result = train(file, model or SMALL, **{**options, **read})
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


def _self_test(device: str | None, ranks: str | None, screen: Screen) -> None:
    """Print what a self-test finds; where a plan is wrong, say so with its text, and exit with 1."""
    from pipesched.cli.output import print_json, waiting
    from pipesched.runtime import require_torch

    require_torch()
    from pipesched.runtime.self_testing import self_test

    count = None if ranks is None else whole_number("--ranks", ranks, least=2)
    with waiting("PyTorch starts") as status:
        try:
            result = self_test(device, count, listener=getattr(status, "update", None))
        except ConfigError as error:
            raise (error.at(f"--{error.key}") if error.key else error) from None
    if screen.as_json:
        print_json(result.document())
    else:
        print(*result.lines(), sep="\n")
    if result.failure is not None:
        print(f"pipesched: {result.failure}\n{result.plan}", file=sys.stderr)
        raise typer.Exit(1)
