"""Runs by hand that tests of trust share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipesched import Interval
from pipesched.estimation.trust.evidence import EvidenceBase, PublishedRun
from pipesched.estimation.trust.facts import KINDS, SHARES, ComparedRun, RunFacts
from pipesched.estimation.trust.residuals import START, ResidualModel

FACTS = RunFacts(
    model="32x4096", hidden=4096, experts=0, latent=False, gpu="h100-sxm", gpus=64, tensor=2, pipeline=4, chunks=2,
    context=2, expert=1, expert_tensor=1, split=True, sequence=4096, micro=1, recompute="none", tensor_overlap=False,
    algorithm="interleaved",
)  # fmt: skip
NO_SPREADS = dict.fromkeys(START, 0.0)
EVEN = dict.fromkeys(KINDS, 1.0)  # factors


def run(
    source: str = "us", version: str | None = None, weights: Mapping[str, float] | None = None, **facts: Any
) -> ComparedRun:
    """A dense model on H100, with changes; `weights` of shares by name."""
    known = tuple((weights or {}).get(share, 0.0) for share in SHARES)
    return ComparedRun(source, version or source, FACTS._replace(**facts), known)


def published(name: str, compared: ComparedRun, published: float = 1000.0, estimated: float = 1000.0) -> PublishedRun:
    """A published run of 64 sequences a step."""
    return PublishedRun(name, f"https://{name}", "a model", compared, published, estimated, 64)


def base(*runs: PublishedRun, spreads: Mapping[str, float] = START) -> EvidenceBase:
    """Runs as if they were the evidence of the package."""
    model = ResidualModel(spreads, EVEN).with_runs((one.compared, one.residual) for one in runs)
    return EvidenceBase(runs, model, Interval(0.9, 1.0, 1.2))
