"""The setup of a published run: its model, its GPU, its layout, its batch, and how it trains.

What a source does not say and its scripts or its text do is added here, field by field, with where it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipesched.estimation.hardware import Efficiency, GpuModel
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup
from published_models import model_of

GPUS = {  # how the name of a GPU begins in a record: the preset
    "A100-SXM": "a100-80gb-sxm",
    "H100": "h100-sxm",
    "GB200": "gb200",
    "B200": "b200",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "MI355X": "mi355x",
}
HBM2E = "H100-SXM-96GB-HBM2e"  # 96 GB, 2.4 TB/s, and 500 of 700 W: power goes about with the third power of a clock
HBM2E_NUMBERS = {"memory": 96.0, "bandwidth": 2400.0, "tflops": round(989 * (500 / 700) ** (1 / 3))}

OVERLAP = ("megatron-readme-h100", "llama3-t4")  # of tensor-parallel communication

# Megatron-LM's examples/sc21/run_table_1.sh: sequences of a microbatch, stages a device
TABLE_1 = {"1.7": (16, 1), "7.5": (16, 1), "39.1": (4, 1), "145.6": (2, 2), "529.6": (1, 3)}
# Megatron-LM says there that communication of the pipeline overlaps, as it does where stages interleave: chunks assumed
H100_CHUNKS = {"70": 2, "177": 4, "462": 7}
# GPUs of Megatron's release tests: the number whose states come nearest to what was allocated after a step
RELEASES = {"gpt3_15b": 128, "mixtral_8x22b": 128, "mixtral_8x7b": 64, "deepseekv3_proxy": 64}


def hardware_of(gpu: str, efficiency: Mapping[str, Efficiency]) -> GpuModel:
    """Return the GPU of a record; `efficiency` of a preset by its name replaces the preset's."""
    name = next(preset for text, preset in GPUS.items() if gpu.startswith(text))
    found = preset_hardware(name)
    if name in efficiency:
        found = replace(found, efficiency=efficiency[name])
    return replace(found, **HBM2E_NUMBERS) if gpu.startswith(HBM2E) else found


def published_setup(record: Mapping[str, Any], hardware: GpuModel) -> tuple[Setup, str]:
    """Return the setup of a record on a GPU, and what the source leaves open."""
    model, layout, family = model_of(record), record["layout"], record["family"]
    given = record["model"].get("megatron_args", {})
    micro, chunks, assumed = _micro_and_chunks(record, model.layers)
    tensor, pipeline = layout.get("tp") or 1, layout.get("pp") or 1
    context = layout.get("cp") or given.get("context-parallel-size", 1)
    expert = layout.get("ep") or given.get("expert-model-parallel-size", 1)
    gpus = layout.get("gpus") or next((n for name, n in RELEASES.items() if name in record["id"]), tensor * pipeline)
    sequence = layout.get("sp", given.get("sequence-parallel", not given and tensor > 1 and not _is_old(family)))
    parallel = Parallel(
        gpus=gpus,
        tensor=tensor,
        pipeline=pipeline,
        chunks=chunks,
        context=context,
        expert=expert,
        expert_tensor=given.get("expert-tensor-parallel-size", tensor if given and expert > 1 else 1),
        sequence=bool(sequence),
    )
    size = _size(layout, micro, parallel)
    training = _training(record, model.layers, parallel)
    return Setup(model, hardware, parallel, TokenBatch(layout["seq"], micro, size), training, record["id"]), assumed


def _is_old(family: str) -> bool:
    """Return whether a run is older than sequence parallelism and the distributed optimizer."""
    return family.startswith(("narayanan21", "mtnlg", "korthikanti", "zb-", "vsched"))


def _size(layout: Mapping[str, Any], micro: int, parallel: Parallel) -> int:
    given = layout.get("global_batch")
    size: int = given or micro * parallel.data * int(layout.get("microbatches", 1))
    return size


def _micro_and_chunks(record: Mapping[str, Any], layers: int) -> tuple[int, int, str]:
    """Return the sequences of a microbatch, the stages a device has, and what is not from the record itself."""
    layout, given = record["layout"], record["model"].get("megatron_args", {})
    known = _known(record)
    if known is not None:
        return known
    chunks = layout.get("vpp") or (2 if layout.get("schedule") == "zb-v" else 1)
    if "num-layers-per-virtual-pipeline-stage" in given:
        chunks = layers // layout["pp"] // given["num-layers-per-virtual-pipeline-stage"]
    if "pipeline-model-parallel-layout" in given:
        chunks = 2
    micro = layout.get("micro_batch") or layout.get("local_batch")
    return int(micro or 1), chunks, "" if micro else "microbatches of 1"


def _known(record: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """Return the same of families whose records leave it open."""
    size = str(record["model"].get("params_B"))
    known: dict[str, tuple[int, int, str]] = {
        "narayanan21-t1": (*TABLE_1.get(size, (1, 1)), "microbatches and chunks by run_table_1.sh"),
        "narayanan21-t2": (1, 1, "chunks: 1"),
        "megatron-readme-h100": (1, H100_CHUNKS.get(size, 1), "microbatches of 1; chunks"),
        "moe-zoo-qwen235b-long": (1, 4, "recompute of experts and norms is not counted"),
        "llama3-t4": (1, 8, "microbatches of 1; a layer a chunk, none in the first and the last (section 3.3.2)"),
    }
    return known.get(record["family"])


def _training(record: Mapping[str, Any], layers: int, parallel: Parallel) -> TrainingSetup:
    layout, family = record["layout"], record["family"]
    given = record["model"].get("megatron_args", {})
    recompute, full_layers = _recompute(layout.get("recompute"), layers)
    is_old = _is_old(family)
    return TrainingSetup(
        precision="fp16" if family.startswith(("narayanan21", "mtnlg", "korthikanti")) else "bf16",
        distributed_optimizer=not is_old and (not given or "use-distributed-optimizer" in given),
        recompute=recompute,
        full_layers=full_layers,
        flash_attention=not is_old or family == "vsched-t5",
        tensor_overlap=family in OVERLAP or bool(layout.get("async_tp")),
        fused_loss=given.get("cross-entropy-fusion-impl") == "te",  # `native` forms 32-bit logits
        layout=_layout(record, layers, parallel),
    )


def _recompute(text: str | None, layers: int) -> tuple[str, int | None]:
    """Return recompute; torchtitan's `selective op` repeats every second product, as much as half of the layers."""
    if text == "selective op":
        return "full", layers // 2
    return {"full": "full", "selective": "selective"}.get(text or "", "none"), None


def _layout(record: Mapping[str, Any], layers: int, parallel: Parallel) -> tuple[int, ...] | str | None:
    given = record["model"].get("megatron_args", {})
    text: str | None = given.get("pipeline-model-parallel-layout")
    if record["family"] in ("zb-profile", "zb-t4", "zb-t6", "llama3-t4"):  # one layer fewer at both ends
        return _even(layers, parallel.stages, fewer=True)
    return text or _even(layers, parallel.stages, fewer=layers % parallel.stages > 0)


def _even(layers: int, stages: int, *, fewer: bool) -> tuple[int, ...]:
    """Return as many layers for each stage, at both ends one less where the embedding and the head count as layers."""
    if not fewer:
        return (layers // stages,) * stages
    each = (layers + 2) // stages
    return (each - 1, *[each] * (stages - 2), each - 1)
