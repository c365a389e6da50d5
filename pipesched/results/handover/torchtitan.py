"""torchtitan's command line (github.com/pytorch/torchtitan, b5bcd76: config/job_config.py, Parallelism).

Where it has the schedule by name its class makes the order; any other is a CSV beside a class of the same stage map,
because torchtitan takes that from the class.
"""

from __future__ import annotations

import json

from pipesched.results.handover.subject import GROUPED, Answer, HandoverText, Refusal, Subject, torchtitan_modules

NAME = "torchtitan"
CLASSES = {
    "1f1b": "1F1B", GROUPED: "Interleaved1F1B", "naive": "GPipe", "looped-bfs": "LoopedBFS",
    "interleaved-zb": "InterleavedZeroBubble", "zb-v": "ZBVZeroBubble", "dualpipe-v": "DualPipeV",
}  # fmt: skip
IN_ROUNDS = (GROUPED, "interleaved-zb")  # whose classes run M / max(1, M // P) microbatches a round
MAPS = {"linear": "1F1B", "loop": "Interleaved1F1B", "v": "ZBVZeroBubble"}  # a class of each stage map, beside a CSV
FILE = "schedule.csv"
USUAL_CHUNKS = 2  # of a rank, where nothing says it
SAVING = "recompute by layer (activation checkpointing)"
OPTION = "--parallelism."
OPTIONS = {  # of a model
    **{way: f"{OPTION}{way}_parallel_degree={{{way}}}" for way in ("tensor", "context", "expert")},
    "replicated": f"{OPTION}data_parallel_replicate_degree={{data}} {OPTION}data_parallel_shard_degree=1",
    "fsdp": f"{OPTION}data_parallel_replicate_degree={{replicas}} {OPTION}data_parallel_shard_degree={{shards}}"
    f" {OPTION}fsdp_reshard_after_forward={{reshard}}",
    "is_whole": f"{OPTION}no-enable-sequence-parallel",
    "tokens": "--training.num_tokens_per_microbatch_per_dp_rank={tokens}",
    "step": "--training.num_tokens_per_train_step={step}", "sequence": "--training.max_context_length={sequence}",
}  # fmt: skip
SHARD = {  # where no model says how many ranks there are
    "fsdp": f"{OPTION}data_parallel_shard_degree={{ranks}} {OPTION}fsdp_reshard_after_forward={{reshard}};"
    " data_parallel_replicate_degree is the number of such groups",
    "distributed_optimizer": f"{NAME} shards optimizer states only together with weights (FSDP)",
}
REMARKS = {  # on what has no option
    "expert_tensor": f"{NAME} has no option for expert tensor parallelism of {{expert_tensor}}",
    "selective": "activation checkpointing: selective", "full": "activation checkpointing: full",
    "full_layers": "activation checkpointing: full of {full_layers} layers a stage",
    "precision": "precision: {precision}",
    **{f"optimizer {name}": f"the optimizer is yours to choose: {name}" for name in ("adam-bf16", "muon", "sgd")},
    "distributed_optimizer": SHARD["distributed_optimizer"],
}  # fmt: skip


def answer(subject: Subject) -> Answer:
    """Return the options of a class, or of a CSV."""
    if subject.placement not in MAPS:
        what = "keeps two copies of each stage" if subject.placement == "bidirectional" else "has another stage map"
        return Refusal(f"{NAME} has a stage a rank, loops and the V by its classes; this {what}")
    known = subject.known
    if known.get("fsdp") and (known["same"] % known["ranks"] or known["ranks"] % (known["context"] or 1)):
        groups = f"groups of {known['ranks']} ranks (`shard`) do not come out even among {known['same']}"
        return Refusal(f"{NAME} shards over all ranks that share a sequence, and {groups}")
    by_name = CLASSES.get(subject.family) if _class_fits(subject) else None
    options = {
        "pipeline_parallel_degree": str(subject.devices),
        "num_pp_microbatches": str(subject.microbatches),
        "pipeline_parallel_schedule": by_name or MAPS[subject.placement],
    }
    remarks = []
    if by_name is None:
        options["pipeline_parallel_schedule_csv"] = FILE
        remarks.append(f"write {subject.described} to {FILE}: pipesched export .. --to pytorch-csv -o {FILE}")
    if subject.layers is not None and any(stage.mtp for stage in subject.layers):
        return Refusal(f"{NAME} has no layers of multi-token prediction (MTP)")
    if subject.layers is not None:
        options["module_fqns_per_model_part"] = f"'{json.dumps(torchtitan_modules(subject.layers))}'"
    elif subject.chunks > USUAL_CHUNKS:
        remarks.append(f"{subject.chunks} stages a rank: give module_fqns_per_model_part too, else there are 2")
    texts = [*(f"{OPTION}{key}={value}" for key, value in options.items()), *subject.told(OPTIONS)]
    remarks += [*subject.told(REMARKS), *subject.told_of_shard(SHARD)]
    return HandoverText([" ".join(texts)], remarks, "" if by_name else FILE)


def _class_fits(subject: Subject) -> bool:
    """Return whether PyTorch's class makes this order of these numbers."""
    devices, microbatches = subject.devices, subject.microbatches
    if subject.family == "1f1b":
        return microbatches >= devices and subject.chunks == 1
    if subject.family in IN_ROUNDS:
        rounds = max(1, microbatches // devices)
        fits = microbatches % rounds == 0 and subject.chunks > 1
        return fits and (subject.family != GROUPED or subject.group_size == microbatches // rounds)
    return True
