"""`pipesched train`: train a model by a schedule, or test that training is right on this machine."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from pipesched.cli.flags import spell
from pipesched.cli.interrupts import leave_at_signals
from pipesched.cli.option import number_of, option, whole_number
from pipesched.cli.options import Screen
from pipesched.cli.output import print_json, warnings_on_stderr
from pipesched.cli.profile import sizes
from pipesched.cli.progress import doing
from pipesched.errors import ConfigError, RankFailed
from pipesched.executors.spec import cores
from pipesched.runtime import require_torch

DEFAULTS = {"--shape": "8,64", "--dtype": "float32", "--steps": "5", "--rate": "0.001", "--seed": "0"}


def command(
    file: Annotated[str | None, typer.Argument(help="The document of a schedule.", metavar="FILE")] = None,
    *,
    model: Annotated[
        str | None,
        option("--model MODULE:FUNCTION", "Returns the model's pieces in forward order; default: a small perceptron."),
    ] = None,
    shape: Annotated[str, option("--shape N,N,..", "The sizes of a microbatch.")] = DEFAULTS["--shape"],
    dtype: Annotated[str, option("--dtype NAME", "The type of input, as in float32 or int64.")] = DEFAULTS["--dtype"],
    loss: Annotated[
        str | None,
        option("--loss MODULE:FUNCTION", "A function of the output and the target; default: the mean squared error."),
    ] = None,
    steps: Annotated[str, option("--steps N", "Training steps.")] = DEFAULTS["--steps"],
    rate: Annotated[str, option("--rate X", "The learning rate of Adam.")] = DEFAULTS["--rate"],
    seed: Annotated[str, option("--seed N", "Of the data and of dropout.")] = DEFAULTS["--seed"],
    trace: Annotated[str | None, option("--trace FOLDER", "For PyTorch's profiles of the steps, one a rank.")] = None,
    self_test: Annotated[
        bool,
        option("--self-test", "Without FILE: hold a dozen plans on a small model against PyTorch without a pipeline."),
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


def _train(file: str, model: Any, screen: Screen, **options: Any) -> None:
    """Train; print each loss when its step ends, and then what each rank reports."""
    require_torch()
    options |= {"shape": sizes(options["shape"]), "rate": number_of("--rate", options["rate"]) or 0.0}
    options |= {key: whole_number(f"--{key}", options[key], least) for key, least in (("steps", 1), ("seed", 0))}
    losses: list[float] = []

    def hear(step: int, loss: float) -> None:
        losses.append(loss)
        print(f"step {step}: loss {loss:.6f}", file=sys.stderr if screen.as_json else sys.stdout, flush=True)

    asked = leave_at_signals(losses)
    from pipesched.runtime.devices import CPU, kind_of_device
    from pipesched.runtime.source import checked_schedule
    from pipesched.runtime.training import ended, train

    ranks, few = checked_schedule(file, "schedule").problem.devices, cores()
    if ranks > few and kind_of_device() == CPU and "RANK" not in os.environ:
        shared = f"{ranks} ranks share {few} core{'s' * (few > 1)}"
        print(f"pipesched: note: {shared}: each operation takes longer than on a core of its own", file=sys.stderr)
    try:
        with warnings_on_stderr():
            result = train(file, **options, **({"model": model} if model else {}), listener=hear)
    except RankFailed as error:
        reason = f"interrupted after step {len(losses) - 1}" if asked else spell(str(error))
        result = ended(losses, [], "interrupt" if asked else "rank", reason)
    if result is None:
        return
    if screen.as_json:
        print_json(result)
    if result["stopped_by"] == "rank":
        print(f"pipesched: {result['reason']}", file=sys.stderr)
        raise typer.Exit(1)
    if result["stopped_by"] == "interrupt":
        print(result["reason"], file=sys.stderr if screen.as_json else sys.stdout)
    for report in [] if screen.as_json else result["ranks"]:
        lasted = max((one["end"] for one in report["operations"]), default=0.0)
        print(f"rank {report['rank']}: {lasted:.1f} ms, peak of activations {report['peak_bytes'] / 1e6:.6g} MB")


def _self_test(device: str | None, ranks: str | None, screen: Screen) -> None:
    """Print what a self-test finds; where a plan is wrong, say so with its text, and exit with 1."""
    require_torch()
    from pipesched.runtime.self_testing import self_test

    count = None if ranks is None else whole_number("--ranks", ranks, least=2)
    with doing("PyTorch starts") as say:
        try:
            result = self_test(device, count, listener=say)
        except ConfigError as error:
            raise (error.at(f"--{error.key}") if error.key else error) from None
    if screen.as_json:
        print_json(result.document())
    else:
        print(*result.lines(), sep="\n")
    if result.failure is not None:
        print(f"pipesched: {result.failure}\n{result.plan}", file=sys.stderr)
        raise typer.Exit(1)
