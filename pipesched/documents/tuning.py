"""The JSON document of a tuning (version 1), and the config of its best point."""

from __future__ import annotations

from typing import Any

from pipesched.errors import ConfigError
from pipesched.tuning.result import Doubt, NearMiss, OverMemory, Tuning
from pipesched.tuning.space import Layout
from pipesched.tuning.trial import Trial


def tuning_document(tuning: Tuning) -> dict[str, Any]:
    """Return format "pipesched.tuning": points best first, rates a GPU, memory in GB of the fullest device.

    Nothing in it differs from run to run.
    """
    gpus = None if tuning.estimate is None else tuning.estimate.setup.parallel.gpus
    return {
        "format": "pipesched.tuning",
        "version": 1,
        "name": tuning.name,
        "space": tuning.space,
        "simulated": tuning.simulated,
        "pruned": dict(tuning.pruned),
        "left": tuning.left,
        "capacity": tuning.capacity,
        "rows": [_row(trial, gpus) for trial in tuning.rows],
        "pareto": [_row(trial, gpus) for trial in tuning.pareto],
        "parts": [share._asdict() for share in tuning.parts],
        "wishes": [_over_memory(point, gpus) for point in tuning.wishes],
        "doubts": [_doubt(doubt, gpus) for doubt in tuning.doubts],
        "nearest": [_miss(miss, gpus) for miss in tuning.nearest],
    }


def config_of(tuning: Tuning) -> str:
    """Return the config of the best point. Raises ConfigError where nothing fits."""
    if tuning.best is None:
        raise ConfigError("none of its points fits, so there is no config", "result")
    return tuning.config


def _row(trial: Trial, gpus: int | None) -> dict[str, Any]:
    return {
        **_point(trial.point.layout, trial.point.algorithm, gpus),
        "layout": trial.layout,
        "bubble": trial.bubble,
        "step": None if trial.step is None else trial.step._asdict(),
        "memory": trial.memory,
        "spare": trial.spare,
        "fits": trial.fits,
        "runs_in": trial.runs_in,
    }


def _point(layout: Layout, algorithm: str, gpus: int | None) -> dict[str, Any]:
    """Return what a point is, as a config spells it; where the GPUs are known, also them and the ranks of data."""
    parallel = layout.parallel
    if gpus is not None:
        ways = layout.tensor * layout.pipeline * layout.context
        parallel = {"gpus": gpus, **parallel, "data": gpus // ways}
    return {"parallel": parallel, "micro": layout.micro, "recompute": layout.recompute_value, "algorithm": algorithm}


def _over_memory(point: OverMemory, gpus: int | None) -> dict[str, Any]:
    return {**_point(point.layout, point.algorithm, gpus), "over": point.over, "most": point.most}


def _doubt(doubt: Doubt, gpus: int | None) -> dict[str, Any]:
    winner = doubt.winner.point
    return {
        "share": doubt.share,
        "factor": doubt.factor,
        "winner": _point(winner.layout, winner.algorithm, gpus),
        "gain": doubt.gain,
    }


def _miss(miss: NearMiss, gpus: int | None) -> dict[str, Any]:
    return {**_point(miss.layout, miss.algorithm, gpus), "over": miss.over, "help": list(miss.help)}
