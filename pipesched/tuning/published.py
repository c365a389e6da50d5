"""Published runs of the model and the GPU of a space, those most alike the best point first."""

from __future__ import annotations

from pipesched.estimation.trust.evidence import PublishedRun
from pipesched.estimation.trust.facts import shape_of
from pipesched.estimation.trust.judge import Judge
from pipesched.tuning.space import Space
from pipesched.tuning.trial import Trial

MOST_SHOWN = 8


def published_runs(space: Space, judge: Judge, best: Trial) -> tuple[PublishedRun, ...]:
    """Return at most eight measured runs of the same model and GPU."""
    if best.trust is None:
        return ()
    asked = best.trust.standing.run
    model, gpu = shape_of(space.model), space.hardware.name
    alike = [run for run in judge.base.runs if (run.compared.facts.model, run.compared.facts.gpu) == (model, gpu)]
    apart = {run.run: judge.apart(asked, run.compared) for run in alike}
    return tuple(sorted(alike, key=lambda run: (apart[run.run], run.run))[:MOST_SHOWN])
