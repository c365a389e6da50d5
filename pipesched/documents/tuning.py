"""The JSON documents (version 1): `estimate_document`, `tuning_document`; and the config of a tuning's best point."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from pipesched.documents.json_text import head, picked
from pipesched.documents.problem import problem_document
from pipesched.errors import ConfigError
from pipesched.estimation.items import GB, LAYER, STATES
from pipesched.estimation.result import Estimate, sizes_beside
from pipesched.estimation.setup import SIZES
from pipesched.estimation.terms import PER_MS
from pipesched.estimation.times import OPERATIONS
from pipesched.estimation.trust.evidence import PublishedRun, SpeedRatio, Trust
from pipesched.pipeline.plan.step import NOTHING
from pipesched.tuning.result import Tuning
from pipesched.tuning.space import Parallelism
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
    """Return format "pipesched.tuning": points best first, rates a GPU, memory in GB of the fullest device."""
    gpus, measure = None if tuning.estimate is None else tuning.estimate.setup.parallel.gpus, tuning.measure

    def at(one: Any) -> dict[str, Any]:
        return _point(one.layout, one.algorithm, gpus)

    return {
        **head("tuning"),
        **picked(tuning, "name", "space", "simulated"),
        "pruned": dict(tuning.pruned),
        **picked(tuning, "left", "capacity"),
        "rows": [_row(trial, gpus) for trial in tuning.rows],
        "pareto": [_row(trial, gpus) for trial in tuning.pareto],
        "parts": [share._asdict() for share in tuning.parts],
        "wishes": [{**at(one), "over": one.over, "most": one.most} for one in tuning.near_misses],
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


def _point(layout: Parallelism, algorithm: str, gpus: int | None) -> dict[str, Any]:
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


def estimate_document(estimate: Estimate, against: Iterable[tuple[str, SpeedRatio]] = ()) -> dict[str, Any]:
    """Return format "pipesched.estimate": milliseconds, GB of a rank, and ratios of its step to those of others."""
    found, step, times = estimate.parameters, estimate.step._asdict(), estimate.outcome.schedule.step
    if times is not None and estimate.has_step:  # what the schedule does not hide
        step["exposed"] = times.document
    sizes = (*STATES, *sizes_beside(estimate), "logits", "fixed", "total", "budget")
    microbatches = estimate.cutter.items_of_microbatches or [estimate.items]
    return {
        **head("estimate"),
        "parameters": found.total,
        "active_parameters": found.active,
        "flops_per_iteration": estimate.flops,
        "problem": problem_document(estimate.problem),
        "stages": [
            {
                "layers": stage.count(LAYER),
                "parameters": _count(stage.size("parameters")),
                **{key: estimate.stage_time(number, key) for key in OPERATIONS},
                "activation": estimate.stage_activation(number),
            }
            for number, stage in enumerate(estimate.stages)
        ],
        "items": [
            {
                "kind": item.kind,
                **{key: sum(one.time(key) for one in alike) / len(alike) / PER_MS for key in OPERATIONS},
                "activation": float(sum((one.size("activation") for one in alike), Fraction(0)) / len(alike) / GB),
                "states": float(item.states / GB),
            }
            for item, alike in zip(
                estimate.items.each, zip(*(one.each for one in microbatches), strict=True), strict=True
            )
        ],
        "devices": [
            {
                "parameters": _count(device.parameters),
                **{key: float(getattr(device, key) / GB) for key in sizes},
                "fits": device.fits,
            }
            for device in estimate.devices
        ],
        "layout": estimate.layout,
        "proved": estimate.outcome.cut is None or estimate.outcome.cut.is_exact,
        "fits": estimate.fits,
        "step": step,
        **({} if estimate.trust is None else {"trust": trust_document(estimate.trust)}),
        **({} if estimate.expected is None else {"expected": estimate.expected._asdict()}),
        **({"against": [{"config": name, **_ratio(one)} for name, one in against]} if against else {}),
        "notes": list(estimate.notes),
    }


def _count(number: Fraction) -> int | float:
    return number.numerator if number.denominator == 1 else float(number)
