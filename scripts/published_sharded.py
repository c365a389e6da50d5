"""Published runs that shard weights over data-parallel ranks (FSDP2): steps and peaks of memory beside ours.

A setup of level `weights` gathers a stage as a whole, and so do PyTorch's pipelines. These runs have no pipeline: here
their one stage is gathered, held and reduced as a whole, where FSDP2 does that layer by layer, beside the passes. So
the table says how far that rule is from them, and nothing is fitted on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipesched.pipeline.plan.step import WEIGHTS
from published_memory import GB, GIB, NAMES
from published_runs import Run, published_runs, records
from published_times import Compared, estimate_of

SHARDED = "torchtitan"  # how the families of such runs begin


def is_sharded(run: Run) -> bool:
    """Return whether ranks divide the weights of a run."""
    return run.family.startswith(SHARDED)


def sharded_rows() -> Iterator[tuple[str, Compared]]:
    """Yield steps in ms, and peaks in GB where they are published, beside ours at the level that the runs have."""
    values = ((record["id"], item) for record in records() for item in record["measured"])
    peaks = {name: item["value"] for name, item in values if item["name"] in NAMES}
    for run in filter(is_sharded, published_runs()):
        found = estimate_of(replace(run.setup, training=replace(run.setup.training, shard=WEIGHTS)), run.algorithm)
        if run.step is not None:
            yield "ms", Compared(run.name, run.family, run.step, found.step.time)
        if run.name in peaks:
            ours = max(device.total - device.fixed for device in found.devices)
            yield "GB", Compared(run.name, run.family, peaks[run.name] * GIB / GB, float(ours) / GB)


def sharded_table() -> None:
    """Print the table."""
    print("\nWeights sharded over data-parallel ranks: estimates with `shard: weights`")
    print(f"  {'run':<75} {'published':>10} {'ours':>10} {'':>2} {'error':>7}")
    for unit, row in sharded_rows():
        print(f"  {row.name:<75} {row.published:>10.1f} {row.ours:>10.1f} {unit} {row.error:>+7.1%}")
