"""The evidence of estimates: published steps beside ours, with who published each and what it is compared by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipesched.estimation.trust.evidence import PublishedRun
from pipesched.estimation.trust.facts import ComparedRun, facts_of
from pipesched.estimation.trust.inside import weights_of
from pipesched.pipeline.plan.step import WEIGHTS
from published_memory import Peak
from published_precision import FILE, precision_runs, publisher
from published_runs import FILES, Run, published_runs, records_of
from published_sharded import is_sharded
from published_times import estimate_of, step_of

SOURCES = {"zb": "zero-bubble", "llama3": "llama3", "megatron-readme": "megatron-readme"}
NAMES = ("narayanan21", "korthikanti", "zb", "llama3", "torchtitan", "megatron-readme", "megatron-golden",
         "megatron-bridge", "moe-zoo", "primus", "dgxc")  # how families begin  # fmt: skip
VERSIONED = ("dgxc", "torchtitan")  # sources whose software, or tables, are told apart
PRECISIONS = ("bf16", "fp16")


def source_of(family: str) -> tuple[str, str]:
    """Return who published the runs of a family, and the version of that."""
    name = next(name for name in NAMES if family.startswith(name))
    source = SOURCES.get(name, name)
    if source not in VERSIONED:
        return source, source
    return source, f"{source}-{family.rpartition('-')[2]}" if "-" in family else source


def evidence_rows(runs: Iterable[Run] | None = None) -> Iterator[PublishedRun]:
    """Yield each published step that counts: in 16 bits, with a layout that is complete."""
    urls = {record["id"]: record["source"] for name in FILES for record in records_of(name)}
    for run in published_runs() if runs is None else runs:
        if run.step is not None and run.setup.training.precision in PRECISIONS:
            level = WEIGHTS if is_sharded(run) else run.setup.training.level
            yield _row(run, run.step, urls.get(run.name, ""), source_of(run.family), level)


def low_evidence_rows(runs: Iterable[Run] | None = None) -> Iterator[PublishedRun]:
    """Yield the same of steps in 8 or 4 bits, and of those in 16 bits that were published beside them."""
    known = {record["id"]: record for record in records_of(FILE)}
    for run in precision_runs() if runs is None else runs:
        source = publisher(run.family)
        version = f"{source}-{known[run.name]['version'].rpartition(' ')[2]}".removesuffix("-")
        yield _row(run, run.step or 0.0, known[run.name]["source"], (source, version), run.setup.training.level)


def _row(run: Run, step: float, url: str, who: tuple[str, str], level: str) -> PublishedRun:
    estimate = estimate_of(run.setup, run.algorithm)
    facts = facts_of(run.setup, run.algorithm.partition(" ")[0])._replace(shard=level)
    compared = ComparedRun(*who, facts, weights_of(estimate))
    size = run.setup.batch.size
    return PublishedRun(run.name, url, run.setup.model.name, compared, step, step_of(estimate, run.algorithm), size)


def peak_ratios(found: Sequence[Peak]) -> list[tuple[float, float]]:
    """Return each published peak of memory over ours, with its weight: those of one layout weigh one together."""
    alike = [(peak.facts.model, peak.facts.gpu, peak.facts.layout) for peak in found]
    return [
        (peak.published / peak.compared.ours, 1 / alike.count(layout))
        for peak, layout in zip(found, alike, strict=True)
    ]


def quantile(values: Iterable[tuple[float, float]], share: float) -> float:
    """Return the smallest of values with weights up to which their weights are that share of all."""
    rows = sorted(values)
    least, found = share * sum(weight for _, weight in rows), 0.0
    for value, weight in rows:
        found += weight
        if found >= least - 1e-9:
            return value
    raise ValueError("no values")
