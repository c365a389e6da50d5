"""What `pipesched run` costs before and besides the work: against bare imports, and against an app that does nothing.

    python scripts/bench_startup.py

The app that does nothing is a Typer app with the same commands and options as pipesched, written the usual way.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path

from measuring import AS_INSTALLED, least_seconds
from pipesched.cli.app import COMMANDS
from pipesched.cli.groups import with_options

REPEATS = 15
IMPORTS = "import typer, rich.console, rich.table, yaml"
LIMITS = {"imports": 2.5, "no-op app": 1.5}


def no_op_app() -> str:
    """Return the source of a Typer app with our commands and options, and empty bodies."""
    lines = ["from typing import Optional", "import typer", "app = typer.Typer()"]
    for name, module in COMMANDS.items():
        command = with_options(import_module(f"pipesched.cli.{module}").command)
        parameters = inspect.signature(command).parameters.values()
        positional = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        flags = [p.name for p in parameters if "bool" in str(p.annotation)]
        texts = [p.name for p in parameters if p.name not in flags and p.name not in positional]
        arguments = [f"{arg}: Optional[str] = typer.Argument(None)" for arg in positional]
        arguments += [f"{flag}: bool = False" for flag in flags]
        arguments += [f"{text}: Optional[str] = typer.Option(None)" for text in texts]
        lines += [f"@app.command({name!r})", f"def _{module}({', '.join(arguments)}): pass"]
    return "\n".join([*lines, "app()"])


def best(*command: str) -> float:
    """Return the least seconds of a few runs of a Python process."""
    call = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL, env=AS_INSTALLED)
    return least_seconds(lambda: call([sys.executable, *command]), REPEATS)


def main() -> int:
    """Print the table; 1 when a ratio is over its limit."""
    with tempfile.TemporaryDirectory() as folder:
        app = Path(folder) / "app.py"
        app.write_text(no_op_app(), encoding="utf-8")
        yardsticks = {"imports": best("-c", IMPORTS), "no-op app": best(str(app), "run")}
    ours = best("-m", "pipesched", "run")
    print(f"pipesched run: {ours * 1000:.0f} ms (best of {REPEATS})")
    for name, seconds in yardsticks.items():
        print(f"{name:>10}: {seconds * 1000:>4.0f} ms, ratio {ours / seconds:.2f} (at most {LIMITS[name]})")
    return int(any(ours > LIMITS[name] * seconds for name, seconds in yardsticks.items()))


if __name__ == "__main__":
    raise SystemExit(main())
