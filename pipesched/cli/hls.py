"""`pipesched hls`: expressions, programs and dataflow graphs on functional units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipesched.cli.options import Rules, Screen, Target, argument, option, whole_number
from pipesched.cli.output import console_for, printed_before, show, target_format, write_target
from pipesched.cli.reading import config_source
from pipesched.documents.json_text import dump
from pipesched.errors import ConfigError, blame

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipesched.hls.graph import DataflowGraph
    from pipesched.hls.modulo import Intervals
    from pipesched.hls.outcome import HardwareOutcome
    from pipesched.hls.schedule import Units

    Answer = tuple[Mapping[str, Any], Iterable[RenderableType]]  # a document, and what it says

SHORT = {  # how many units of one class there are
    name: option(f"--{name} N", f"Short for --unit {name}=N.") for name in ("mul", "add", "sub", "div", "cmp")
}


def command(
    source: str = argument(
        "EXPRESSION",
        "An expression, or a file: a program (assignments; - reads it from standard input), a graph (.json) or .yaml.",
        ...,
    ),
    *,
    unit: list[str] | None = option("--unit CLASS=N", "Units of a class; default: mul=1 and add=2."),
    mul: str | None = SHORT["mul"],
    add: str | None = SHORT["add"],
    sub: str | None = SHORT["sub"],
    div: str | None = SHORT["div"],
    cmp: str | None = SHORT["cmp"],
    latency: list[str] | None = option("--latency CLASS=N", "Cycles until its results are usable; default 1."),
    pipelined: list[str] | None = option("--pipelined CLASS", "A class that starts an operation every cycle."),
    solve: bool = option("--solve", "The shortest schedule, with a proof."),
    compare: bool = option("--compare", "Every priority with every tie, beside the optimum."),
    pipeline: bool = option(
        "--pipeline", "As the body of a loop, where x@1 is x one iteration earlier: the smallest initiation interval."
    ),
    explain: bool = option("--explain", "Why it takes so long: idle time, critical path, what would help."),
    explore: bool = option("--explore", "Edit the schedule in the terminal; needs the extra explore."),
    empty: bool = option("--empty", "With --explore: begin with empty units, and place operation by operation."),
    why: str | None = option("--why OP", "With --explain: why one operation starts when it does."),
    rules: Rules,
    target: Target,
    screen: Screen,
) -> None:
    """High-level synthesis: schedule operations on adders and multipliers in the fewest cycles.

    The list scheduler, its priorities and ties, the bounds and CP-SAT are those of pipeline schedules.
    """
    from pipesched.config.hls import load_hls

    refusals = {
        "--solve, --compare and --pipeline: give one of them": solve + compare + pipeline > 1,
        "--priority, --tie: for the list scheduler, without --solve, --compare or --pipeline": (
            (solve or compare or pipeline) and (rules.priority or rules.tie)
        ),
        "--empty: begins with empty units; give --explore too": empty and not explore,
        "--empty: begins with empty units; leave out --solve (S searches)": empty and solve,
    }
    _refuse(refusals)
    if explore:
        from pipesched.cli.explore import require_terminal

        others = {"--compare": compare, "--pipeline": pipeline, "--explain": explain, "--json": screen.as_json}
        others["-o"] = target.path is not None
        alone = "--explore: edits one schedule that runs once; leave out"
        _refuse({f"{alone} {flag}": is_given for flag, is_given in others.items()})
        require_terminal()
    is_asked = why is not None
    refusals = {
        "--explain: explains a schedule that runs once, and iterations of --pipeline overlap": explain and pipeline,
        "--explain: explains one schedule; give either it or --compare": explain and compare,
        "--why: says why one operation waits; give --explain too": is_asked and not explain,
        "--why: has no effect with --json, whose document has every operation": is_asked and screen.as_json,
    }
    _refuse(refusals)
    target_format(target, "hls-explanation")  # that is JSON alone; before anything takes long
    counts = _counts({"mul": mul, "add": add, "sub": sub, "div": div, "cmp": cmp}, unit or ())
    latencies = _pairs("--latency", latency or ())
    given: dict[str, Any] = {"units": counts, "latency": latencies, "pipelined": pipelined or ()}
    text = (config_source("-") if source == "-" else None) or source
    graph, units = load_hls(text, **given, loop=pipeline)
    if explore:
        from pipesched.explore.unit_board import rule_name

        outcome = _body(graph, units, rules, solve=solve)
        name = outcome.method if solve else rule_name(rules.priority, rules.tie)
        _explore(source, units, outcome, name, given, screen, empty=empty)
        return
    answer: Answer
    if compare:
        from pipesched.documents.explanation import rules_document
        from pipesched.hls.outcome import compare_rules
        from pipesched.render.hardware import rule_table

        table = compare_rules(graph, units, **rules.limits)
        answer = rules_document(table), [*_chart(table.optimum, screen), rule_table(table, console_for(screen).width)]
    elif pipeline:
        from pipesched.hls.modulo import interval_bounds, pipeline as schedule_loop

        bounds = interval_bounds(graph, units)
        answer = _of_outcome(schedule_loop(graph, units, **rules.limits), bounds, screen)
    elif explain:
        answer = _of_explanation(_body(graph, units, rules, solve=solve), why, screen)
    else:
        answer = _of_outcome(_body(graph, units, rules, solve=solve), None, screen)
    content, parts = answer
    with printed_before(lambda: write_target(dump(content), target)):
        show(screen, lambda: content, parts)


def _refuse(messages: Mapping[str, object]) -> None:
    for message, is_given in messages.items():
        if is_given:
            raise ConfigError(message)


def _explore(
    source: str, units: Units, outcome: HardwareOutcome, name: str, own: dict[str, Any], screen: Screen, *, empty: bool
) -> None:
    """Edit a schedule in the terminal; `own` is what was given of the units, as `load_hls` takes it."""
    from pipesched.cli.explore import run
    from pipesched.config.hls import load_hls
    from pipesched.explore.sheet import loaded
    from pipesched.explore.state import State, Unplaced
    from pipesched.explore.unit_board import UnitPlanner, unit_board

    if source == "-":
        raise ConfigError("-: standard input is the keyboard here; give a file")

    def load(more: Mapping[str, int]) -> tuple[DataflowGraph, Units]:
        return load_hls(source, **{**own, "units": {**own["units"], **more}})

    board = unit_board(outcome)
    state = State(loaded(board.emptied() if empty else board, name), UnitPlanner(load, units))
    run(state, Unplaced(state) if empty else None, screen)


def _counts(short: Mapping[str, str | None], texts: Sequence[str]) -> dict[str, int]:
    """Read how many units each class has, in options of their own and in those of --unit. Raises ConfigError."""
    from pipesched.hls.schedule import MOST_UNITS

    counts, given = {}, _pairs("--unit", texts)
    for name, text in short.items():
        if text is not None and name in given:
            raise ConfigError(f"--{name} {text} is short for --unit {name}={text}; give it or --unit {name}, not both")
        if text is not None:
            counts[name] = whole_number(f"--{name}", text, 0, MOST_UNITS)
    return {**counts, **given}


def _pairs(option: str, texts: Sequence[str]) -> dict[str, int]:
    """Read texts such as `mul=2` or `mul=2,add=1` as numbers by unit class. Raises ConfigError."""
    numbers = {}
    for text in (part for whole in texts for part in whole.split(",")):
        class_name, _, number = (part.strip() for part in text.partition("="))
        if not class_name or not re.fullmatch(r"[0-9]{1,9}", number, re.ASCII):
            raise ConfigError(f"{option}: must be a unit class and a whole number, such as mul=2, not {text!r}")
        numbers[class_name.casefold()] = int(number)
    return numbers


def _body(graph: DataflowGraph, units: Units, rules: Rules, *, solve: bool) -> HardwareOutcome:
    """Schedule the operations once, not as a loop: in the fewest cycles, or by a rule of the list scheduler."""
    from pipesched.hls.outcome import PRIORITY, TIE, list_outcome, solve as solve_hardware

    if solve:
        return solve_hardware(graph, units, **rules.limits)
    return list_outcome(graph, units, priority=rules.priority or PRIORITY, tie=rules.tie or TIE, seed=rules.seed)


def _of_outcome(outcome: HardwareOutcome, bounds: Intervals | None, screen: Screen) -> Answer:
    from pipesched.documents.explanation import hardware_document
    from pipesched.render.hardware import hardware_summary

    return hardware_document(outcome, bounds), [*_chart(outcome, screen), hardware_summary(outcome, bounds)]


def _of_explanation(outcome: HardwareOutcome, why: str | None, screen: Screen) -> Answer:
    """Return an explanation, with all that it says, or with one operation's reasons."""
    from pipesched.documents.explanation import hardware_explanation_document
    from pipesched.hls.explanation import explain_hardware
    from pipesched.render.hardware import hardware_heading, hardware_view, why_parts

    explanation = explain_hardware(outcome)
    if why is None:
        parts: list[RenderableType] = [hardware_view(explanation, ascii_only=screen.ascii_only)]
    else:
        with blame(None, head="--why: "):
            parts = [*why_parts(explanation, why, ascii_only=screen.ascii_only)]
    return hardware_explanation_document(explanation), [hardware_heading(outcome), *parts]


def _chart(outcome: HardwareOutcome, screen: Screen) -> list[RenderableType]:
    from pipesched.render.hardware import UnitChart, hardware_heading

    return [hardware_heading(outcome), UnitChart(outcome.schedule, ascii_only=screen.ascii_only), ""]
