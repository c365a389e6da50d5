"""The published runs that estimates are held against, and what was learned from them, as the package has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import log
from typing import Any, NamedTuple

from pipesched.checks import require_name
from pipesched.estimation.trust.facts import SHARES, ComparedRun, RunFacts
from pipesched.estimation.trust.residuals import ResidualModel
from pipesched.estimation.trust.speed import Interval

FILE = "evidence.json"
YOURS = "yours"  # the source and the version of all setups that are asked about


class PublishedRun(NamedTuple):
    """A published run: the milliseconds of its step, and our estimate of them; `size` sequences are a step.

    `run` is the id of its record, `url` where it was published, `title` the name of its model.
    """

    run: str
    url: str
    title: str
    compared: ComparedRun
    published: float
    estimated: float
    size: int

    @property
    def residual(self) -> float:
        """The logarithm of the published time over ours."""
        return log(self.published / self.estimated)

    @property
    def rate(self) -> float:
        """The published tokens a second of a GPU."""
        return self._rate(self.published)

    @property
    def estimated_rate(self) -> float:
        """The estimated tokens a second of a GPU."""
        return self._rate(self.estimated)

    def _rate(self, time: float) -> float:
        facts = self.compared.facts
        return facts.sequence * self.size / facts.gpus / time * 1e3


class EvidenceBase(NamedTuple):
    """Published runs, the model of their residuals, and quantiles of published peaks of memory over estimated ones."""

    runs: tuple[PublishedRun, ...]
    model: ResidualModel
    memory: Interval

    @property
    def sources(self) -> tuple[str, ...]:
        """Who published, each once."""
        return tuple(dict.fromkeys(run.compared.source for run in self.runs))

    def require_source(self, name: str, key: str) -> str:
        """Return the name of a source. Raises ConfigError about `key` for an unknown one."""
        require_name(self.sources, name, "source of published runs", key)
        return name


@cache
def evidence_base() -> EvidenceBase:
    """Return what the package has."""
    return base_of(json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8")))


def base_of(content: Mapping[str, Any]) -> EvidenceBase:
    """Return the base of a document that `scripts/fit_trust.py` wrote."""
    runs = tuple(map(_run, content["runs"]))
    half = content["inverse"]
    inverse = [[*row, *(half[j][i] for j in range(i + 1, len(half)))] for i, row in enumerate(half)]
    model = ResidualModel(
        content["spreads"],
        content["factors"],
        tuple(run.compared for run in runs),
        tuple(run.residual for run in runs),
        inverse,
    )
    return EvidenceBase(runs, model, Interval(**content["memory"]))


def _run(entry: Mapping[str, Any]) -> PublishedRun:
    facts = RunFacts(**entry["facts"])
    weights = tuple(entry["weights"].get(share, 0.0) for share in SHARES)
    return PublishedRun(
        entry["run"],
        entry["url"],
        entry["title"],
        ComparedRun(entry["source"], entry["version"], facts, weights),
        entry["published"],
        entry["estimated"],
        entry["global"],
    )
