"""What `pipesched list` prints: tables of algorithms, presets and keys, and `catalogue_details`, paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Column, Table
from rich.text import Text

from pipesched.pipeline.problem.shapes import Field
from pipesched.render.grid import GAP, fitting, folded, grid, right, uncut, width_of, without_room
from pipesched.render.scene import Spelling, as_parameters
from pipesched.schedulers.family import SIMULATED, Family
from pipesched.schedulers.options import COMMON
from pipesched.schedulers.registry import aliases

WIDE = 140  # columns from which bubble and memory stand in columns of their own
APPLIES = "yes"
IDLE = " idle"  # in a formula of time
PEAK = "peak memory in microbatches"
LONGEST = len("naive (gpipe, afab, fill-drain)")  # of the names that never wrap; longer ones do, beyond a third
NARROW = 60  # columns from which anything but the names is shown


class CatalogueTable:
    """A line for each family: name, aliases, placement, and the formulas of bubble and memory.

    `refusals` say of each family why it does not suit a problem (empty: it does), and replace the formulas. Nothing is
    cut: formulas wrap, and very long names.
    """

    def __init__(self, families: Iterable[Family], refusals: Mapping[str, str] | None = None) -> None:
        self.families, self.refusals = list(families), refusals

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, families = options.max_width, self.families
        names = {"algorithm": [Text(family.name, style="bold") for family in families]}
        if width >= NARROW:
            names = {"algorithm": [*map(_title, families)], "placement": [Text(one.placement) for one in families]}
        most = max(width // 3, LONGEST)
        longest = [min(max(cell.cell_len for cell in (Text(key), *cells)), most) for key, cells in names.items()]
        columns = [folded(heading, width=min(least, width)) for heading, least in zip(names, longest, strict=True)]
        bubbles = [(one.bubble == SIMULATED and one.summary) or one.bubble for one in self.families]
        formulas = {}
        if self.refusals is not None:
            formulas = {"applies": [self.refusals[family.name] or APPLIES for family in self.families]}
        elif width >= WIDE:
            formulas["bubble"] = ["" if IDLE in one else one for one in bubbles]
            formulas["idle time"] = [one.replace(IDLE, "") if IDLE in one else "" for one in bubbles]
            formulas[PEAK] = [family.memory for family in self.families]
        elif width >= NARROW:
            both = zip(bubbles, self.families, strict=True)
            texts = [bubble if one.summary else f"{one.bubble}; {one.memory}" for bubble, one in both]
            formulas = {f"bubble, or idle time; {PEAK}": texts}
        left = width - sum(longest) - GAP * (len(longest) + len(formulas) - 1)
        share = left // len(formulas) if self.refusals is None and formulas else None
        columns += [folded(heading, width=share) for heading in formulas]
        yield grid(*columns, rows=zip(*names.values(), *formulas.values(), strict=True))


def keys_table(fields: Iterable[Field]) -> Table:
    """Return a line for each key of a config: what its value may be, and what it means."""
    rows = ((Text(one.key, style="bold"), Text(one.shape.form), Text(one.help)) for one in fields)
    return grid(uncut("key"), folded("value"), folded("meaning"), rows=rows)


def catalogue_details(families: Iterable[Family], spell: Spelling = as_parameters) -> Group:
    """Return a paragraph for each family, with all that there is to know before using it, and what all have."""
    *first, last = (spell(f"`{option}`") for option in COMMON)
    common = f"\nmemory is in microbatches of a device; every family also takes {', '.join(first)} and {last}"
    return Group(*(_paragraph(family, spell) for family in families), Text(common, style="dim"))


def catalogue_rows(families: Iterable[Family], refusals: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield an object for each family, for JSON."""
    for family in families:
        refusal = None if refusals is None else refusals[family.name]
        yield {
            "name": family.name,
            "aliases": aliases(family.name),
            **{key: getattr(family, key) for key in ("placement", "stages", "needs", "bubble", "memory")},
            "options": list(family.options),
            "elsewhere": family.elsewhere,
            "source": family.paper,
            **({"origin": family.origin, "summary": family.summary, "title": family.title} if family.origin else {}),
            **({} if refusal is None else {"applies": not refusal, "reason": refusal or APPLIES}),
        }


def _title(family: Family) -> Text:
    """Return the name of a family, and its other names; of a user's where it stands."""
    others = [Path(family.origin).name] if family.origin else aliases(family.name)
    title = Text(family.name, style="bold")
    return title.append(f" ({', '.join(others)})", style="not bold") if others else title


def _paragraph(family: Family, spell: Spelling) -> Table:
    options = ", ".join(one if family.origin or family.required else spell(f"`{one}`") for one in family.options)
    if family.required:
        options += f" ({' and '.join(family.required)} must be given)"
    rows = [
        *[("title", family.title)] * bool(family.title),
        *[("order", family.summary)] * bool(family.summary),
        ("needs", family.needs),
        ("placement", family.placement),
        ("bubble", family.bubble),
        ("memory", family.memory),
        ("options", options or "none"),
        ("also in", family.elsewhere),
        ("source", family.paper),
        *[("from", family.origin)] * bool(family.origin),
    ]
    table = grid(Column(style="dim", min_width=9), folded(), rows=rows, header=False)
    table.title, table.title_style, table.title_justify = _title(family), "", "left"
    return table


Row = Mapping[str, Any]
LEAST = 40  # columns of a source; with fewer there is none


class PresetTable:
    """A line for each preset: its name, its numbers as far as there is room, and its source, beside them or below."""

    def __init__(self, rows: Iterable[Row], kind: str) -> None:
        self.kind = kind
        self.lines = [(_model if kind == "model" else _hardware)(row) for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        name, *numbers, source = ((key, width_of(key, (line[key] for line in self.lines))) for key in self.lines[0])
        widths = [width for _, width in numbers] + [min(LEAST, source[1])]
        keys = [key for key, _ in (*numbers, source)][: fitting(widths, options.max_width - name[1])]
        yield self._table([self.kind, *keys])
        yield from without_room((key for key, _ in numbers), keys)
        if "source" not in keys:
            yield Text()
            yield self._table([self.kind, "source"])

    def _table(self, keys: Sequence[str]) -> Table:
        looks = {key: uncut if key in (self.kind, "more", "fitted on") else right for key in keys} | {"source": folded}
        rows = ((Text(line[key], style="bold" if key == self.kind else "") for key in keys) for line in self.lines)
        return grid(*(looks[key](key) for key in keys), rows=rows)


def _model(row: Row) -> dict[str, str]:
    total, active, heads, kv_heads = (row[key] for key in ("parameters", "active_parameters", "heads", "kv_heads"))
    more = [f"{one['active']} of {one['count']} experts of {one['width']}" for one in [row["experts"]] if one]
    more += ["latent attention"] * bool(row["latent"])
    return {
        "model": row["name"],
        "parameters": f"{total / 1e9:.4g} B" + (f" ({active / 1e9:.4g} B active)" if active < total else ""),
        "layers": str(row["layers"]),
        "hidden": str(row["hidden"]),
        "heads": str(heads) if row["latent"] or heads == kv_heads else f"{heads}/{kv_heads}",
        "ffn": str(row["ffn"]),
        "words": str(row["vocabulary"]),
        "more": ", ".join(more),
        "source": row["source"],
    }


NUMBERS = {"TFLOP/s": "tflops", "fp8": "fp8", "nvfp4": "nvfp4", "GB": "memory", "GB/s": "bandwidth", "NVLink": "nvlink"}
NUMBERS |= {"PCIe": "pcie", "NIC": "nic"}


def _hardware(row: Row) -> dict[str, str]:
    return {
        "hardware": row["name"],
        **{title: "-" if row[key] is None else f"{float(row[key]):g}" for title, key in NUMBERS.items()},
        "a node": str(row["gpus_per_node"]),
        "fitted on": row["fitted_on"] or "-",
        "source": row["source"],
    }
