"""Published runs that shard weights over data-parallel ranks (FSDP2): steps and peaks of memory beside ours.

A setup of level `weights` gathers a stage as a whole, and so do PyTorch's pipelines. These runs have no pipeline: their
one stage is gathered, held and reduced as a whole here, where FSDP2 does that layer by layer, beside the passes. So ours
says how far that rule is from them, and nothing is fitted on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipesched.pipeline.step import WEIGHTS
from published_memory import GIB, NAMES
from published_runs import Run, published_runs, records
from published_times import Compared, estimate_of

SHARDED = "torchtitan"  # how the families of such runs begin


def sharded_runs() -> list[Run]:
    """Return the runs that are compared, with the level that they have."""
    runs = [run for run in published_runs() if run.family.startswith(SHARDED)]
    return [
        run._replace(setup=replace(run.setup, training=replace(run.setup.training, shard=WEIGHTS))) for run in runs
    ]


def sharded_rows() -> Iterator[tuple[str, Compared]]:
    """Yield steps in ms and peaks in GB beside ours, each with its unit."""
    peaks = {record["id"]: item["value"] for record in records() for item in record["measured"] if item["name"] in NAMES}
    for run in sharded_runs():
        found = estimate_of(run.setup, run.algorithm)
        if run.step is not None:
            yield "ms", Compared(run.name, run.family, run.step, found.step.time)
        if run.name in peaks:
            ours = max(float(device.total - device.fixed) for device in found.devices)
            yield "GB", Compared(run.name, run.family, peaks[run.name] * GIB / 1e9, ours / 1e9)
