"""`estimate`: what a model on GPUs costs and holds, how long its step takes, and how sure that is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pipesched.checks import require_flag
from pipesched.config.estimate import estimate_of
from pipesched.config.judging import Measured, judge_of
from pipesched.config.load import load_config
from pipesched.config.trust_section import TrustSection
from pipesched.estimation.result import Estimate


def estimate(
    path_or_text: str | Path | None = None,
    algorithm: str | None = None,
    *,
    whole: bool = False,
    trust: bool = True,
    like: str | None = None,
    measured: Measured | None = None,
    **overrides: Any,
) -> Estimate:
    """Estimate times, memory and speed of a training run from its model, its GPUs and how it is laid out on them.

    Args:
        path_or_text: The name of a YAML file with `model`, `hardware`, `parallel`, `batch` and `training`, or its text;
            None where the overrides say it all.
        algorithm: What schedules the pipeline; default: the config's, else 1f1b, or interleaved for several chunks.
        whole: Every score of attention counts in the operations of the model, as in older papers, not only those that
            causal attention needs.
        trust: False leaves out how sure the estimate is.
        like: The source of published runs whose software and cluster one's own are like; default: that of the config.
        measured: The name of a YAML file of one's own runs, or pairs of a config and the milliseconds of its step.
        **overrides: Values that replace those of the config, as `load` takes them: `model="llama-3-8b"`,
            `parallel={"tensor": 4}`, `batch={"micro": 2}`.

    Raises:
        ConfigError: For a file that cannot be read, an unknown key or source, sizes that do not divide, a config
            without a model, or a run of one's own that cannot be read.
        NotApplicable: The algorithm does not suit the problem.
    """
    config = load_config(path_or_text, overrides)
    found = estimate_of(config, algorithm, whole=require_flag(whole, "whole"))
    return judged(found, config.trust, like, measured) if require_flag(trust, "trust") else found


def judged(found: Estimate, said: TrustSection, like: str | None = None, measured: Measured | None = None) -> Estimate:
    """Return an estimate with how sure it is; `said` is what its config says of that. Raises ConfigError."""
    judge, notes = judge_of(said.like if like is None else like, measured)
    return replace(found, trust=judge.trust(found), notes=(*found.notes, *notes))
