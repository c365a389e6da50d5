"""Write docs/reference/command-line.md from the commands themselves; what stands above the first of them stays.

python scripts/cli_reference.py            # exit code 1 when the page is out of date
python scripts/cli_reference.py --write
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from pipesched.cli.app import COMMANDS, command_of

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "command-line.md"


def page() -> str:
    """Return the whole page."""
    head = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    return "\n".join([head.rstrip("\n") + "\n", *(section(name, command_of(name)) for name in COMMANDS)])


def section(name: str, command: Any) -> str:
    """Return what there is to know of one command."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]
    usage = " ".join(["pipesched", name, *map(written, arguments)])
    lines = [f"## {name}", "", "```text", f"{usage} [OPTIONS]", "```", "", inspect.cleandoc(command.help), ""]
    lines += ["| argument | |", "| --- | --- |"] if arguments else []
    lines += [f"| `{p.metavar}` | {cell(p.help)} |" for p in arguments]
    lines += [""] if arguments else []
    panels: dict[str, list[Any]] = {}
    for option in options:
        panels.setdefault(getattr(option, "rich_help_panel", None) or "Options", []).append(option)
    for panel, together in panels.items():
        if panel == "The problem" and len(together) > 1:
            lines += [f"**{panel}**: " + ", ".join(f"`{spelling(o)}`" for o in together) + ".", ""]
            continue
        lines += [f"| {panel.lower()} | |", "| --- | --- |"]
        lines += [f"| `{spelling(option)}` | {cell(option.help)} |" for option in together]
        lines += [""]
    return "\n".join(lines)


def spelling(option: Any) -> str:
    """Return an option as it is typed: `-o, --output FILE`."""
    names = ", ".join(sorted(option.opts, key=len))
    off = f" / {option.secondary_opts[0]}" if option.secondary_opts else ""
    return f"{names}{off} {option.metavar or ''}".strip()


def written(argument: Any) -> str:
    """Return an argument as it stands in a usage: `[NAME]...` where it may be left out, and repeated."""
    text = argument.metavar if argument.required else f"[{argument.metavar}]"
    return f"{text}..." if argument.nargs == -1 else text


def cell(text: str | None) -> str:
    """Return a text that can stand in a table."""
    return " ".join((text or "").replace("|", "\\|").split())


def main() -> int:
    """Compare the page, or write it."""
    new = page()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(new, encoding="utf-8", newline="\n")
        return 0
    stale = PAGE.read_text(encoding="utf-8") != new
    print(f"{PAGE} is {'out of date: run scripts/cli_reference.py --write' if stale else 'up to date'}")
    return int(stale)


if __name__ == "__main__":
    raise SystemExit(main())
