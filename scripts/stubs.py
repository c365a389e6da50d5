"""Writes the types of `make_problem`, whose parameters are the keys of a config.

python scripts/stubs.py            # exit code 1 when the file is out of date
python scripts/stubs.py --write
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from textwrap import fill

from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.declared import PARAMETERS
from pipesched.pipeline.shapes import Field

STUB = Path(__file__).parents[1] / "pipesched" / "pipeline" / "arguments.pyi"
HEAD = '''\
"""The types of `make_problem`. scripts/stubs.py writes this file from the declarations of keys."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesched.pipeline.placement import Placement
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Number
from pipesched.pipeline.step import Messages, Shard, SideItem

def make_problem(
    *,
'''


def parameter(name: str, field: Field) -> str:
    """Return the line of a parameter: its type, and its default."""
    hint = " | ".join(filter(None, (field.shape.hint, field.noun)))
    if name == "devices":
        return f"    {name}: {hint},\n"
    default = inspect.signature(make_problem).parameters[name].default
    optional = " | None" if default is None or name == "placement" else ""
    return f"    {name}: {hint}{optional} = {default!r},\n".replace("'", '"')


def stub() -> str:
    """Return the file."""
    parameters = "".join(parameter(name, field) for name, field in PARAMETERS.items())
    lines = (make_problem.__doc__ or "").rstrip().splitlines()
    text = "\n".join(fill(line, 120, subsequent_indent=" " * 12) if len(line) > 120 else line for line in lines)
    return f'{HEAD}{parameters}) -> Problem:\n    """{text}\n    """\n'


def main(arguments: list[str]) -> int:
    """Write the file, or say whether it is up to date."""
    if arguments == ["--write"]:
        STUB.write_text(stub(), encoding="utf-8")
    stale = not STUB.exists() or STUB.read_text(encoding="utf-8") != stub()
    print(f"{STUB.name} is {'out of date: run scripts/stubs.py --write' if stale else 'up to date'}")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
