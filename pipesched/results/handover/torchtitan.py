"""torchtitan's command line (its release 0.3.0: config/configs.py, ParallelismConfig and TrainingConfig).

Where it has the schedule by name its class makes the order; any other is a CSV beside a class of the same stage map,
because torchtitan takes that from the class.
"""

from __future__ import annotations

import json

from pipesched.errors import NotApplicable
from pipesched.pipeline.step import WEIGHTS
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
    "size": "--training.global_batch_size={size}", "sequence": "--training.seq_len={sequence}",
}  # fmt: skip
MAIN = {  # of its main branch, where the release has sizes of batches
    "microbatches": f"{OPTION}num_pp_microbatches={{microbatches}}",
    "tokens": "--training.num_tokens_per_microbatch_per_dp_rank={tokens}",
    "step": "--training.num_tokens_per_train_step={step}", "sequence": "--training.max_context_length={sequence}",
}  # fmt: skip
SHARD = {  # where no model says how many ranks there are
    "fsdp": f"{OPTION}data_parallel_shard_degree={{ranks}} {OPTION}fsdp_reshard_after_forward={{reshard}};"
    " data_parallel_replicate_degree is the number of such groups",
    "distributed_optimizer": f"{NAME} shards optimizer states only together with weights (FSDP)",
}
KEPT = {  # what PyTorch does by itself
    "never": "PyTorch gathers a stage when it is first needed, and keeps the next 3 of a rank whole",
    "always": "PyTorch frees a stage behind each forward, and gathers it again for the next pass",
}
REMARKS = {  # on what has no option
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
    spread = (
        (known["shards"] if known.get("fsdp") else 1) * (known["context"] or 1) * known.get("tensor", 1) if known else 1
    )
    if spread % (experts := known.get("expert", 1)):
        ranks = f"data_parallel_shard_degree x context x tensor ranks, {spread} here"
        what = f"{NAME} spreads experts over {ranks}, and the {experts} of `parallel.expert` do not divide these"
        return Refusal(what if known.get("fsdp") else f"{what}; `training.shard` gradients or weights makes these more")
    if known.get("fsdp") and experts > 1 and known["expert_ranks"] != spread // experts:
        return Refusal(f"{NAME} divides experts among {spread // experts} ranks, and here {known['expert_ranks']} do")
    by_name = CLASSES.get(subject.family) if _class_fits(subject) else None
    micro = known.get("micro", 1)
    options = {
        "pipeline_parallel_degree": str(subject.devices),
        "pipeline_parallel_microbatch_size": str(micro),
        "pipeline_parallel_schedule": by_name or MAPS[subject.placement],
    }
    remarks = []
    if by_name is None:
        options["pipeline_parallel_schedule_csv"] = FILE
        remarks.append(f"write {subject.described} to {FILE}: pipesched export .. --to pytorch-csv -o {FILE}")
    if subject.layers is not None:
        try:
            options["module_fqns_per_model_part"] = f"'{json.dumps(torchtitan_modules(subject.layers))}'"
        except NotApplicable as error:
            return Refusal(error.message)
    elif subject.chunks > USUAL_CHUNKS:
        remarks.append(f"{subject.chunks} stages a rank: give module_fqns_per_model_part too, else there are 2")
    texts = [f"{OPTION}{key}={value}" for key, value in options.items()]
    texts += [f"--training.local_batch_size={micro * subject.microbatches}", *subject.told(OPTIONS)]
    main = " ".join(subject.told(MAIN)) or MAIN["microbatches"].format(microbatches=subject.microbatches)
    remarks.insert(0, f"{NAME} 0.3.0; main from 2026-08-20 on has other options in place of those of batches: {main}")
    split = known.get("expert_tensor", 1)  # its experts are whole
    remarks += [f"{NAME} has no option for expert tensor parallelism of {split}"] * (split > 1)
    remarks += [*subject.told(REMARKS), *subject.told_of_shard(SHARD)]
    if subject.problem.sharding.divides(WEIGHTS):
        remarks.append(KEPT["always" if subject.problem.sharding.gathers_each else "never"])
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
