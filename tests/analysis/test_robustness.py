"""How sure a schedule is: samples, ranges, and what is shown of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from rich.console import Console

import pipesched
from pipesched import ConfigError, NotApplicable, Problem, RobustnessRow, Schedule, make_problem, run, schedule_plan
from pipesched.analysis.robustness import BLOCK, Replay, Variation, _draw, _fastest, draw_factors
from pipesched.core import kernels
from pipesched.core.arrays import compiled_kernels
from pipesched.pipeline.plan.step import Shard, SideItem
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.render.scatter import Histograms
from pipesched.render.table import display_parts
from pipesched.schedulers.registry import FAMILIES
from tests.examples import at_night_but
from tests.oracle.reasons import PlainSchedule, retimed
from tests.strategies import SETTLED, plan_of, problems, random_plan, whole_steps

SPLIT: dict[str, Any] = {"devices": 4, "stages": 8, "microbatches": 8, "backward_input": 5, "backward_weight": 5}
PROBLEM = pipesched.make_problem(forward=5, p2p=0.5, offload=2, **SPLIT)
SAVED = pipesched.run(PROBLEM, "1f1b", recompute=1, offload=3)


Factor = Callable[[str, int | None], Any]  # of a slot by its text, on a device (None: on a lane)


def plain_makespan(found: PlainSchedule, factor: Factor) -> Any:
    """The makespan, in the user's unit, when each slot takes its cost times its factor: by the second replay's arcs."""
    lengths: dict[str, Any] = {
        slot: found.lengths[slot] * factor(slot, device if device < found.devices else None)
        for device, row in enumerate(found.rows)
        for slot in row
    }
    _, end = retimed(found.rows, found.arcs, lengths, {})
    return max(end[slot] for slot in found.on_device) / found.problem.ticks.per_unit


def factor_of(text: str, seed: int, samples: int, variation: float) -> np.ndarray[Any, Any]:
    """The factors of one text, block by block."""
    row = np.empty((1, samples))
    for block, first in enumerate(range(0, samples, BLOCK)):
        draw_factors(row[:, first : first + BLOCK], [text.encode()], variation, f"{seed} {block} ")
    return row.ravel()


def replayed(schedule: pipesched.Schedule, variation: Variation, sample: int) -> float:
    """The makespan of one sample, by the plain replay with the same factors."""
    settings = (variation.seed, variation.samples)

    def factor(slot: str, device: int | None) -> float:
        own = float(factor_of(slot, *settings, variation.noise)[sample])
        of_device = factor_of(f"device {device}", *settings, variation.device_noise)
        return own if device is None else own * float(of_device[sample])

    return float(plain_makespan(PlainSchedule(schedule), factor))


@given(problems(SETTLED, overlap=True, saving=True, most_microbatches=4), st.randoms(use_true_random=False))
def test_each_sample_is_a_replay(problem: pipesched.Problem, random: Any) -> None:
    """Whatever the problem and the plan: pairs, transfers, waits, latencies and operations of no length included."""
    plan = plan_of(problem, random_plan(problem, random, split=0.5, pair=0.5))
    schedule = pipesched.schedule_plan(problem, plan)
    variation = Variation(noise=0.3, device_noise=0.2, samples=3, seed=7)
    makespans = Replay(schedule).makespans(variation)
    assert makespans == pytest.approx([replayed(schedule, variation, sample) for sample in range(3)], rel=1e-12)
    still = Replay(schedule).makespans(Variation(noise=0, samples=2))
    assert still.tolist() == pytest.approx([schedule.makespan] * 2, rel=1e-15)


@pytest.mark.parametrize("name", at_night_but(("1f1b", "zb-v", "dualpipe", "saved"), (*FAMILIES, "saved")))
def test_each_family(name: str) -> None:
    """The samples and the slow devices of every family, and of a schedule that recomputes and offloads."""
    try:
        outcome = SAVED if name == "saved" else pipesched.run(PROBLEM, name)
    except NotApplicable:
        pytest.skip("needs options")
    variation = Variation(noise=0.1, device_noise=0.1, straggler=1.3, samples=2)
    made = pipesched.robustness(outcome, noise=0.1, device_noise=0.1, straggler=1.3, samples=2)[0]
    assert made.makespans == pytest.approx([replayed(outcome.schedule, variation, n) for n in (0, 1)], rel=1e-12)
    found = PlainSchedule(outcome.schedule)
    slow = [{device: Fraction(13, 10)} for device in range(4)]
    expected = [plain_makespan(found, lambda _, device, own=own: own.get(device, Fraction(1))) for own in slow]  # type: ignore[misc]
    assert [Fraction(str(makespan)) for makespan in made.stragglers] == expected
    assert made.makespan == outcome.schedule.makespan


def test_moments_of_the_factors() -> None:
    """Mean 1 and the standard deviation that was asked for, within four standard errors; without noise exactly 1."""
    for variation in (0.05, 0.5):
        factors = np.concatenate([factor_of(f"0F{number}", 1, 5000, variation) for number in range(20)])
        assert fmean(factors) == pytest.approx(1, abs=4 * variation / sqrt(len(factors)))
        assert stdev(factors) == pytest.approx(variation, rel=0.03)
    assert set(factor_of("0F0", 1, 5000, 0)) == {1.0}


@pytest.mark.skipif(compiled_kernels() is None, reason="no kernels are compiled here")
def test_normal_numbers_are_those_of_numpy() -> None:
    """The kernel draws the same digits from the same words, compiled or not: also at edges of layers, and beyond."""
    words = np.random.default_rng(1).integers(2**64, size=(9, 4), dtype=np.uint64)
    known, drawn, plain = np.empty((3, 9, 4000))
    _draw(words, known)
    draw: Any = _fastest()
    draw(words, drawn)
    kernels.draw(*draw.args, words.astype(object), plain)  # type: ignore[call-arg]
    assert (known == [drawn, plain]).all()


def test_factors_are_independent() -> None:
    """Of different operations, microbatches, seeds and blocks the factors are different ones, without correlation."""
    rows = [factor_of(text, seed, 2 * BLOCK, 0.1) for text, seed in (("0F0", 0), ("0F1", 0), ("0B0", 0), ("0F0", 1))]
    rows = [part for row in rows for part in np.split(row, 2)]
    assert len({row.tobytes() for row in rows}) == 8
    among = np.corrcoef(rows)[np.triu_indices(8, 1)]
    assert np.max(np.abs(among)) < 5 / sqrt(BLOCK)


def test_figures_are_those_of_the_samples() -> None:
    """Mean, standard deviation of n - 1 and percentiles by linear interpolation, from the samples that a row holds."""
    for row in pipesched.robustness([pipesched.run(PROBLEM, name) for name in ("1f1b", "zb-h1")], samples=17):
        assert len(row.makespans) == 17
        assert (row.mean, row.std) == pytest.approx((fmean(row.makespans), stdev(row.makespans)))
        ordered = sorted(row.makespans)
        assert row.p50 == pytest.approx(ordered[8])
        assert row.p95 == pytest.approx(ordered[15] + 0.2 * (ordered[16] - ordered[15]))


def test_the_same_seed_gives_the_same_figures() -> None:
    """Twice the same, in whatever types settings are given; another seed gives others."""
    outcome = pipesched.run(PROBLEM, "zb-h1")
    first = pipesched.robustness(outcome, seed=3, samples=50)
    assert first == pipesched.robustness(outcome, seed=np.int64(3), noise=np.float64(0.05), samples=50)
    assert first[0].makespans == pipesched.robustness(outcome, seed=3, noise=Decimal("0.05"), samples=50)[0].makespans  # type: ignore[arg-type]
    assert first[0].mean != pipesched.robustness(outcome, seed=4, samples=50)[0].mean


def test_a_schedule_does_not_depend_on_what_is_beside_it() -> None:
    """Alone, in a comparison, in another order: all figures but the share of being shortest are the same."""
    names = ["1f1b", "zb-h1", "interleaved", "hanayo"]
    together = pipesched.robustness(pipesched.compare(PROBLEM, names), samples=40)
    turned = pipesched.robustness(pipesched.compare(PROBLEM, names[::-1]), samples=40)
    for name in names:
        (alone,) = pipesched.robustness(pipesched.run(PROBLEM, name), samples=40)
        for other in (together[name], turned[name]):
            assert replace(other, best_share=1.0) == alone
            assert other.makespans == alone.makespans


def test_blocks_do_not_change_the_figures() -> None:
    """Samples of several blocks begin with those of fewer samples: no number depends on how many are drawn at once."""
    outcome = pipesched.run(PROBLEM, "interleaved")
    many = pipesched.robustness(outcome, samples=2 * BLOCK + 10)[0].makespans
    for samples in (2, BLOCK - 1, BLOCK, BLOCK + 1):
        assert pipesched.robustness(outcome, samples=samples)[0].makespans == many[:samples]


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_batches_of_operations_do_not_change_the_figures(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many operations are drawn together."""
    expected = pipesched.robustness(SAVED, samples=20, device_noise=0.1)
    monkeypatch.setattr("pipesched.analysis.robustness.CELLS", 20 * (rows - 1))
    again = pipesched.robustness(SAVED, samples=20, device_noise=0.1)
    assert again[0].makespans == expected[0].makespans


def test_shares_of_being_shortest() -> None:
    """They add up to 1; equal schedules share alike; without noise the shortest have all."""
    outcomes = [pipesched.run(PROBLEM, name) for name in ("zb-v", "v-half", "zb-v", "interleaved")]
    for noise in (0, 0.02, 0.4):
        shares = [row.best_share for row in pipesched.robustness(outcomes, noise=noise, samples=300)]
        assert sum(share or 0 for share in shares) == pytest.approx(1)
        assert shares[0] == shares[2]
    assert [row.best_share for row in pipesched.robustness(outcomes, noise=0)] == [0.5, 0, 0.5, 0]


def test_what_does_not_apply_has_its_reason() -> None:
    """A row in its place, without figures, and without part in the shares."""
    problem = pipesched.make_problem(devices=4, stages=4, microbatches=8)
    compared = pipesched.compare(problem, ["1f1b", "zb-v", "naive"])
    found = pipesched.robustness(compared, samples=20)
    assert [row.applicable for row in found] == [True, False, True]
    assert found["zb-v"].reason == compared["zb-v"].reason
    assert sum(found[name].best_share or 0 for name in ("1f1b", "naive")) == pytest.approx(1)


def test_what_exceeds_its_budget_takes_no_part_in_the_best_share() -> None:
    """It has no share, the others share 1 as if it were not there; where none fits, none has a share."""
    problem = pipesched.make_problem(devices=4, stages=4, microbatches=8, budget=[4, 4, 4, 4.5])
    found = pipesched.robustness(pipesched.compare(problem, ["naive", "1f1b", "sequential"]), samples=50)
    assert [(row.fits, row.best_share is None) for row in found] == [(False, True), (True, False), (True, False)]
    assert found["naive"].over[-1] == {"device": 3, "memory": 8, "budget": 4.5}
    alone = pipesched.robustness(pipesched.compare(problem, ["1f1b", "sequential"]), samples=50)
    assert [row.best_share for row in alone] == [found[name].best_share for name in ("1f1b", "sequential")]
    tight = replace(problem, memory=replace(problem.memory, budget=(1,) * 4))
    assert pipesched.robustness(pipesched.run(tight, "naive"))[0].best_share is None


def test_times_of_a_schedule_do_not_count() -> None:
    """A schedule with later times than its plan needs is timed anew by its plan, waits included."""
    schedule = SAVED.schedule
    later = replace(schedule, start_ticks=[time + 7 for time in schedule.start_ticks],
                    end_ticks=[time + 9 for time in schedule.end_ticks])  # fmt: skip
    assert schedule.plan.waits
    assert pipesched.robustness(later, samples=5)[0].makespans == pipesched.robustness(SAVED, samples=5)[0].makespans
    assert pipesched.robustness(later, samples=5)[0].makespan == schedule.makespan


FINE = 10**6  # parts of a tick
NOISE = Variation(noise=0.3, device_noise=0.2, samples=2, seed=5)


def sampled(schedule: Schedule, sample: int) -> float:
    """The makespan where each operation lasts what its texts say, its device too; no latencies."""
    index, plan = schedule.plan.index, schedule.plan
    home = {number: device for device, order in enumerate(plan.orders) for number in order}
    lengths = [0] * index.size
    for order in plan.machines:
        for number in order:
            text = "0REDUCE_TIED" if index.kind_of(number) == "REDUCE_TIED" else str(plan.slot(number))
            times = factor_of(text, NOISE.seed, NOISE.samples, NOISE.noise)[sample]
            if number in home:
                name = f"device {home[number]}"
                times *= factor_of(name, NOISE.seed, NOISE.samples, NOISE.device_noise)[sample]
            lengths[number] = round(schedule.graph.durations[number] * times * FINE)
    return schedule_plan(schedule.problem, plan, lengths).makespan_ticks / FINE / schedule.problem.ticks.per_unit


def small(shard: Shard) -> Schedule:
    """A schedule with every kind of operation, and no latencies."""
    item = SideItem(forward=(2,), backward=(4,), devices=(0, 1))
    costs: dict[str, Any] = {"gather": 4, "reduce": 9, "optimizer": 2, "tied": 3, "side": (item,)}
    shape: dict[str, Any] = {"devices": 2, "stages": 4, "microbatches": 2, "forward": 5, "backward": 10}
    return run(make_problem(shard=shard, **shape, **costs), "interleaved", side_rule="first").schedule


@pytest.mark.parametrize("shard", [Shard("optimizer"), Shard("gradients", reduce="each"), Shard("weights", ahead=1)])
def test_each_sample_of_a_step_is_a_replay(shard: Shard) -> None:
    """Operations of a step have the factors of their texts, both ends of tied gradients one, lanes none of devices."""
    schedule = small(shard)
    found = Replay(schedule).makespans(NOISE)
    assert found.tolist() == pytest.approx([sampled(schedule, sample) for sample in (0, 1)], rel=1e-5)
    assert Replay(schedule).makespans(Variation(noise=0, samples=2)).tolist() == [schedule.makespan] * 2


@given(problem=whole_steps(), random=st.randoms(use_true_random=False))
def test_stragglers_do_not_slow_lanes(problem: Problem, random: Random) -> None:
    """A device at half its speed is slow in its slots, optimizers and side work among them, and its lane is not."""
    problem = replace(problem, speed=(1,) * problem.devices)
    schedule = schedule_plan(problem, plan_of(problem, random_plan(problem, random)))
    slow = Replay(schedule).stragglers(to_fraction(2))
    for device, makespan in enumerate(slow):
        speed = tuple(Decimal("0.5") if one == device else 1 for one in range(problem.devices))
        other = replace(schedule.problem, speed=speed)  # type: ignore[arg-type]
        assert schedule_plan(other, schedule.plan).makespan == makespan


GOLDEN = Path(__file__).parents[1] / "golden"
SHOWN = pipesched.make_problem(
    devices=4, stages=8, microbatches=8, forward=5, backward_input=5, backward_weight=5, time_unit="ms"
)
MADE = pipesched.robustness(pipesched.compare(SHOWN, ["1f1b", "zb-h1", "interleaved", "dualpipe-v"]), samples=300)


def text(result: object, width: int, *, ascii_only: bool = False) -> str:
    """What a terminal without colour gets."""
    with (console := Console(width=width, color_system=None, highlight=False)).capture() as capture:
        for part in display_parts(result, ascii_only=ascii_only):
            console.print(part)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


@pytest.mark.parametrize(("form", "width"), [("plain", 80), ("ascii", 80), ("plain", 50)])
def test_text_is_that_of_the_golden_files(form: str, width: int) -> None:
    """Histograms over one axis and the table: with letters alone, and on narrow screens too."""
    shown = text(MADE, width, ascii_only=form == "ascii")
    assert shown == (GOLDEN / f"robust-{form}-{width}.txt").read_text("utf-8")
    assert form != "ascii" or shown.isascii()


@pytest.mark.parametrize("width", [20, 33, 80, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """Also of many schedules, of equal samples, and of a single one."""
    many = pipesched.robustness([pipesched.run(SHOWN, "zb-h1")] * 9, samples=5)
    still = pipesched.robustness(pipesched.run(SHOWN, "1f1b"), noise=0)
    for made in (MADE, many, still):
        assert max(map(len, text(made, width).splitlines())) <= width


def test_bars_count_samples() -> None:
    """Each sample stands in its column; the tallest column is full, and one sample is never nothing."""
    row = RobustnessRow("x", 0, makespans=(0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 10.0))
    with (console := Console(width=11, color_system=None)).capture() as capture:
        console.print(Histograms([row], "makespan", ascii_only=True))
    lines = capture.get().splitlines()
    assert [line.rstrip() for line in lines[:4]] == ["x", "#", "# :", "# #       #"]


def test_document_and_back(tmp_path: Path) -> None:
    """What is written is read back, without samples; it is the same document again, with just the keys of the page."""
    compared = pipesched.compare(pipesched.make_problem(devices=4, stages=4), ["1f1b", "zb-v"])
    found = pipesched.robustness(compared, samples=20)
    path = pipesched.write(found, tmp_path / "robust.json")
    content = json.loads(path.read_text("utf-8"))
    settings = {"noise": 0.05, "device_noise": 0, "straggler": 1.2, "samples": 20, "seed": 0}
    assert {key: value for key, value in content.items() if key != "rows"} == {
        "format": "pipesched.robustness", "version": 1, **settings}  # fmt: skip
    first, refused = content["rows"]
    figures = ["makespan", "mean", "std", "p50", "p95", "p99", "best_share"]
    assert list(first) == ["algorithm", *figures, "stragglers", "fits", "over"]
    assert (len(first["stragglers"]), first["fits"], first["over"]) == (4, True, [])
    assert refused == {"algorithm": "zb-v", "applicable": False, "reason": found["zb-v"].reason}
    again: Any = pipesched.read(path)
    assert again == found
    assert again[0].makespans == ()
    assert "without noise" not in text(again, 80)
    assert pipesched.write(again, tmp_path / "again.json").read_bytes() == path.read_bytes()
    with pytest.raises(ConfigError, match="nothing to draw: no samples"):
        pipesched.figure(again)


def test_rows_over_budget_and_rows_of_before(tmp_path: Path) -> None:
    """What exceeds its budget is written and read back; a document of before the key has rows that fit."""
    problem = pipesched.make_problem(devices=2, microbatches=4, budget=2)
    found = pipesched.robustness(pipesched.compare(problem, ["1f1b", "naive"]), samples=9)
    path = pipesched.write(found, tmp_path / "robust.json")
    again: Any = pipesched.read(path)
    assert again == found
    assert again["naive"].over[0] == {"device": 0, "memory": 4, "budget": 2}
    assert "naive is over budget: device 0 holds 4 of 2, device 1 holds 4 of 2" in text(again, 100)
    content = json.loads(path.read_text("utf-8"))
    del content["rows"][0]["over"]
    path.write_text(json.dumps(content), "utf-8")
    assert pipesched.read(path) == found


def test_the_figure(tmp_path: Path) -> None:
    """A distribution function for each schedule, from 0 to all samples, and a legend that names them."""
    figure = pipesched.figure(MADE, inches=5)
    (axes,) = figure.axes
    assert axes.get_xlabel() == "makespan (ms)"
    names = [row.algorithm for row in MADE if row.applicable]
    assert [one.get_text() for one in figure.legends[0].get_texts()] == [*names, "without noise"]
    for line, row in zip([line for line in axes.lines if np.size(line.get_xdata()) > 1], MADE, strict=True):
        across, up = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert across[1:].tolist() == sorted(row.makespans)
        assert (up[0], up[-1]) == (0, 100)
        assert (np.diff(up) >= 0).all()
    for suffix in ("svg", "png", "pdf"):
        assert pipesched.write(MADE, tmp_path / f"robust.{suffix}").stat().st_size > 1000
    with pytest.raises(ConfigError, match="no timeline"):
        pipesched.figure(MADE, zoom=2)
    refused = pipesched.robustness(pipesched.compare(pipesched.make_problem(devices=4, stages=4), ["zb-v"]))
    with pytest.raises(ConfigError, match="none of the schedules applies"):
        pipesched.figure(refused)
