"""`pipesched hls`: expressions, programs and dataflow graphs on functional units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipesched.cli.options import Rules, Screen, Target

if TYPE_CHECKING:
    from pipesched.hls.compare import RuleTable
    from pipesched.hls.graph import DataflowGraph
    from pipesched.hls.modulo import Intervals
    from pipesched.hls.outcome import HardwareOutcome
    from pipesched.hls.units import Units

Texts = list[str] | None


def command(
    source: Annotated[
        str,
        typer.Argument(
            help="An expression, or a file: a program (assignments; - reads it from standard input), a graph (.json)"
            " or .yaml.",
            metavar="EXPRESSION",
        ),
    ],
    *,
    unit: Annotated[
        Texts, typer.Option("--unit", help="Units of a class; default: mul=1 and add=2.", metavar="CLASS=N")
    ] = None,
    latency: Annotated[
        Texts, typer.Option("--latency", help="Cycles until its results are usable; default 1.", metavar="CLASS=N")
    ] = None,
    pipelined: Annotated[
        Texts, typer.Option("--pipelined", help="A class that starts an operation every cycle.", metavar="CLASS")
    ] = None,
    solve: Annotated[bool, typer.Option("--solve", help="The shortest schedule, with a proof.")] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Every priority with every tie, beside the optimum.")
    ] = False,
    pipeline: Annotated[
        bool, typer.Option("--pipeline", help="As the body of a loop: the smallest initiation interval.")
    ] = False,
    rules: Rules,
    target: Target,
    screen: Screen,
) -> None:
    """High-level synthesis: schedule operations on adders and multipliers in the fewest cycles.

    The list scheduler, its priorities and ties, the bounds and CP-SAT are those of pipeline schedules.
    """
    from pipesched.cli.output import target_format
    from pipesched.config.hardware import UnitOptions, load_hardware
    from pipesched.errors import ConfigError

    if solve + compare + pipeline > 1:
        raise ConfigError("--solve, --compare and --pipeline: give one of them")
    if (solve or compare or pipeline) and (rules.priority or rules.tie):
        raise ConfigError("--priority, --tie: for the list scheduler, without --solve, --compare or --pipeline")
    target_format(target, ["json"])  # what is wrong with it is said before anything takes long
    graph, units = load_hardware(source, UnitOptions(unit or (), latency or (), pipelined or ()), loop=pipeline)
    if compare:
        _answer_rules(graph, units, rules, target, screen)
    elif pipeline:
        from pipesched.hls.modulo import interval_bounds
        from pipesched.hls.modulo import pipeline as schedule_loop

        bounds = interval_bounds(graph, units)
        _answer_outcome(schedule_loop(graph, units, rules.limits()), bounds, target, screen)
    else:
        _answer_outcome(_body(graph, units, rules, solve=solve), None, target, screen)


def _body(graph: DataflowGraph, units: Units, rules: Rules, *, solve: bool) -> HardwareOutcome:
    """The operations once, not as a loop: the shortest schedule, or what the rule gives."""
    from pipesched.hls.outcome import PRIORITY, TIE, list_outcome
    from pipesched.hls.outcome import solve as solve_hardware

    if solve:
        return solve_hardware(graph, units, rules.limits())
    return list_outcome(graph, units, priority=rules.priority or PRIORITY, tie=rules.tie or TIE, seed=rules.seed)


def _answer_rules(graph: DataflowGraph, units: Units, rules: Rules, target: Target, screen: Screen) -> None:
    """Every rule beside the optimum: one document, or a chart and a table."""
    from pipesched.cli.output import print_json, save_json
    from pipesched.formats.hardware_json import rules_document
    from pipesched.hls.compare import compare_rules

    table = compare_rules(graph, units, rules.limits())
    content = rules_document(table)
    save_json(content, target)
    print_json(content) if screen.as_json else _print_rules(table, screen)


def _answer_outcome(outcome: HardwareOutcome, bounds: Intervals | None, target: Target, screen: Screen) -> None:
    """One schedule: a document, or a chart and a summary."""
    from pipesched.cli.output import print_json, save_json
    from pipesched.formats.hardware_json import hardware_document

    content = hardware_document(outcome, bounds)
    save_json(content, target)
    print_json(content) if screen.as_json else _print_outcome(outcome, bounds, screen)


def _print_outcome(outcome: HardwareOutcome, bounds: Intervals | None, screen: Screen) -> None:
    """Heading, chart and summary."""
    from pipesched.cli.output import console_for
    from pipesched.render.hardware import hardware_heading, hardware_summary
    from pipesched.render.units_chart import UnitChart

    console = console_for(screen)
    console.print(hardware_heading(outcome))
    console.print(UnitChart(outcome.schedule, ascii_only=screen.ascii_only))
    console.print()
    console.print(hardware_summary(outcome, bounds))


def _print_rules(table: RuleTable, screen: Screen) -> None:
    """Heading, the chart of the optimum, and the table."""
    from pipesched.cli.output import console_for
    from pipesched.render.hardware import hardware_heading, rule_table
    from pipesched.render.units_chart import UnitChart

    console = console_for(screen)
    console.print(hardware_heading(table.optimum))
    console.print(UnitChart(table.optimum.schedule, ascii_only=screen.ascii_only))
    console.print()
    console.print(rule_table(table, console.width))
