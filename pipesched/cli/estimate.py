"""`pipesched estimate`: from a model and GPUs to stages, memory and the time of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipesched.checks import require_name
from pipesched.cli.options import ProblemSource, Screen, Target, TrustOptions, argument, option
from pipesched.cli.output import saving, show, target_format, working
from pipesched.cli.progress import doing
from pipesched.cli.reading import ALGO, given_config, only_name, split_positionals
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType

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
            from pipesched.estimation.trace import trace as trace_of, trace_document
            from pipesched.render.estimate import trace_table

            traced = trace_of(found, trace)
            show(screen, lambda: trace_document(traced), trace_table(traced))
        elif layout:
            print_layout(found, screen)
        else:
            show(screen, lambda: estimate_document(found, ratios), _parts(found, screen, ratios, chart=with_chart))


def _parts(
    found: Estimate, screen: Screen, ratios: Sequence[tuple[str, SpeedRatio]], *, chart: bool
) -> Iterator[RenderableType]:
    from pipesched.render.estimate import against_lines, estimate_view, fit_lines
    from pipesched.render.gantt import Gantt

    yield estimate_view(found)
    yield from against_lines(ratios)
    if chart:
        yield from ("", Gantt(found.outcome, ascii_only=screen.ascii_only))
    if not found.fits:
        with doing("looking for changes with which it fits"):
            lines = [*fit_lines(found)]
        yield from lines


def print_layout(found: Estimate, screen: Screen) -> None:
    """Print the stages as other frameworks take them."""
    from pipesched.results.handover.subject import layout_document, layout_lines

    model, stages = found.setup.model, found.stage_items
    lines = layout_lines(model.letters, stages, found.setup.parallel.pipeline)
    show(screen, lambda: layout_document(model.letters, stages), lines, soft_wrap=True)
