"""The best layouts once more: schedules that `solve` finds for them, and their speed on slightly other GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import pipesched
from pipesched.estimation.derived import outline
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import Setup
from pipesched.results.outcome import run
from pipesched.solver.request import SolveRequest
from pipesched.tuning import tune as tuning_module
from pipesched.tuning.judged import FACTORS, SHARES, Finalist, Finished, finish, gpu_time, others
from pipesched.tuning.space import Layout, SpacePoint
from pipesched.tuning.trial import TrialTask
from tests.estimation.setups import setup
from tests.tuning.spaces import GPU, LLAMA, SPACE, Config

SMALL: Config = {"num_hidden_layers": 4, "hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 5632}


def finished(made: Setup, algorithm: str, seconds: float) -> Finished:
    """What becomes of a setup under an algorithm as a finalist."""
    parallel = made.parallel
    layout = Layout(parallel.tensor, parallel.pipeline, parallel.chunks, 1, 1, 1, made.batch.micro, "none")
    done = finish(Finalist(TrialTask(SpacePoint(layout, algorithm), made, {}), seconds))
    assert done is not None
    return done


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["1f1b", "naive", "zb-h1"])
@pytest.mark.parametrize("memory", [80, 5.5, 4])
def test_a_solved_schedule_is_faster_than_its_start_and_fits(algorithm: str, memory: float) -> None:
    """For the same stages; there is none where nothing better is found."""
    made = setup(SMALL, parallel={"pipeline": 4, "tensor": 1, "gpus": 4}, batch={"size": 6}, memory=memory)
    done = finished(made, algorithm, 1.0)
    start = done.estimate
    assert start.outcome.algorithm == algorithm
    if done.solved is None:
        assert algorithm != "naive" or not start.fits
        return
    assert done.solved.fits
    assert done.solved.step is not None
    assert done.solved.step.pipeline < start.step.pipeline
    assert done.solved.step.algorithm == "solve"
    assert done.solved.layout == start.layout
    assert done.solved.point == SpacePoint(done.solved.point.layout, "solve")
    before, after = ({part.name: part.share for part in parts} for parts in (gpu_time(start), done.parts))
    assert after.get("idle", 0.0) < before["idle"]


def test_solve_improves_gpipe() -> None:
    """All forwards before all backwards is never the best order; without seconds nothing is solved."""
    made = setup(SMALL, parallel={"pipeline": 4, "tensor": 1, "gpus": 4}, batch={"size": 6})
    assert finished(made, "naive", 1.0).solved is not None
    assert finished(made, "naive", 0.0).solved is None


def test_solve_offloads_where_there_is_a_link_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked without and with offload for a GPU with a link, each for half of the time."""
    from pipesched.solver import solve as module

    asked: list[tuple[bool, float]] = []

    def noted(request: SolveRequest) -> Any:
        asked.append((request.offload, request.time_limit))
        raise pipesched.NoSchedule("nothing")

    monkeypatch.setattr(module, "solve_request", noted)
    made = setup(SMALL, parallel={"pipeline": 4, "tensor": 1, "gpus": 4}, batch={"size": 6})
    assert finished(made, "1f1b", 4.0).solved is None
    assert [offload for offload, _ in asked] == [False, True]
    assert [seconds for _, seconds in asked] == [2, 2]


def test_rates_on_other_hardware_are_those_of_estimates_with_the_same_stages() -> None:
    """Each share of the hardware 10 % lower and higher, to the last bit; none above 1."""
    made = setup(parallel={"pipeline": 4, "tensor": 2, "chunks": 2}, batch={"size": 12})
    for algorithm in ("interleaved", "zb-v", "1f1b"):
        done = finished(made, algorithm, 0.0)
        chunks = done.estimate.problem.stages // 4
        pinned = replace(
            made,
            parallel=replace(made.parallel, chunks=chunks),
            training=replace(made.training, layout=done.estimate.layout),
        )
        hardware = others(made.hardware)
        assert len(done.rates) == len(hardware) == len(SHARES) * len(FACTORS)
        for rate, other in zip(done.rates, hardware, strict=True):
            problem = outline(replace(pinned, hardware=other), {})
            again = Estimate(run(problem, algorithm))
            if algorithm != "zb-v":  # its order follows from the times
                assert rate == again.step.tokens_per_second_per_gpu
            assert rate == pytest.approx(again.step.tokens_per_second_per_gpu, rel=0.02)
        own = done.estimate.step.tokens_per_second_per_gpu
        for slower, faster in zip(done.rates[::2], done.rates[1::2], strict=True):
            assert slower <= own <= faster
        assert done.rates[0] < own < done.rates[1]


def test_no_share_is_above_one() -> None:
    """What is near 1 cannot be 10 % higher."""
    made = setup()
    high = replace(made.hardware, efficiency=replace(made.hardware.efficiency, memory=0.95, network=1.0))
    found = others(high)
    assert max(one.efficiency.memory for one in found) == 1
    assert {one.efficiency.network for one in found} == {0.9, 1.0}
    changed = [one for one in found if one.efficiency.gemm_forward != high.efficiency.gemm_forward]
    assert [one.efficiency.gemm_weight for one in changed] == [
        pytest.approx(high.efficiency.gemm_weight * factor) for factor in FACTORS
    ]


def test_the_rows_of_a_search_with_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solved rows stand among the others, faster than the best row of their layout; all rows fit, best first."""
    monkeypatch.setattr(tuning_module, "SOLVE_SECONDS", 0.5)
    config: Config = {**SPACE, "model": {**LLAMA, "num_hidden_layers": 4}, "batch": {"sequence": 1024, "global": 8},
                      "parallel": {"gpus": 8, "tensor": 2, "pipeline": 4, "chunks": 1, "context": 1, "expert": 1},
                      "hardware": {**GPU, "memory": 80}}  # fmt: skip
    tuning = pipesched.tune(None, ["naive", "1f1b", "solve"], **config)
    ranks = [row.rank for row in tuning]
    assert ranks == sorted(ranks)
    assert all(row.fits for row in tuning)
    solved = [row for row in tuning if row.point.algorithm == "solve"]
    assert solved
    for row in solved:
        rates = [one.rate for one in tuning if one.point.layout == row.point.layout and one is not row]
        assert row.rate > max(rates)
    plain = pipesched.tune(None, ["naive", "1f1b"], **config)
    alone = [replace(row, behind=None) for row in plain]
    assert [replace(row, behind=None) for row in tuning if row not in solved] == alone
    assert all(row.trust is not None and row.trust.evidence.outside == plain[0].trust.evidence.outside
               for row in solved if plain[0].trust)  # fmt: skip
    assert tuning.simulated == plain.simulated
    assert tuning.space == plain.space
    found = pipesched.estimate(tuning.config)
    assert found.layout == tuning.rows[0].layout
    assert found.step == next(row.step for row in plain if row.point.layout == tuning.rows[0].point.layout)
