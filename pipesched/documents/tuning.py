"""The JSON document of a tuning (version 1), and the config of its best point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipesched.documents.json_text import picked
from pipesched.errors import ConfigError
from pipesched.estimation.setup import SIZES
from pipesched.estimation.trust.evidence import PublishedRun, SpeedRatio, Trust
from pipesched.pipeline.step import NOTHING
from pipesched.tuning.result import Tuning
from pipesched.tuning.space import Layout
from pipesched.tuning.trial import Trial


def trust_document(trust: Trust) -> dict[str, Any]:
    """Return the object `trust`: times in ms, memory of the fullest device in GB."""
    evidence = trust.evidence
    return {
        "level": trust.level,
        **{key: getattr(trust, key)._asdict() for key in ("time", "tokens_per_second_per_gpu", "memory")},
        **picked(trust, "sure", "spread", "own", "like"),
        "evidence": {
            "inside": evidence.inside,
            "outside": [one._asdict() for one in evidence.outside],
            "nearest": [one._asdict() for one in evidence.nearest],
        },
    }


def against_document(ratios: Iterable[tuple[str, SpeedRatio]]) -> list[dict[str, Any]]:
    """Return the list `against`: the step over that of each other config, and how likely it is faster."""
    return [{"config": name, **_ratio(one)} for name, one in ratios]


def _ratio(first_over_this: SpeedRatio) -> dict[str, Any]:
    return {"ratio": picked(first_over_this, "low", "expected", "high"), "faster": first_over_this.faster}


def evidence_rows(runs: Iterable[PublishedRun]) -> list[dict[str, Any]]:
    """Return an object for each published run: who, what, and its rate beside ours."""
    return [
        {
            "run": one.run,
            **picked(one.compared, "source", "version"),
            "url": one.url,
            **one.compared.facts._asdict(),
            "global": one.size,
            "step": one.published,
            "estimated_step": one.estimated,
            "tokens_per_second_per_gpu": one.rate,
            "estimated": one.estimated_rate,
            "error": one.estimated_rate / one.rate - 1,
        }
        for one in runs
    ]


def tuning_document(tuning: Tuning) -> dict[str, Any]:
    """Return format "pipesched.tuning": points best first, rates a GPU, memory in GB of the fullest device.

    Nothing in it differs from run to run.
    """
    gpus, measure = None if tuning.estimate is None else tuning.estimate.setup.parallel.gpus, tuning.measure

    def at(one: Any) -> dict[str, Any]:
        return _point(one.layout, one.algorithm, gpus)

    return {
        "format": "pipesched.tuning",
        "version": 1,
        **picked(tuning, "name", "space", "simulated"),
        "pruned": dict(tuning.pruned),
        **picked(tuning, "left", "capacity"),
        "rows": [_row(trial, gpus) for trial in tuning.rows],
        "pareto": [_row(trial, gpus) for trial in tuning.pareto],
        "parts": [share._asdict() for share in tuning.parts],
        "wishes": [{**at(one), "over": one.over, "most": one.most} for one in tuning.wishes],
        "doubts": [
            {**picked(one, "share", "factor"), "winner": at(one.winner.point), "gain": one.gain}
            for one in tuning.doubts
        ],
        "nearest": [{**at(one), "over": one.over, "help": list(one.help)} for one in tuning.nearest],
        **picked(tuning, "tied", "fits"),
        "beyond": [{**_row(one.trial, gpus), "measure": one.measure} for one in tuning.beyond],
        "published": [
            {
                "run": run.run,
                "source": run.compared.source,
                "parallel": picked(run.compared.facts, *SIZES),
                "gpus": run.compared.facts.gpus,
                "measured": run.rate,
                "estimated": run.estimated_rate,
            }
            for run in tuning.published
        ],
        "measure": None if measure is None else {"layouts": [*measure.layouts], "gain": measure.gain},
        "notes": [*tuning.notes],
    }


def config_of(tuning: Tuning) -> str:
    """Return the config of the best point. Raises ConfigError where nothing fits."""
    if tuning.best is None:
        raise ConfigError("none of its points fits, so there is no config", "result")
    return tuning.config


def _row(trial: Trial, gpus: int | None) -> dict[str, Any]:
    return {
        **_point(trial.point.layout, trial.point.algorithm, gpus),
        **picked(trial, "layout", "bubble"),
        "step": None if trial.step is None else trial.step._asdict(),
        **picked(trial, "memory", "spare", "fits", "runs_in"),
        "trust": None if trial.trust is None else trust_document(trial.trust),
        "behind": None if trial.behind is None else _ratio(trial.behind),
        "sure": trial.sure,
    }


def _point(layout: Layout, algorithm: str, gpus: int | None) -> dict[str, Any]:
    """Return what a point is, as a config spells it; where the GPUs are known, also them and the ranks of data."""
    parallel = layout.parallel
    if gpus is not None:
        ways = layout.tensor * layout.pipeline * layout.context
        parallel = {"gpus": gpus, **parallel, "data": gpus // ways}
    found = {"parallel": parallel, "micro": layout.micro, "recompute": layout.recompute_value, "algorithm": algorithm}
    found |= {} if layout.precision is None else {"precision": layout.precision}
    if layout.shard is not None:
        ranks = layout.shard_ranks
        if gpus is not None and (ranks is None or layout.shard == NOTHING):  # all with the same parameters
            ranks = gpus // (layout.tensor * layout.pipeline)
        found |= {"shard": layout.shard, "shard_ranks": ranks}
    return found
