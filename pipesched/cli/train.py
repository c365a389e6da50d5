"""`pipesched train`: train a model by a schedule, or test that training is right on this machine."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from pipesched.checks import joined
from pipesched.cli.exits import leave_at_signals
from pipesched.cli.groups import ALGORITHM_FLAGS, PROBLEM_FLAGS, with_flags
from pipesched.cli.options import ProblemSource, Screen, argument, number_of, option, whole_number, whole_numbers
from pipesched.cli.output import print_json, warnings_on_stderr
from pipesched.cli.profile import DATA, DTYPE, LOSS, TRACEBACK, VOCAB, data_options, traced
from pipesched.cli.progress import doing
from pipesched.cli.reading import ALGO, asked_outcome, note_on_stderr
from pipesched.errors import ConfigError, RankFailed
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.problem import differs
from pipesched.runtime import require_torch

MOST_SHOWN = 12  # lines of --verify
DEFAULTS = {"--steps": "5", "--rate": "0.001", "--seed": "0"}


def command(
    words: list[str] | None = argument(
        "NAME|FILE",
        "A schedule's file (our JSON, or PyTorch's CSV), or an algorithm of `pipesched list`, and the YAML file of the"
        " problem.",
    ),
    *,
    algo: str | None = ALGO,
    model: str | None = option(
        "--model MODULE:FUNCTION", "Returns the model's pieces in forward order; default: a small perceptron."
    ),
    shape: str | None = option("--shape N,N,..", "The sizes of a microbatch of random inputs; default: 8,64."),
    rows: str | None = option(
        "--rows N,N,..",
        "The rows of each microbatch, in place of the first size of --shape: the loss is the mean over all rows. Beside"
        " --data they only weigh.",
    ),
    dtype: str | None = DTYPE,
    vocab: str | None = VOCAB,
    data: str | None = DATA,
    loss: str | None = LOSS,
    steps: str = option("--steps N", "Training steps.", absent=DEFAULTS["--steps"]),
    rate: str = option("--rate X", "The learning rate of Adam.", absent=DEFAULTS["--rate"]),
    seed: str = option("--seed N", "Of the data and of dropout.", absent=DEFAULTS["--seed"]),
    trace: str | None = option("--trace FOLDER", "For PyTorch's profiles of the steps, one a rank."),
    traceback: bool = TRACEBACK,
    verify: bool = option(
        "--verify",
        "Instead: one step by the plan and one without a pipeline; say how far losses and gradients are apart.",
    ),
    self_test: bool = option(
        "--self-test", "Instead: hold a dozen plans on a small model against PyTorch without a pipeline."
    ),
    device: str | None = option("--device NAME", "With --self-test: cpu or cuda; default: CUDA where it is."),
    ranks: str | None = option(
        "--ranks N", "With --self-test: an even number; default: 2, and 4 unless GPUs are too few."
    ),
    problem: ProblemSource,
    algorithm: dict[str, Any],
    screen: Screen,
) -> None:
    """Train a model by any schedule, recomputation, offload and two copies of the weights included.

    A document holds its problem; an algorithm and a CSV take the problem of a config (a word, or -c) with options on
    top. --model is the pieces to train, --seed that of the data: a model on GPUs stands in the config.

    --data is called for each step on the ranks of the first and of the last stage, which must get the same: seed it by
    the step. Beside it --shape, --dtype and --vocab are refused. What the model, the data or the loss raises is said in
    one line, exit code 1.

    Starts one process for each device, or is one of them under torchrun. It is meant to be read and copied: the loop
    stands in pipesched/runtime/training.py. Needs `pip install 'pipesched[torch]'`.

    --verify lists the parameters whose gradients differ most: the largest |a - b| / max(1, |b|) of their elements, b
    without a pipeline. Exit code 1 over 1e-4, of weights of 64 bits over 1e-9. Each rank holds the whole model too.

    --self-test trains a small model by a dozen plans, on GPUs where there are any, and compares with PyTorch without a
    pipeline. The first plan that is wrong ends the test with exit code 1, and is printed.
    """
    if self_test:
        given: dict[str, Any] = {"NAME|FILE": words, "--algo": algo, "--model": model, "--shape": shape}
        given |= {"--dtype": dtype, "--vocab": vocab, "--data": data, "--loss": loss, "--steps": steps, "--rate": rate}
        given |= {"--seed": seed, "--trace": trace, "--traceback": traceback or None}
        given |= {"--config": problem.config, "--rows": rows, "--verify": verify or None}
        given |= {PROBLEM_FLAGS.get(key, "options of the problem"): value for key, value in problem.overrides.items()}
        given |= {ALGORITHM_FLAGS.get(key, f"--option {key}"): value for key, value in algorithm.items()}
        for flag, text in given.items():
            if text not in (None, [], DEFAULTS.get(flag)):
                raise ConfigError(f"{flag}: has no effect with --self-test, which has a model and plans of its own")
        _self_test(device, ranks, screen)
        return
    alone, compared = "without --self-test", "with --verify, which compares one step and changes no weight"
    refused = [("--device", device, alone), ("--ranks", ranks, alone)]
    refused += [("--steps", steps, compared), ("--rate", rate, compared), ("--trace", trace, compared)] * verify
    for flag, text, why in refused:
        if text not in (None, DEFAULTS.get(flag)):
            raise ConfigError(f"{flag}: has no effect {why}")
    if not words and algo is None:
        raise ConfigError(
            "NAME|FILE: is missing: a schedule's file, an algorithm, or a config; only --self-test does without"
        )
    require_torch()
    options = data_options(shape, dtype, vocab, data, loss)
    options |= {"rate": number_of("--rate", rate) or 0.0, "trace": trace}
    options |= {"steps": whole_number("--steps", steps, least=1), "seed": whole_number("--seed", seed, least=0)}
    options |= {"model": model} if model else {}
    options |= {"rows": whole_numbers("--rows", rows, least=1)} if rows is not None else {}
    losses: list[float] = []
    asked = leave_at_signals(losses)
    schedule = asked_outcome(words or [], algo, problem, algorithm).schedule  # checked by what trains it
    if differs(schedule.problem) and rows is None and data is None:
        note_on_stderr(
            "the schedule is for microbatches that differ; all are trained alike, unless --rows gives theirs"
        )
    if verify:
        _verify(schedule, options, screen, traceback=traceback)
    else:
        _train(schedule, options, losses, asked, screen, traceback=traceback)


def _train(
    schedule: Schedule,
    options: dict[str, Any],
    losses: list[float],
    asked: list[int],
    screen: Screen,
    *,
    traceback: bool,
) -> None:
    """Train; print each loss when its step ends, and then what each rank reports."""
    from pipesched.runtime.devices import kind_of_device, sharing
    from pipesched.runtime.training import ended, train

    def hear(step: int, loss: float) -> None:
        say("")  # losses are progress
        losses.append(loss)
        print(f"step {step}: loss {loss:.6f}", file=sys.stderr if screen.as_json else sys.stdout, flush=True)

    shared = None if "RANK" in os.environ else sharing(kind_of_device(), schedule.problem.devices)
    if shared is not None:
        note_on_stderr(shared)
    try:
        with doing("the ranks start") as say, warnings_on_stderr(), traced(traceback and not asked):
            result = train(schedule, **options, listener=hear)
    except RankFailed as error:
        reason = f"interrupted after step {len(losses) - 1}" if asked else with_flags(error)
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


def _verify(schedule: Schedule, options: dict[str, Any], screen: Screen, *, traceback: bool) -> None:
    """Print how far losses and the gradients of parameters are from the right ones; exit with 1 where that is far."""
    from pipesched.runtime.training import train

    with doing("the ranks start"), warnings_on_stderr(), traced(traceback):
        result = train(schedule, **options, verify=True)
    if result is None:
        return
    named = {f"stage {one['stage']}  {one['parameter']}": one["apart"] for one in result["parameters"]}
    found, limit = {"losses": result["losses"], **named}, f"{result['limit']:g}"
    if screen.as_json:
        print_json(result)
    else:
        width = max(map(len, found))
        for name, apart in [*found.items()][:MOST_SHOWN]:
            print(f"{name:<{width}}  {'no number' if apart is None else format(apart, '.2g')}")
        print(f"{len(found)} compared" + "; the largest are shown, --json has all" * (len(found) > MOST_SHOWN))
    if not result["passed"]:
        wrong = [name for name, apart in found.items() if apart is None or apart > result["limit"]]
        print(f"pipesched: more than {limit} from a step without a pipeline: {joined(wrong)}", file=sys.stderr)
        raise typer.Exit(1)


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
