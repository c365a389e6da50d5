"""NeMo Megatron-Bridge's recipes (its release 0.6.2): what to set of a recipe's ConfigContainer, in Python."""

from __future__ import annotations

from pipesched.pipeline.layout_text import layout_text
from pipesched.results.handover import megatron
from pipesched.results.handover.subject import OVERLAPPED, Answer, HandoverText, Refusal, Subject

NAME = "Megatron-Bridge"
OPTIONS = {  # of a model
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
REMARKS = {"fp8": f"{RECIPES['fp8']} keeps the first and the last layer in bf16"}
OVERLAP = "cfg.comm_overlap.overlap_moe_expert_parallel_comm = True"
FROM = "Megatron-Bridge 0.6.2, where `cfg` is the ConfigContainer of your recipe, before it trains"


def answer(subject: Subject) -> Answer:
    """Return what to set for the schedules of Megatron-LM, which it trains by."""
    found = megatron.answer(subject)
    if isinstance(found, Refusal):
        return Refusal(*(text.replace(megatron.NAME, NAME) for text in found))
    precision = subject.known.get("precision")
    if precision and precision not in RECIPES:
        return Refusal(f"{NAME} has recipes of mixed precision for {', '.join(RECIPES)}; {precision} has none")
    lines = [f"cfg.model.pipeline_model_parallel_size = {subject.devices}"]
    chunks = subject.chunks if subject.chunks > 1 else None
    lines.append(f"cfg.model.virtual_pipeline_model_parallel_size = {chunks}")
    if subject.layers is not None:
        key = "hybrid_layer_pattern" if subject.known.get("letters", "") else "pipeline_model_parallel_layout"
        lines.append(f"cfg.model.{key} = {layout_text(subject.known.get('letters', ''), subject.layers)!r}")
    if chunks and subject.group_size != subject.devices:
        lines.append(f"cfg.model.microbatch_group_size_per_vp_stage = {subject.group_size}")
    lines += [OVERLAP] * (subject.family == OVERLAPPED)
    lines += [line for text in subject.told(OPTIONS) for line in text.split("\n")]
    if precision:  # its recipe overwrites what stands in `cfg.ddp` and `cfg.model`
        own = {"grad_reduce_in_fp32": subject.known["gradients"] != "bf16"}
        if (gathered := f"{precision} weights") in megatron.OPTIONS:
            own[f"{'fp4' if precision == 'nvfp4' else 'fp8'}_param_gather"] = bool(subject.known[gathered])
        lines += [IMPORT, f"cfg.mixed_precision = get_mixed_precision_config({RECIPES[precision]!r})"]
        lines += [f"cfg.mixed_precision.{key} = {value}" for key, value in own.items()]
    batch = "".join(subject.told(megatron.DATA))
    count = subject.microbatches
    batch = batch or f"{count} microbatches a step: cfg.train.global_batch_size is {count} x micro_batch_size x data"
    sharding = [text.replace("\n", "; ") for text in subject.told_of_shard(OPTIONS)]
    return HandoverText(lines, [FROM, batch, *subject.told(REMARKS), *sharding])
