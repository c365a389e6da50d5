"""How sure an estimate is, as objects of its JSON document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipesched.estimation.trust.answers import Trust
from pipesched.estimation.trust.evidence import PublishedRun
from pipesched.estimation.trust.speed import SpeedRatio


def trust_document(trust: Trust) -> dict[str, Any]:
    """Return the object `trust`: times in ms, memory of the fullest device in GB."""
    evidence = trust.evidence
    return {
        "level": trust.level,
        "time": trust.time._asdict(),
        "tokens_per_second_per_gpu": trust.tokens_per_second_per_gpu._asdict(),
        "memory": trust.memory._asdict(),
        "sure": trust.sure,
        "spread": trust.spread,
        "own": trust.own,
        "like": trust.like,
        "evidence": {
            "inside": evidence.inside,
            "outside": [one._asdict() for one in evidence.outside],
            "nearest": [one._asdict() for one in evidence.nearest],
        },
    }


def against_document(ratios: Iterable[tuple[str, SpeedRatio]]) -> list[dict[str, Any]]:
    """Return the list `against`: the step over that of each other config, and how likely it is faster."""
    return [
        {"config": name, "ratio": {"low": one.low, "expected": one.expected, "high": one.high}, "faster": one.faster}
        for name, one in ratios
    ]


def evidence_rows(runs: Iterable[PublishedRun]) -> list[dict[str, Any]]:
    """Return an object for each published run: who, what, and its rate beside ours."""
    return [
        {
            "run": one.run,
            "source": one.compared.source,
            "version": one.compared.version,
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
