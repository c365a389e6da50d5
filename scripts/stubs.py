"""Writes the types of `make_problem`, whose parameters are the keys of a config, and of the names of the package.

python scripts/stubs.py            # exit code 1 when a file is out of date
python scripts/stubs.py --write
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from textwrap import fill, indent

import pipesched
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.declared import PARAMETERS
from pipesched.pipeline.problem.shapes import Field

PACKAGE = Path(__file__).parents[1] / "pipesched"
STUB = Path(inspect.getfile(make_problem)).with_suffix(".pyi")  # of the module that has it
OF_PACKAGE = PACKAGE / "__init__.pyi"
HEAD = '''\
"""The types of `make_problem`. scripts/stubs.py writes this file from the declarations of keys."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesched.pipeline.plan.step import Messages, Shard, SideItem
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import Number

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
    lines = indent(make_problem.__doc__ or "", "    ").strip().splitlines()
    text = "\n".join(fill(line, 120, subsequent_indent=" " * 12) if len(line) > 120 else line for line in lines)
    return f'{HEAD}{parameters}) -> Problem:\n    """{text}\n    """\n'


def stub_of_package() -> str:
    """Return the public names of the package, each imported from its module."""
    lines = []
    for module, names in sorted({**pipesched._NAMES, "version": "__version__"}.items()):
        parts = [f"{name} as {name}" for name in names.split()]
        line = f"from pipesched.{module} import {', '.join(parts)}\n"
        listed = "".join(f"    {part},\n" for part in parts)
        lines.append(line if len(line) <= 121 else f"from pipesched.{module} import (\n{listed})\n")
    head = '"""The names of pipesched. scripts/stubs.py writes this file from the table in __init__.py."""'
    others = "__all__: list[str]\n\ndef __getattr__(name: str) -> Any: ...\n"
    return f"{head}\n\nfrom typing import Any\n\n{''.join(lines)}\n{others}"


def main(arguments: list[str]) -> int:
    """Write the files, or say whether they are up to date."""
    stale = []
    for path, text in ((STUB, stub()), (OF_PACKAGE, stub_of_package())):
        if arguments == ["--write"]:
            path.write_text(text, encoding="utf-8")
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    said = f"{' and '.join(stale)}: out of date: run scripts/stubs.py --write" if stale else "up to date"
    print(f"the types are {said}" if not stale else said)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
