"""Training by any schedule in PyTorch, and measuring a model.

Tests hold it on CPUs; of GPUs one was tried (docs/results/gpu.md). `pipesched train --self-test` checks it on yours.

Its names load PyTorch when they are first asked for, and raise ConfigError where it is missing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipesched.runtime.model_source import seeded as seeded
    from pipesched.runtime.profiling import profile as profile
    from pipesched.runtime.run import Runtime as Runtime
    from pipesched.runtime.self_testing import self_test as self_test
    from pipesched.runtime.training import train as train

_MODULES = {
    "Runtime": "run",
    "profile": "profiling",
    "seeded": "model_source",
    "self_test": "self_testing",
    "train": "training",
}

__all__ = ["Runtime", "profile", "seeded", "self_test", "train"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'pipesched.runtime' has no attribute {name!r}")
    require_torch()
    return getattr(import_module(f"pipesched.runtime.{_MODULES[name]}"), name)


def require_torch() -> None:
    """Raise ConfigError where PyTorch is missing."""
    if find_spec("torch") is None:
        from pipesched.errors import ConfigError

        raise ConfigError("training is done by PyTorch, which is not installed: pip install 'pipesched[torch]'")
