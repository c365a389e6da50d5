"""Train by any schedule: a runtime that executes plans in PyTorch, recomputation, offload and two copies included.

Raises ConfigError where PyTorch is missing.
"""

from importlib.util import find_spec

from pipesched.errors import ConfigError

if find_spec("torch") is None:
    raise ConfigError("training is done by PyTorch, which is not installed: pip install 'pipesched[torch]'")

from pipesched.runtime.run import Runtime as Runtime
from pipesched.runtime.seeding import seeded as seeded

__all__ = ["Runtime", "seeded"]
