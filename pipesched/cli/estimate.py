"""`pipesched estimate`: from a model and GPUs to stages, memory and the time of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipesched.checks import require_name
from pipesched.cli.options import ProblemSource, Screen, Target, TrustOptions, argument, option
from pipesched.cli.output import console_for, print_json, saving, target_format, working
from pipesched.cli.progress import doing
from pipesched.cli.reading import ALGO, given_config, only_name, split_positionals
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipesched.estimation.result import Estimate
    from pipesched.estimation.trust.evidence import SpeedRatio


def command(
    words: list[str] | None = argument(
        "FILE|NAME", "The YAML file of the setup, and an algorithm of `pipesched list`."
    ),
    *,
    algo: str | None = ALGO,
    layout: bool = option("--layout", "Print the stages as Megatron-LM and torchtitan take them."),
    trace: str | None = option(
        "--trace ADDRESS",
        "Print where a number comes from: stage.3.forward, layer.0.activation, device.0.fixed, step.mfu.",
    ),
    count: str = option(
        "--count NAME",
        "Operations of attention: causal (half of the scores), or full, as in older papers.",
        absent="causal",
    ),
    with_chart: bool = option("--chart", "Draw the schedule of the step too."),
    against: list[str] | None = option(
        "--against FILE", "Say how its step compares with that of another config, of the same model and GPUs."
    ),
    no_trust: bool = option("--no-trust", "Leave out how sure the estimate is."),
    estimation: ProblemSource,
    trust: TrustOptions,
    family_options: dict[str, Any],
    target: Target,
    screen: Screen,
) -> None:
    """Estimate times, memory and speed of a model on GPUs: for each stage, each device, and the step.

    The YAML file says model, hardware, parallel, batch and training; options replace its values.
    """
    from pipesched.config.estimate import estimate_of, judged
    from pipesched.documents.tuning import estimate_document

    require_name(("causal", "full"), count, "way to count", "count")
    target_format(target, "estimate")
    names, source = split_positionals(words, estimation)
    name = only_name(names, algo)
    config = given_config(source, notes=False)
    with working(config.problem):
        found = estimate_of(config, name, whole=count == "full", **family_options)
    shown = trace is None and not layout
    ratios: list[tuple[str, SpeedRatio]] = []
    if no_trust:
        for flag, value in (("--like", trust.like), ("--measured", trust.measured), ("--against", against)):
            if value:
                raise ConfigError(f"{flag}: has no effect with --no-trust, which leaves out how sure the estimate is")
    elif shown:
        others = [given_config(ProblemSource(file, {}), notes=False) for file in against or ()]
        compared = [*map(estimate_of, others)]
        found = judged(found, config.trust, *trust, compared)
        for file, other, one in zip(against or (), others, compared, strict=True):
            ratios.append((file, found.against(judged(one, other.trust, others=[found]))))
    with saving(found, "estimate", target):
        if trace is not None:
            _print_trace(found, trace, screen)
        elif layout:
            print_layout(found, screen)
        elif screen.as_json:
            print_json(estimate_document(found, ratios))
        else:
            _print_estimate(found, console_for(screen), screen, ratios, chart=with_chart)


def _print_estimate(
    found: Estimate, console: Any, screen: Screen, ratios: Sequence[tuple[str, SpeedRatio]], *, chart: bool
) -> None:
    from pipesched.render.estimate import against_lines, estimate_view, fit_lines
    from pipesched.render.gantt import Gantt

    console.print(estimate_view(found))
    for line in against_lines(ratios):
        console.print(line)
    if chart:
        console.print()
        console.print(Gantt(found.outcome, ascii_only=screen.ascii_only))
    if not found.fits:
        with doing("looking for changes with which it fits"):
            lines = [*fit_lines(found)]
        for line in lines:
            console.print(line)


def _print_trace(found: Estimate, address: str, screen: Screen) -> None:
    from pipesched.estimation.trace import trace, trace_document
    from pipesched.render.estimate import trace_table

    traced = trace(found, address)
    if screen.as_json:
        print_json(trace_document(traced))
        return
    for part in trace_table(traced):
        console_for(screen).print(part)


def print_layout(found: Estimate, screen: Screen) -> None:
    """Print the stages as other frameworks take them."""
    from pipesched.estimation.layout import layout_document, layout_lines

    if screen.as_json:
        print_json(layout_document(found.setup.model, found.stage_items))
        return
    console = console_for(screen)
    for line in layout_lines(found.setup.model, found.stage_items, found.setup.parallel.pipeline):
        console.print(line, soft_wrap=True)
