"""Measured costs as a config: the problem that a next schedule is made for."""

from __future__ import annotations

from dataclasses import replace

from pipesched.analysis.measured.timeline import Timeline
from pipesched.pipeline.memory import Memory
from pipesched.pipeline.problem import Problem
from pipesched.text.writer import ConfigText, ConfigWriter, flow, quoted


def config_text(timeline: Timeline) -> ConfigText:
    """Return the config: medians as costs and latencies, and memory as the plan had it."""
    config, costs = ConfigWriter(), replace(timeline.problem.costs, p2p=tuple(one.p2p for one in timeline.p2p))
    problem = replace(timeline.problem, costs=costs)
    config.remark(f"Measured by {timeline.source}: medians of {timeline.steps} steps.")
    _write_pipeline(config, problem)
    with config.section("costs"):
        _write_costs(config, problem)
    if timeline.plan is None:
        config.remark("Traces say nothing of memory; `memory` is still to be given.")
    else:
        with config.section("memory"):
            _write_memory(config, problem.memory)
    return config.text


def _write_pipeline(config: ConfigWriter, problem: Problem) -> None:
    placement = problem.settled_placement
    if problem.name:
        config.put("name", quoted(problem.name))
    for key in ("devices", "stages", "microbatches"):
        config.put(key, getattr(problem, key))
    config.put("placement", "bidirectional" if placement.mirrored else flow(placement.devices))
    config.put("time_unit", problem.time_unit)
    if problem.lanes != "device":
        config.put("lanes", problem.lanes)


def _write_costs(config: ConfigWriter, problem: Problem) -> None:
    costs = problem.costs
    backward = ("backward_input", "backward_weight") if costs.split else ("backward",)
    for key in ("forward", *backward, "recompute", "overlap", "p2p", "offload", "reload"):
        values = getattr(costs, key)
        if values is not None:
            config.numbers(key, values or (0,))


def _write_memory(config: ConfigWriter, memory: Memory) -> None:
    config.put("unit", quoted(memory.unit))
    if memory.kv:
        config.numbers("kv", [memory.kv])
    for key in ("activation", "retain", "checkpoint", "static", "budget"):
        values = getattr(memory, key)
        if values is not None:
            config.numbers(key, values)
