"""torchtitan's command line, and trainers with code of their own: DeepSpeed's pipeline module, MaxText's config.

As in megatron.py each has an `answer`, from a `Subject` to lines, and before it its tables.

torchtitan is its release 0.3.0: config/configs.py, ParallelismConfig and TrainingConfig. Where it has the schedule by
name its class makes the order; any other is a CSV beside a class of the same stage map, because torchtitan takes that
from the class. DeepSpeed is its release 0.19.8: runtime/pipe/module.py. MaxText is its release 0.2.5 (configs/base.yml
and types.py), a circular pipeline in JAX: forwards of all microbatches run repeat by repeat, and the backwards in the
reverse order, that of looped-bfs.
"""

from __future__ import annotations

import json

from pipesched.errors import NotApplicable
from pipesched.pipeline.plan.step import WEIGHTS
from pipesched.results.handover.megatron import DATA
from pipesched.results.handover.subject import (
    GROUPED,
    UNLIKE,
    Answer,
    HandoverText,
    Refusal,
    Subject,
    has_unlike_messages,
    torchtitan_modules,
)

NAME = "torchtitan"
CLASSES = {
    "1f1b": "1F1B", GROUPED: "Interleaved1F1B", "naive": "GPipe", "looped-bfs": "LoopedBFS",
    "interleaved-zb": "InterleavedZeroBubble", "zb-v": "ZBVZeroBubble", "dualpipe-v": "DualPipeV",
}  # fmt: skip
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
        is_twofold = subject.placement == "bidirectional"
        what = "keeps two copies of each stage" if is_twofold else "has another stage map, which `placement` v avoids"
        return Refusal(f"{NAME} has a stage a rank, loops and the V by its classes; this {what}")
    known = subject.known
    if known.get("fsdp") and (known["same"] % known["ranks"] or known["ranks"] % (known["context"] or 1)):
        groups = f"groups of {known['ranks']} ranks (`shard`) do not come out even among {known['same']}"
        return Refusal(f"{NAME} shards over all ranks that share a sequence, and {groups}")
    spread = (known["shards"] if known.get("fsdp") else 1) * (known.get("context") or 1) * known.get("tensor", 1)
    if spread % (experts := known.get("expert", 1)):
        ranks = f"data_parallel_shard_degree x context x tensor ranks, {spread} here"
        what = f"{NAME} spreads experts over {ranks}, and the {experts} of `parallel.expert` do not divide these"
        return Refusal(what if known.get("fsdp") else f"{what}; `training.shard` gradients or weights makes these more")
    if known.get("fsdp") and experts > 1 and known["expert_ranks"] != spread // experts:
        return Refusal(f"{NAME} divides experts among {spread // experts} ranks, and here {known['expert_ranks']} do")
    rounds = max(1, subject.microbatches // subject.devices)  # PyTorch's classes run M / rounds microbatches a round
    in_rounds = subject.microbatches % rounds == 0 and subject.chunks > 1
    fits = {
        "1f1b": subject.microbatches >= subject.devices and subject.chunks == 1,
        GROUPED: in_rounds and subject.group_size == subject.microbatches // rounds,
        "interleaved-zb": in_rounds,
    }
    by_name = CLASSES.get(subject.family) if fits.get(subject.family, True) else None
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


DEEPSPEED = "DeepSpeed"
WHOLE = "dualpipe-v-whole"
MODULES = {"1f1b": "PipelineModule", WHOLE: "DualPipeVModule"}  # of deepspeed.pipe
DEEPSPEED_LACKS = {
    way: f"{way.replace('_', ' ')} parallelism of {{{way}}}" for way in ("context", "expert", "expert_tensor")
}
DEEPSPEED_LACKS["low"] = "{precision}"
DEEPSPEED_ARGUMENTS = {
    "tensor": "topology=PipeModelDataParallelTopology(num_pp={devices}, num_mp={tensor}, num_dp={data})",
    "full": "activation_checkpoint_interval=1",
}
DEEPSPEED_CONFIG = {  # in JSON
    "micro": '"train_micro_batch_size_per_gpu": {micro}', "data": '"gradient_accumulation_steps": {microbatches}',
    "size": '"train_batch_size": {size}', "bf16": '"bf16": {{"enabled": true}}', "fp16": '"fp16": {{"enabled": true}}',
    "distributed_optimizer": '"zero_optimization": {{"stage": 1}}', "undivided": '"zero_optimization": {{"stage": 0}}',
}  # fmt: skip
DEEPSPEED_SHARD = {key: DEEPSPEED_CONFIG[key] for key in ("distributed_optimizer", "undivided")}
AGAIN = {key: REMARKS[key] for key in ("selective", "full_layers")}
DEEPSPEED_REMARKS = {**DATA, "is_split": "sequence parallelism: the layers do it themselves", **AGAIN}
LAYER = "YourDecoderLayer"
BY_CLASS = f"{LAYER}: the class of your decoder layer; 'uniform' would count the embedding and the head as layers too"
DEEPSPEED_SAVING = "recompute by layer (activation_checkpoint_interval)"


def deepspeed_answer(subject: Subject) -> Answer:
    """Return the module of 1F1B, or of DualPipeV with whole backwards."""
    if subject.family not in MODULES:
        has = f"{DEEPSPEED} trains by 1F1B with a stage a rank, and by DualPipeV with whole backwards"
        return Refusal(f"{subject.described} takes code", has)
    if subject.family == WHOLE:
        count, least = subject.microbatches, 2 * subject.devices
        if count < least:
            return Refusal(f"{DEEPSPEED}'s DualPipeV takes at least 2P microbatches, {least}; this has {count}")
        if has_unlike_messages(subject.problem):
            return Refusal(f"{DEEPSPEED}'s DualPipeV runs {UNLIKE}")
    if subject.is_uneven:
        return Refusal(f"{DEEPSPEED} cuts layers of a class evenly, or by their parameters, not into given numbers")
    for way in subject.told(DEEPSPEED_LACKS):
        return Refusal(f"{DEEPSPEED} has no {way} in its pipelines")
    more = "".join(f", {argument}" for argument in subject.told(DEEPSPEED_ARGUMENTS))
    if has_unlike_messages(subject.problem):
        more += ", dynamic_shape=True"
    lines = [f"{MODULES[subject.family]}(layers, num_stages={subject.devices}, partition_method='type:{LAYER}'{more})"]
    lines += ["{" + ", ".join(subject.told(DEEPSPEED_CONFIG)) + "}"] * bool(subject.known)
    count = subject.microbatches
    usual = f'{count} microbatches a step: "gradient_accumulation_steps": {count}'
    return HandoverText(
        lines, [BY_CLASS, *(subject.told(DEEPSPEED_REMARKS) or [usual, *subject.told_of_shard(DEEPSPEED_SHARD)])]
    )


MAXTEXT = "MaxText"
MAXTEXT_HAS = ("looped-bfs",)
MAXTEXT_OPTIONS = {  # of a model; 1 is the default of degrees
    **{way: f"ici_{way}_parallelism={{{way}}}" for way in ("tensor", "context", "expert")},
    "replicated": "ici_data_parallelism={data} ici_fsdp_parallelism=1",
    "fsdp": "ici_data_parallelism={replicas} ici_fsdp_parallelism={shards}",
    "sequence": "max_target_length={sequence}", "full": "remat_policy=full",
}  # fmt: skip
MAXTEXT_REMARKS = {
    "none": "recompute none: base.yml has remat_policy=full; choose one that saves all",
    "selective": "recompute: base.yml has remat_policy=full; choose one that saves what you keep",
    "full_layers": "recompute of {full_layers} layers a stage: MaxText has one remat_policy for all",
    "low": "precision {precision}: base.yml trains in bf16 where `quantization` is not given; choose one",
    "expert_tensor": "MaxText has no option for expert tensor parallelism of {expert_tensor}",
}
MAXTEXT_SAVING = "recompute and offload by its remat_policy"
MAXTEXT_FROM = "MaxText 0.2.5, behind base.yml; an axis between nodes is dcn_.. in place of ici_.."


def maxtext_answer(subject: Subject) -> Answer:
    """Return the options of its circular pipeline."""
    if subject.family not in MAXTEXT_HAS:
        return Refusal(
            f"{subject.described} takes code", f"{MAXTEXT} runs all forwards, then all backwards (looped-bfs)"
        )
    count, devices = subject.microbatches, subject.devices
    if count % devices:
        near = f"{max(count // devices, 1) * devices}"
        return Refusal(
            f"{MAXTEXT} takes microbatches in multiples of P, {devices}; this has {count}, the nearest is {near}"
        )
    if subject.is_uneven:
        return Refusal(f"{MAXTEXT} gives each stage as many layers, and here stages have different numbers of them")
    options = [f"ici_pipeline_parallelism={devices}", f"num_pipeline_microbatches={count}"]
    options.append(f"num_pipeline_repeats={subject.chunks}")
    remarks = [
        MAXTEXT_FROM,
        *(subject.told(DATA) or [f"{count} microbatches a step, of global_batch_size / {count} sequences"]),
    ]
    if subject.layers is None:
        remarks.append("num_layers_per_pipeline_stage is 1 where it is not given: give the layers of a stage")
    elif any(stage.mtp or stage.head > 1 for stage in subject.layers):
        return Refusal(f"{MAXTEXT} pipelines decoder layers alone, and here MTP layers or losses stand on stages")
    else:
        options.append(f"num_layers_per_pipeline_stage={subject.layers[0].layers}")
    if subject.known:
        each = subject.known["size"] / subject.known["gpus"]
        options.append(f"per_device_batch_size={each:g}")
    if subject.problem.sharding.divides(WEIGHTS):
        options.append(f"pipeline_fsdp_ag_once={'false' if subject.problem.sharding.gathers_each else 'true'}")
    return HandoverText(
        [" ".join([*options, *subject.told(MAXTEXT_OPTIONS)])], [*remarks, *subject.told(MAXTEXT_REMARKS)]
    )
