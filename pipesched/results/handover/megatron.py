"""Megatron-LM's command line, and those who take its options: Megatron-Bridge, Primus, Zero Bubble's fork.

Each has an `answer`, from a `Subject` to lines, or to why there are none; FRAMEWORKS of hand_over.py names it. Before
it stand its tables: the options for what `Subject.known` says of a model.

Megatron-LM is megatron-core 0.19.2: megatron/training/arguments.py and the configs that it reads. NeMo Megatron-Bridge
(0.6.2) has recipes, whose ConfigContainer is set in Python; Primus (github.com/AMD-AGI/Primus, fd1eeab) its own
pipeline, `pp_algorithm`. The fork is sail-sg/zero-bubble-pipeline-parallelism, 39f2c18.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.pipeline.layers.layout_text import layout_text, megatron_text
from pipesched.pipeline.problem.costs import in_one
from pipesched.pipeline.problem.problem import typical
from pipesched.pipeline.problem.quantities import plain
from pipesched.results.handover.subject import GROUPED, OVERLAPPED, SLICED, Answer, HandoverText, Refusal, Subject

NAME = "Megatron-LM"
HAS = ("1f1b", GROUPED, OVERLAPPED)
OVERLAP = "--overlap-moe-expert-parallel-comm"
CONDITIONS = (
    f"{OVERLAP} asks for expert-model-parallel-size > 1, dispatcher alltoall or flex, bf16 or fp16, at most 1 MTP"
    " layer, no full recompute and no --moe-shared-expert-overlap"
)
OPTIONS = {  # of a model
    "tensor": "--tensor-model-parallel-size {tensor}", "context": "--context-parallel-size {context}",
    "gathers": "--cp-comm-type all_gather",
    "expert": "--expert-model-parallel-size {expert}", "expert_tensor": "--expert-tensor-parallel-size {expert_tensor}",
    "experts": "--num-experts {experts} --moe-router-topk {active} --moe-ffn-hidden-size {width}",
    "shared": "--moe-shared-expert-intermediate-size {shared}",
    "dense_layers": "--moe-layer-freq '([0]*{dense_layers}+[1]*{expert_layers})'",
    "dispatcher deepep": "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend {backend}",
    "dispatcher alltoall": "--moe-token-dispatcher-type alltoall",
    "dispatcher allgather": "--moe-token-dispatcher-type allgather",
    "micro": "--micro-batch-size {micro}", "size": "--global-batch-size {size}", "sequence": "--seq-length {sequence}",
    "is_split": "--sequence-parallel", "selective": "--recompute-activations", "bf16": "--bf16", "fp16": "--fp16",
    "fp8": "--fp8-format hybrid --fp8-recipe tensorwise", "fp8 weights": "--fp8-param-gather",
    "fp8-blockwise": "--fp8-format e4m3 --fp8-recipe blockwise", "mxfp8": "--fp8-format e4m3 --fp8-recipe mxfp8",
    "mxfp8 weights": "--fp8-param-gather --reuse-grad-buf-for-mxfp8-param-ag",
    "nvfp4": "--fp4-format e2m1 --fp4-recipe nvfp4", "nvfp4 weights": "--fp4-param-gather",
    "full": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    "full_layers": "--recompute-granularity full --recompute-method block --recompute-num-layers {full_layers}",
    "distributed_optimizer": "--use-distributed-optimizer", "bf16 gradients": "--grad-reduce-in-bf16",
    "overlapped": "--overlap-grad-reduce --overlap-param-gather", "optimizer sgd": "--optimizer sgd",
    "optimizer adam-bf16": "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
}  # fmt: skip
OPTIMIZERS = {
    "optimizer muon": "Muon: --optimizer muon, or dist_muon where ranks divide its states, as your version has it"
}
SHARD = {key: OPTIONS[key] for key in ("distributed_optimizer", "overlapped")}
GROUPS = {"instances": "groups of {ranks} ranks divide them: --num-distributed-optimizer-instances {replicas}"}
DATA = {"data": "{microbatches} microbatches a step; the data-parallel size, {data}, follows from the {gpus} GPUs"}
MODEL = {
    "hidden": "the model's own options are yours to give: --num-layers {layers} --hidden-size {hidden}"
    " --ffn-hidden-size {ffn} --num-attention-heads {heads} --num-query-groups {kv_heads}",
    "channels": "--kv-channels {channels}", "mtp": "--mtp-num-layers {mtp}",
}  # fmt: skip
MTP_PATTERN = "the pattern of an MTP layer is yours to give, behind the layers: /*E, once for each"
SAVING = "recompute and offload by layer or module (--recompute-*, --fine-grained-activation-offloading)"


def answer(subject: Subject) -> Answer:
    """Return the flags of 1F1B, or of the interleaved schedule, with experts' messages beside compute or without."""
    if subject.family not in HAS:
        has = f"{NAME} has 1F1B and the interleaved schedule by flags"
        return Refusal(f"{subject.described} takes code", has)
    overlaps, known = subject.family == OVERLAPPED, subject.known
    pattern, stages = known.get("letters", ""), subject.layers or ()
    lacking = {
        "needs experts on several ranks: `parallel.expert` 2 or more": known.get("expert", 1) == 1,
        "refuses the dispatcher allgather: `training.dispatcher` alltoall or deepep": known.get("dispatcher allgather"),
        "refuses full recompute: `training.recompute` none or selective": known.get("recompute") == "full",
        "needs bf16 or fp16: `training.precision`": not (known.get("bf16") or known.get("fp16")),
        "takes at most one MTP layer": known.get("mtp", 0) > 1,
    }
    for text in (text for text, is_lacking in lacking.items() if is_lacking and overlaps and known):
        return Refusal(f"{NAME} overlaps messages of experts by {OVERLAP}, which {text}")
    if wrong := wrong_group(subject):
        return Refusal(wrong)
    flags = [f"--pipeline-model-parallel-size {subject.devices}"]
    if subject.layers is not None:  # in a layout stage k is on rank k mod P
        flag = "--hybrid-layer-pattern" if pattern else "--pipeline-model-parallel-layout"
        flags.append(f"{flag} '{layout_text(pattern, subject.layers)}'")
    flags += interleaving_flags(subject, laid_out=subject.layers is not None)
    flags += [*[OVERLAP] * overlaps, *subject.told(OPTIONS)]
    remarks = [microbatch_remark(subject), *_differences(subject)][:2] + [CONDITIONS] * (overlaps and not known)
    losses, holders = sum(stage.head for stage in stages), sum(stage.mtp > 0 for stage in stages)
    later = [f"{losses} losses (L)"] * (losses > 1) + [f"MTP layers on {holders} stages"] * (holders > 1)
    remarks += [f"megatron-core 0.19.2 takes no {' and no '.join(later)}: a later one is needed"] * bool(later)
    remarks += [MTP_PATTERN] * bool(pattern and known["mtp"])
    sharding = [*subject.told(OPTIMIZERS), *subject.told(GROUPS), *subject.told_of_shard(SHARD)]
    own = [" ".join([*subject.told(MODEL), ".."])] if known else []
    return HandoverText([" ".join(flags)], [*remarks, *sharding, *own])


def _differences(subject: Subject) -> Iterator[str]:
    mean = typical(subject.problem).costs
    for name, costs in (("forward", mean.forward), ("backward", mean.backward)):
        times = {*in_one(costs)}
        if subject.layers is None and len(times) > 1:
            least, most = plain(min(times)), plain(max(times))
            yield f"the stages differ ({name} {least} to {most}): give --layers, else Megatron cuts evenly"


def interleaving_flags(subject: Subject, *, laid_out: bool = False) -> list[str]:
    """Return the stages of a rank, where there are several and no layout has them, and their group if it is not P."""
    several, group = subject.chunks > 1, subject.group_size
    flags = [f"--num-virtual-stages-per-pipeline-rank {subject.chunks}"] * (several and not laid_out)
    groups = [f"--microbatch-group-size-per-virtual-pipeline-stage {group}"]
    return [*flags, *groups * (several and group != subject.devices)]


def wrong_group(subject: Subject) -> str:
    """Say why Megatron refuses the group of an interleaved schedule; "" where it does not."""
    if subject.chunks == 1:
        return ""
    group, devices, microbatches = subject.group_size, subject.devices, subject.microbatches
    if devices == 1:
        return f"{NAME} interleaves stages of two devices or more; on one device it has one stage"
    if microbatches < devices:
        return f"{NAME} interleaves at least P microbatches, {devices}; this has {microbatches}"
    sizes = [size for size in range(devices, microbatches + 1) if not 0 < microbatches % size < devices]
    other = f"; it takes `group_size` {min(sizes, key=lambda size: abs(size - group))}"
    if not devices <= group <= microbatches:
        return f"{NAME} takes groups of {devices} (P) to {microbatches} (M) microbatches; this has {group}{other}"
    rest = microbatches % group
    what = f"{NAME} refuses {microbatches} microbatches in groups of {group}: the last has {rest}, fewer than P"
    return f"{what}{other}" if 0 < rest < devices else ""


def microbatch_remark(
    subject: Subject, usual: str = "--global-batch-size is {} x --micro-batch-size x data-parallel size"
) -> str:
    """Return which batch makes the number of microbatches: that of the model, or as is `usual`."""
    count = subject.microbatches
    return "".join(subject.told(DATA)) or f"{count} microbatches a step: {usual.format(count)}"


BRIDGE = "Megatron-Bridge"
BRIDGE_OPTIONS = {  # of a model
    **{
        key: f"cfg.model.{way}_size = {{{key}}}"
        for key, way in {
            "tensor": "tensor_model_parallel", "context": "context_parallel", "expert": "expert_model_parallel",
            "expert_tensor": "expert_tensor_parallel",
        }.items()
    },
    "gathers": "cfg.model.cp_comm_type = 'all_gather'",
    "dispatcher deepep": "cfg.model.moe_token_dispatcher_type = 'flex'\n"
    "cfg.model.moe_flex_dispatcher_backend = '{backend}'",
    "dispatcher alltoall": "cfg.model.moe_token_dispatcher_type = 'alltoall'",
    "dispatcher allgather": "cfg.model.moe_token_dispatcher_type = 'allgather'",
    "micro": "cfg.train.micro_batch_size = {micro}", "size": "cfg.train.global_batch_size = {size}",
    "sequence": "cfg.model.seq_length = {sequence}\ncfg.dataset.seq_length = {sequence}",
    "is_split": "cfg.model.sequence_parallel = True", "is_whole": "cfg.model.sequence_parallel = False",
    "none": "cfg.model.recompute_granularity = None", "selective": "cfg.model.recompute_granularity = 'selective'",
    "full": "cfg.model.recompute_granularity = 'full'\ncfg.model.recompute_method = 'uniform'\n"
    "cfg.model.recompute_num_layers = 1",
    "full_layers": "cfg.model.recompute_granularity = 'full'\ncfg.model.recompute_method = 'block'\n"
    "cfg.model.recompute_num_layers = {full_layers}",
    "distributed_optimizer": "cfg.ddp.use_distributed_optimizer = True\ncfg.optimizer.use_distributed_optimizer = True",
    "overlapped": "cfg.ddp.overlap_grad_reduce = True\ncfg.ddp.overlap_param_gather = True",
}  # fmt: skip
RECIPES = {  # of mixed precision
    "bf16": "bf16_mixed", "fp16": "fp16_mixed", "fp8": "bf16_with_fp8_current_scaling_mixed",
    "fp8-blockwise": "bf16_with_fp8_subchannel_scaling_mixed", "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}  # fmt: skip
IMPORT = "from megatron.bridge.training.mixed_precision import get_mixed_precision_config"
BRIDGE_REMARKS = {"fp8": f"{RECIPES['fp8']} keeps the first and the last layer in bf16"}
BRIDGE_OVERLAP = "cfg.comm_overlap.overlap_moe_expert_parallel_comm = True"
BRIDGE_FROM = "Megatron-Bridge 0.6.2, where `cfg` is the ConfigContainer of your recipe, before it trains"


def bridge_answer(subject: Subject) -> Answer:
    """Return what to set for the schedules of Megatron-LM, which it trains by."""
    found = answer(subject)
    if isinstance(found, Refusal):
        return Refusal(*(text.replace(NAME, BRIDGE) for text in found))
    precision = subject.known.get("precision")
    if precision and precision not in RECIPES:
        return Refusal(f"{BRIDGE} has recipes of mixed precision for {', '.join(RECIPES)}; {precision} has none")
    lines = [f"cfg.model.pipeline_model_parallel_size = {subject.devices}"]
    chunks = subject.chunks if subject.chunks > 1 else None
    lines.append(f"cfg.model.virtual_pipeline_model_parallel_size = {chunks}")
    if subject.layers is not None:
        key = "hybrid_layer_pattern" if subject.known.get("letters", "") else "pipeline_model_parallel_layout"
        lines.append(f"cfg.model.{key} = {layout_text(subject.known.get('letters', ''), subject.layers)!r}")
    if chunks and subject.group_size != subject.devices:
        lines.append(f"cfg.model.microbatch_group_size_per_vp_stage = {subject.group_size}")
    lines += [BRIDGE_OVERLAP] * (subject.family == OVERLAPPED)
    lines += [line for text in subject.told(BRIDGE_OPTIONS) for line in text.split("\n")]
    if precision:  # its recipe overwrites what stands in `cfg.ddp` and `cfg.model`
        own = {"grad_reduce_in_fp32": subject.known["gradients"] != "bf16"}
        if (gathered := f"{precision} weights") in OPTIONS:
            own[f"{'fp4' if precision == 'nvfp4' else 'fp8'}_param_gather"] = bool(subject.known[gathered])
        lines += [IMPORT, f"cfg.mixed_precision = get_mixed_precision_config({RECIPES[precision]!r})"]
        lines += [f"cfg.mixed_precision.{key} = {value}" for key, value in own.items()]
    batch = microbatch_remark(subject, "cfg.train.global_batch_size is {} x micro_batch_size x data")
    sharding = [text.replace("\n", "; ") for text in subject.told_of_shard(BRIDGE_OPTIONS)]
    return HandoverText(lines, [BRIDGE_FROM, batch, *subject.told(BRIDGE_REMARKS), *sharding])


PRIMUS = "Primus"
ALGORITHMS = {
    "1f1b": "1f1b", GROUPED: "1f1b-interleaved", "zb-h1": "zero-bubble", "zb-auto": "zero-bubble-heuristic",
    "zb-v": "zbv-formatted", "v-half": "v-half", "v-min": "v-min",
}  # fmt: skip
PRIMUS_SHARD = {
    "distributed_optimizer": "use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: true"
}
PRIMUS_KEYS = {"fp8_format": "fp8", "fp4_format": "fp4", "fp4_param_gather": "fp4_param"}  # where a flag is not the key
PRIMUS_ON = {"is_split": "sequence_parallel", "bf16": "bf16"}  # flags that are on where nothing is said
PRIMUS_SAVING = "offload of all activations (offload: true)"


def primus_answer(subject: Subject) -> Answer:
    """Return the keys of its algorithms."""
    algorithm = ALGORITHMS.get(subject.family)
    if algorithm is None:
        return Refusal(f"{subject.described} is none of them, and takes code", f"{PRIMUS} has schedules by name")
    if subject.family == GROUPED and subject.chunks > 1 and subject.group_size != subject.devices:
        groups = f"groups of {subject.devices} (P) microbatches"
        return Refusal(f"{PRIMUS} interleaves {groups}; this has {subject.group_size}")
    lines = [f"pp_algorithm: {algorithm}", f"pipeline_model_parallel_size: {subject.devices}"]
    if subject.is_uneven and subject.placement == "v":
        return Refusal(f"{PRIMUS} takes layouts whose stage k is on rank k mod P; this has its stages on a V")
    if pattern := subject.known.get("letters"):
        return Refusal(f"{PRIMUS} takes layouts of layers that are alike, and those of this model are {pattern}")
    if subject.layers is not None and subject.placement != "v":
        lines.append(f"pipeline_model_parallel_layout: '{megatron_text(subject.layers)}'")
    elif subject.chunks > 1:
        lines.append(f"num_virtual_stages_per_pipeline_rank: {subject.chunks}")
    for option in " ".join(["", *subject.told(OPTIONS)]).split(" --")[1:]:
        key, _, value = option.partition(" ")
        flag = key.replace("-", "_")
        lines.append(f"{PRIMUS_KEYS.get(flag, flag)}: {value or 'true'}")
    lines += [f"{flag}: false" for key, flag in PRIMUS_ON.items() if subject.known and not subject.known.get(key)]
    remarks = subject.told(DATA) or [f"{subject.microbatches} microbatches a step"]
    return HandoverText(lines, [*remarks, *subject.told_of_shard(PRIMUS_SHARD)])


ZERO_BUBBLE = "Zero Bubble's fork of Megatron-LM"
PENDING = "--enable-zero-bubble --zero-bubble-max-pending-backward"
SETUP = "--zero-bubble-v-schedule --zero-bubble-v-schedule-mem-setup"
ZERO_BUBBLE_FLAGS = {  # for P, 2P and the slices of a microbatch; those of interleaved schedules depend on groups
    "1f1b": "--enable-zb-runtime", GROUPED: "", "zb-h1": f"{PENDING} {{0}}", "zb-h2": f"{PENDING} {{1}}",
    "zb-auto": f"{PENDING} auto", "zb-v": f"{SETUP} zb", "v-half": f"{SETUP} half", "v-min": f"{SETUP} min",
    "1f1b-v": "--enable-1f1b-v", SLICED: "--enable-zb-runtime --num-seq-splits {2}",
}  # fmt: skip
ZERO_BUBBLE_LACKS = (  # of Megatron-LM's options for a model
    "expert_tensor", "gathers", "bf16 gradients", "optimizer adam-bf16", "dispatcher deepep", "fp8",
    "fp8-blockwise", "mxfp8", "nvfp4", "fp8 weights", "mxfp8 weights", "nvfp4 weights",
)  # fmt: skip
ZERO_BUBBLE_SAVING = "offload by chunks (--cpu-offload --offload-chunk-num) in its groups of interleaved schedules"


def zero_bubble_answer(subject: Subject) -> Answer:
    """Return the flags of its schedules, which it makes itself."""
    name = subject.family
    if name not in ZERO_BUBBLE_FLAGS:
        return Refusal(f"{subject.described} is none of them, and takes code", f"{ZERO_BUBBLE} has schedules by flags")
    if pattern := subject.known.get("letters"):
        return Refusal(f"{ZERO_BUBBLE} cuts layers that are alike, and those of this model are {pattern}")
    if subject.is_uneven:
        return Refusal(f"{ZERO_BUBBLE} cuts the layers evenly, and here stages have different numbers of them")
    slices = subject.problem.slices
    if len({*slices.tokens}) > 1:
        return Refusal(f"{ZERO_BUBBLE} cuts sequences evenly, and here slices have different numbers of tokens")
    numbers = (subject.devices, 2 * subject.devices, slices.count)
    own = [ZERO_BUBBLE_FLAGS[name].format(*numbers)]
    if name == GROUPED:
        own = [*interleaving_flags(subject), f"--interleave-group-size {subject.group_size}"]
    model = subject.told({key: text for key, text in OPTIONS.items() if key not in ZERO_BUBBLE_LACKS})
    lacking = subject.told({key: f"{ZERO_BUBBLE} has no {OPTIONS[key]}" for key in ZERO_BUBBLE_LACKS})
    flags = " ".join([f"--pipeline-model-parallel-size {subject.devices}", *own, *model])
    remarks = [microbatch_remark(subject), *subject.told_of_shard(SHARD), *lacking]
    return HandoverText([flags], remarks)
