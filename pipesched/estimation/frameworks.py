"""The stages of an estimate as texts of frameworks: Megatron-LM's layout, torchtitan's module names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipesched.errors import ConfigError
from pipesched.estimation.layout_text import torchtitan_modules
from pipesched.estimation.result import Estimate


def layout_lines(estimate: Estimate) -> Iterator[str]:
    """Yield what to give to Megatron-LM and to torchtitan for the stages of an estimate."""
    parallel = estimate.setup.parallel
    yield "# Megatron-LM"
    yield f"--pipeline-model-parallel-size {parallel.pipeline} --pipeline-model-parallel-layout '{estimate.layout}'"
    yield ""
    yield "# torchtitan: module_fqns_per_model_part"
    try:
        modules = torchtitan_modules(estimate.stage_items)
    except ConfigError as error:
        yield f"# {error.message}"
        return
    yield "["
    for names in modules:
        yield f"    {names},".replace("'", '"')
    yield "]"


def layout_document(estimate: Estimate) -> dict[str, Any]:
    """Return format "pipesched.layout" (version 1): the texts, null where a framework cannot have these stages."""
    try:
        modules: Any = torchtitan_modules(estimate.stage_items)
    except ConfigError:
        modules = None
    return {"format": "pipesched.layout", "version": 1, "megatron": estimate.layout, "torchtitan": modules}
