"""Write docs/reference/command-line.md from the commands themselves; what stands above the first of them stays.

python scripts/cli_reference.py            # exit code 1 when the page is out of date
python scripts/cli_reference.py --write
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipesched.cli.app import COMMANDS, command_of

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "command-line.md"


SHARED = "Options that commands share"  # an option of several commands stands there once
OTHERS = "Others"  # options that stand in no panel


def page() -> str:
    """Return the whole page."""
    head = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    commands = {name: command_of(name) for name in COMMANDS}
    shared = shared_panels(commands.values())
    sections = [shared_section(shared), *(section(name, one, shared) for name, one in commands.items())]
    return "\n".join([head.rstrip("\n") + "\n", *sections])


def panels_of(command: Any) -> dict[str, dict[str, str]]:
    """Return the options of a command by their panel: what each does, by how it is typed."""
    panels: dict[str, dict[str, str]] = {}
    shown = [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]
    on_gpus = any("--gpus" in option.opts for option in shown)
    for option in shown:
        panel = getattr(option, "rich_help_panel", None) or OTHERS
        panel = "A model on GPUs" if panel == "The problem" and on_gpus else panel
        panels.setdefault(panel, {})[spelling(option)] = cell(option.help)
    return panels


def shared_panels(commands: Iterable[Any]) -> dict[str, dict[str, str]]:
    """Return the options that several commands have, by panel: of each the text that most of them have."""
    texts: dict[str, dict[str, Counter[str]]] = {}
    for panels in map(panels_of, commands):
        for panel, options in panels.items():
            for option, text in options.items():
                texts.setdefault(panel, {}).setdefault(option, Counter())[text] += 1
    shared: dict[str, dict[str, str]] = {}
    for panel, counted in sorted(texts.items(), key=lambda item: item[0] == OTHERS):
        common = {option: said.most_common(1)[0] for option, said in counted.items()}
        shared[panel] = {option: text for option, (text, takers) in common.items() if takers > 1}
    return {panel: options for panel, options in shared.items() if options}


def shared_section(shared: dict[str, dict[str, str]]) -> str:
    """Return the tables of options that several commands have."""
    lines = [f"## {SHARED}", ""]
    for panel, options in shared.items():
        lines += [f"### {panel}", ""]
        if panel == "The problem":
            lines += ["Keys of [the config](config.md), by the same names: " + listed(options) + ".", ""]
        else:
            lines += [*table("option", options), ""]
    return "\n".join(lines)


def section(name: str, command: Any, shared: dict[str, dict[str, str]]) -> str:
    """Return what there is to know of one command; of what is shared the names alone."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(["pipesched", name, *map(written, arguments)])
    lines = [f"## {name}", "", "```text", f"{usage} [OPTIONS]", "```", "", inspect.cleandoc(command.help), ""]
    lines += [*table("argument", {p.metavar: cell(p.help) for p in arguments}), ""] if arguments else []
    own: dict[str, str] = {}
    taken: dict[str, list[str]] = {}
    for panel, options in panels_of(command).items():
        for option, text in options.items():
            where = next((one for one in (panel, *shared) if shared.get(one, {}).get(option) == text), None)
            if where is None:
                own[option] = text
            else:
                taken.setdefault(where, []).append(option)
    said = []
    for panel, names in taken.items():
        missing = [option for option in shared[panel] if option not in names]
        whole = f"[{panel}](#{panel.lower().replace(' ', '-')})" + (f" but {listed(missing)}" if missing else "")
        said.append(whole if len(missing) < len(names) and panel != OTHERS else listed(names))
    lines += [*table("option", own), ""] if own else []
    lines += [f"Shared: {'; '.join(said)}.", ""] if said else []
    return "\n".join(lines)


def table(kind: str, rows: dict[str, str]) -> list[str]:
    """Return the lines of a table of what is typed, and what it does."""
    return [f"| {kind} | |", "| --- | --- |", *(f"| `{typed}` | {text} |" for typed, text in rows.items())]


def listed(options: Iterable[str]) -> str:
    """Return options in a line."""
    return ", ".join(f"`{option}`" for option in options)


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
