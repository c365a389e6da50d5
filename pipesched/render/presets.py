"""The tables of the presets: a line for each model, or for each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from pipesched.render.grid import fitting, folded, grid, right, uncut, width_of, without_room

Row = Mapping[str, Any]
LEAST = 40  # columns of a source; with fewer there is none


class PresetTable:
    """A line for each preset: its name, its numbers as far as there is room, and its source, beside them or below."""

    def __init__(self, rows: Iterable[Row], kind: str) -> None:
        self.kind = kind
        self.lines = [_model(row) if kind == "model" else _hardware(row) for row in rows]

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
    experts = row["experts"]
    more = [f"{experts['active']} of {experts['count']} experts of {experts['width']}"] if experts else []
    more += ["latent attention"] if row["latent"] else []
    return {
        "model": row["name"],
        "parameters": _billions(total) + (f" ({_billions(active)} active)" if active < total else ""),
        "layers": str(row["layers"]),
        "hidden": str(row["hidden"]),
        "heads": str(heads) if row["latent"] or heads == kv_heads else f"{heads}/{kv_heads}",
        "ffn": str(row["ffn"]),
        "words": str(row["vocabulary"]),
        "more": ", ".join(more),
        "source": row["source"],
    }


def _billions(count: int) -> str:
    return f"{count / 1e9:.4g} B"


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
