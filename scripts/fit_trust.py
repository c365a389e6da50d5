"""Fits the model of residuals of published runs, and stores it with the runs that it rests on.

    python scripts/fit_trust.py           # prints spreads, widths, and how far each run is off without its source
    python scripts/fit_trust.py --write   # and writes pipesched/estimation/trust/evidence.json and low_precision.json

Runs in 8 and 4 bits have a model of their own, of them and of those in 16 bits that were published beside them. To be
run after scripts/fit_hardware.py and scripts/fit_precision.py, whose shares the estimates take.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pipesched.estimation.trust
from pipesched.estimation.trust.evidence import FILE, LOW_FILE, PublishedRun
from pipesched.estimation.trust.facts import SHARES
from published_memory import Peak, peaks
from trust_evidence import evidence_rows, low_evidence_rows, peak_ratios, quantile
from trust_fit import Fitted, fit, model_of

TARGET, LOW_TARGET = (Path(pipesched.estimation.trust.__file__).parent / name for name in (FILE, LOW_FILE))
QUANTILES = {"low": 0.1, "expected": 0.5, "high": 0.9}
DIGITS = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and print; write the file if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the evidence of the package")
    given = parser.parse_args(arguments)
    for rows, target in ((evidence_rows, TARGET), (low_evidence_rows, LOW_TARGET)):
        found = fit([rounded(row) for row in rows()])
        report(found)
        if given.write:
            text = (
                text_of(document(found))
                if target == TARGET
                else json.dumps(document(found), separators=(",", ":")) + "\n"
            )
            target.write_text(text, encoding="utf-8")
    return 0


def rounded(row: PublishedRun) -> PublishedRun:
    """Return a row with numbers as the file has them, from which the same fit follows."""
    weights = tuple(_short(weight) for weight in row.compared.weights)
    return row._replace(
        published=_short(row.published),
        estimated=_short(row.estimated),
        compared=replace(row.compared, weights=weights),
    )


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}") if abs(value) > 1e-6 else 0.0


def document(found: Fitted) -> dict[str, Any]:
    """Return the content of the file."""
    ratios = peak_ratios([peak for peak in peaks() if isinstance(peak, Peak)])
    spreads = {name: _short(value) for name, value in found.model.spreads.items()}
    model = model_of(found.rows, spreads)
    return {
        "spreads": spreads,
        "factors": {kind: _short(value) for kind, value in found.model.factors.items()},
        "memory": {name: _short(quantile(ratios, share)) for name, share in QUANTILES.items()},
        "aside": [row.run for row in found.aside],
        "runs": [_entry(row) for row in found.rows],
        "inverse": [[float(f"{value:.10g}") for value in row[: i + 1]] for i, row in enumerate(model.inverse)],
    }


def _entry(row: PublishedRun) -> dict[str, Any]:
    compared = row.compared
    return {
        "run": row.run,
        "source": compared.source,
        "version": compared.version,
        "url": row.url,
        "title": row.title,
        "facts": compared.facts._asdict(),
        "weights": {share: weight for share, weight in zip(SHARES, compared.weights, strict=True) if weight},
        "global": row.size,
        "published": row.published,
        "estimated": row.estimated,
    }


def text_of(content: dict[str, Any]) -> str:
    """Return the text of the file: a line for each run, and for each row of the matrix."""
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            lines = ",\n  ".join(json.dumps(one, separators=(",", ":")) for one in value)
            parts.append(f'"{key}": [\n  {lines}\n ]')
        else:
            parts.append(f'"{key}": {json.dumps(value)}')
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def report(found: Fitted) -> None:
    """Print the spreads, the widths, and how far each run is off without its source."""
    for name, value in found.model.spreads.items():
        print(f"  {name:<24} {value:.4f}")
    print(f"  widths: {', '.join(f'{kind} {factor:.3f}' for kind, factor in found.model.factors.items())}")
    for row in (*found.rows, *found.aside):
        score = found.scores.get(row.run)
        off = "set aside" if score is None else f"{score:+.2f}"
        print(f"  {row.run:<60} {row.compared.version:<18} {row.residual:+.4f} {off}")


if __name__ == "__main__":
    raise SystemExit(main())
