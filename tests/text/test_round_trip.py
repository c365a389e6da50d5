"""Every config that is written loads, and holds the same numbers, rounded half up to 9 digits, as a note says."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import MeasuredLatency, Problem, Quartiles, Timeline
from pipesched.analysis.measured.timeline import config_text as timeline_text
from pipesched.estimation.config_text import config_text as estimate_text
from pipesched.pipeline.layers.recut import fuse
from pipesched.pipeline.problem.costs import PER_STAGE, in_one
from pipesched.pipeline.problem.quantities import rounded, to_fraction
from pipesched.solver.advice import as_typed, changed_arguments
from pipesched.text.writer import ConfigText, dump
from tests.examples import examples
from tests.torch_ranks import needs_torch
from tests.tuning.spaces import SPACE

RUN = Path(__file__).parents[2] / "docs" / "how-to" / "run"
MEMORY = ("activation", "retain", "checkpoint", "static", "budget")
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]\d+)?(?![\w.])")

times = st.integers(1, 10**14).map(lambda number: Fraction(number, 10**7))
sizes = st.one_of(st.fractions(Fraction(1, 100), 60, max_denominator=10**6), times, st.just(Fraction(19, 15)))
shares = st.fractions(0, 1, max_denominator=10**5).filter(lambda share: not 0 < share < Fraction(1, 10**4))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """A problem of numbers of many digits and fractions, maybe with its stages fused, so that these are sums."""
    devices, each = draw(st.integers(2, 3)), draw(st.integers(1, 2))
    stages = devices * each

    def column(values: st.SearchStrategy[Fraction], count: int = stages) -> list[Fraction]:
        return draw(st.lists(values, min_size=count, max_size=count))

    split = draw(st.booleans())
    backward: Any = {key: column(times) for key in (("backward_input", "backward_weight") if split else ("backward",))}
    problem = pipesched.make_problem(
        devices=devices, stages=stages, microbatches=3, placement="loop" if each > 1 else "linear",
        forward=column(times), **backward, p2p=column(times, stages - 1),
        offload=column(times), overlap=column(times), activation=column(sizes), retain=column(sizes),
        checkpoint=column(shares), static=column(sizes), budget=column(sizes, devices), time_unit="ms", unit="GB",
        name=draw(st.sampled_from(["", 'a "run": 1'])),
    )  # fmt: skip
    if each > 1 and draw(st.booleans()):
        return replace(fuse(replace(problem, placement=None), devices), placement=problem_placement(devices))
    return problem


def problem_placement(devices: int) -> Any:
    """One stage a device."""
    return pipesched.make_problem(devices=devices, placement="linear").placement


@cache
def timeline() -> Timeline:
    """A run that was measured, with its plan."""
    plan = pipesched.read(RUN / "plan.json")
    assert isinstance(plan, pipesched.Outcome)
    return pipesched.read_traces([RUN / "trace0.json", RUN / "trace1.json"], plan=plan)


def columns(problem: Problem) -> dict[str, tuple[Fraction, ...] | None]:
    """The numbers of a problem by their keys."""
    found = {key: getattr(problem.costs, key) for key in (*PER_STAGE, "p2p")}
    found |= {key: getattr(problem.memory, key) for key in MEMORY}
    return {key: None if values is None else tuple(map(to_fraction, values)) for key, values in found.items()}


def same_but_for_rounding(text: ConfigText, problem: Problem) -> None:
    """Whether a config loads as a problem whose numbers are rounded, and says so if one of them was."""
    loaded, written = columns(pipesched.load(text)), columns(problem)
    if not problem.costs.split:  # each half is half of the whole, which is what is written
        whole = tuple(rounded(to_fraction(both)) / 2 for both in problem.costs.backward)
        assert loaded["backward_input"] == loaded["backward_weight"] == whole
        written = {key: values for key, values in written.items() if not key.startswith("backward")}
    for key, values in written.items():
        assert loaded[key] == (None if values is None else tuple(map(rounded, values))), key
    is_exact = all(rounded(value) == value for values in written.values() for value in values or ())
    assert is_exact or text.note
    assert text.startswith(f"# {text.note}\n") if text.note else not text.startswith("# rounded")
    of_few_digits(text)


def of_few_digits(text: str) -> None:
    """Whether all numbers outside comments have at most 9 significant digits."""
    for line in text.splitlines():
        for number in NUMBER.findall(re.sub(r"#.*|\"(\\.|[^\"])*\"", "", line)):
            digits = number.partition("e")[0].replace(".", "").strip("0")
            assert len(digits) <= 9, line


@examples(20)
@given(problems())
@pytest.mark.slow
def test_measured_configs(problem: Problem) -> None:
    """`explain --measured -o`: costs of many digits, memory in fractions, fused stages."""
    with patch.object(Timeline, "problem", problem):
        messages = [
            MeasuredLatency(boundary, 1, None, None, latency)
            for boundary, latency in enumerate(in_one(problem.costs.p2p))
        ]
        same_but_for_rounding(timeline_text(replace(timeline(), p2p=messages)), problem)


@examples(8)
@given(st.lists(times, min_size=4, max_size=4), st.sampled_from(["1f1b", "zb-h1"]), st.booleans())
def test_estimates(forward: list[Fraction], algorithm: str, given_forward: bool) -> None:
    """`estimate -o`: what was derived has as many digits as it likes, and so has what was given instead."""
    space = {"model": SPACE["model"], "hardware": SPACE["hardware"], "batch": {"sequence": 2048, "global": 16}}
    more: Any = {"forward": forward} if given_forward else {}
    found = pipesched.estimate(None, algorithm, **space, parallel={"gpus": 8, "pipeline": 4}, **more)
    same_but_for_rounding(estimate_text(found), found.problem)


@examples(20)
@given(problems(), problems())
def test_advice(before: Problem, after: Problem) -> None:
    """What advice says to type makes the problem that it was tried on."""
    if before.devices != after.devices or before.costs.split != after.costs.split or before.name != after.name:
        return
    typed = as_typed(before, after)
    given = changed_arguments(before, typed)
    same = columns(typed)
    for key, value in given.items():
        if key in same and key != "recompute":
            count = len(same[key] or ())
            made = [to_fraction(one) for one in (value if isinstance(value, list) else [value] * count)]
            assert made == [*(same[key] or ())], key
            assert all(rounded(one) == one for one in made)


@examples(30)
@given(st.dictionaries(st.sampled_from(["tflops", "memory", "bandwidth"]), times, min_size=1), shares)
def test_dumped_configs(hardware: dict[str, Fraction], share: Fraction) -> None:
    """`tune -o` writes sections as they were given; numbers of any type stay numbers."""
    text = dump({"hardware": hardware, "training": {"efficiency": {"gemm": {"forward": share}, "core": 0.1 + 0.2}}})
    import yaml

    content = yaml.safe_load(text)
    assert {key: to_fraction(value) for key, value in content["hardware"].items()} == {
        key: rounded(value) for key, value in hardware.items()
    }
    efficiency = content["training"]["efficiency"]
    assert (to_fraction(efficiency["gemm"]["forward"]), efficiency["core"]) == (rounded(share), 0.3)
    assert text.note.startswith("rounded to 9 digits: ")
    of_few_digits(text)


def test_the_winner_of_a_space() -> None:
    """The config of the best point has decimals of hardware and of shares as numbers, and its estimate is the same."""
    long = Fraction("84.91234567891")
    space = {**SPACE, "hardware": {"preset": "h100-sxm", "memory": float(long)}}
    space["training"] = {"efficiency": {"core": 0.31234567891, "gemm": {"forward": 0.5}}}
    found = pipesched.tune(None, ["1f1b"], **space)
    assert "memory: 84.9123457" in found.config
    assert "core: 0.312345679" in found.config
    again = pipesched.estimate(found.config)
    assert again.step.tokens_per_second_per_gpu == pytest.approx(found.rows[0].rate, rel=1e-9)


@needs_torch
@examples(20)
@given(st.floats(1e-6, 1e6), st.integers(1, 10**13), st.floats(0.001, 3), st.floats(0.001, 1))
def test_profiles(time: float, size: int, retain: float, checkpoint: float) -> None:
    """`profile -o`: times to a nanosecond, sizes and shares to 9 digits."""
    from pipesched.runtime.profiling import TIMES, Profile, StageProfile, config_text

    spread = Quartiles(time, time, time)
    stage = StageProfile(dict.fromkeys(TIMES, spread), size, retain, checkpoint, size)
    text = config_text(Profile("a test", 2, 4, 5, [stage, stage], [spread]))
    loaded = pipesched.load(text)
    assert to_fraction(loaded.costs.forward[0]) == rounded(to_fraction(round(time, 6)))
    assert to_fraction(loaded.memory.static[1]) == rounded(Fraction(size, 10**6))
    assert to_fraction(loaded.memory.retain[0]) == rounded(to_fraction(retain))
    of_few_digits(text)
