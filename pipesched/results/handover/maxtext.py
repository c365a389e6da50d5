"""MaxText's config (its release 0.2.5: configs/base.yml and types.py): a circular pipeline in JAX.

Forwards of all microbatches run repeat by repeat, and the backwards in the reverse order: that of looped-bfs.
"""

from __future__ import annotations

from pipesched.pipeline.step import WEIGHTS
from pipesched.results.handover.megatron import DATA
from pipesched.results.handover.subject import Answer, HandoverText, Refusal, Subject

NAME = "MaxText"
HAS = ("looped-bfs",)
OPTIONS = {  # of a model; 1 is the default of degrees
    **{way: f"ici_{way}_parallelism={{{way}}}" for way in ("tensor", "context", "expert")},
    "replicated": "ici_data_parallelism={data} ici_fsdp_parallelism=1",
    "fsdp": "ici_data_parallelism={replicas} ici_fsdp_parallelism={shards}",
    "sequence": "max_target_length={sequence}", "full": "remat_policy=full",
}  # fmt: skip
REMARKS = {
    "none": "recompute none: base.yml has remat_policy=full; choose one that saves all",
    "selective": "recompute: base.yml has remat_policy=full; choose one that saves what you keep",
    "full_layers": "recompute of {full_layers} layers a stage: MaxText has one remat_policy for all",
    "low": "precision {precision}: base.yml trains in bf16 where `quantization` is not given; choose one",
    "expert_tensor": "MaxText has no option for expert tensor parallelism of {expert_tensor}",
}
SAVING = "recompute and offload by its remat_policy"
FROM = "MaxText 0.2.5, behind base.yml; an axis between nodes is dcn_.. in place of ici_.."


def answer(subject: Subject) -> Answer:
    """Return the options of its circular pipeline."""
    if subject.family not in HAS:
        return Refusal(f"{subject.described} takes code", f"{NAME} runs all forwards, then all backwards (looped-bfs)")
    count, devices = subject.microbatches, subject.devices
    if count % devices:
        near = f"{max(count // devices, 1) * devices}"
        return Refusal(
            f"{NAME} takes microbatches in multiples of P, {devices}; this has {count}, the nearest is {near}"
        )
    if subject.is_uneven:
        return Refusal(f"{NAME} gives each stage as many layers, and here stages have different numbers of them")
    options = [f"ici_pipeline_parallelism={devices}", f"num_pipeline_microbatches={count}"]
    options.append(f"num_pipeline_repeats={subject.chunks}")
    remarks = [
        FROM,
        *(subject.told(DATA) or [f"{count} microbatches a step, of global_batch_size / {count} sequences"]),
    ]
    if subject.layers is None:
        remarks.append("num_layers_per_pipeline_stage is 1 where it is not given: give the layers of a stage")
    elif any(stage.mtp or stage.head > 1 for stage in subject.layers):
        return Refusal(f"{NAME} pipelines decoder layers alone, and here MTP layers or losses stand on stages")
    else:
        options.append(f"num_layers_per_pipeline_stage={subject.layers[0].layers}")
    if subject.known:
        each = subject.known["size"] / subject.known["gpus"]
        options.append(f"per_device_batch_size={each:g}")
    if subject.problem.sharding.divides(WEIGHTS):
        options.append(f"pipeline_fsdp_ag_once={'false' if subject.problem.sharding.gathers_each else 'true'}")
    return HandoverText([" ".join([*options, *subject.told(OPTIONS)])], [*remarks, *subject.told(REMARKS)])
