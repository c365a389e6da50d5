"""Fits how much of a GPU's peak products in few bits reach to published steps, and stores it in the presets.

    python scripts/fit_precision.py           # prints shares, with each source left out too; a minute
    python scripts/fit_precision.py --write   # and writes them into pipesched/estimation/presets/hardware

To be run after scripts/fit_hardware.py, whose shares stay. One number for each peak (`fp8`, `mxfp8`, `nvfp4`) of
Hopper, of B200 and GB200, and of B300 and GB300: robust least squares on the logarithm of steps, and of their ratio to
the same setup in bf16 where that is published. Other GPUs take the numbers of their nearest relative.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import pipesched.estimation
from pipesched.estimation.hardware_reader import preset_hardware
from published_precision import BLACKWELL, GROUPS, HOPPER, START, all_times, fitted_shares

PRESETS = Path(pipesched.estimation.__file__).parent / "presets" / "hardware"
LOW = re.compile(r"^(# In few bits.*|  (fp8|mxfp8|nvfp4): .*)$")
NOTE = "# In few bits fitted by scripts/fit_precision.py on published steps of"


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and print; write the presets if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the presets")
    given, rows = parser.parse_args(arguments), all_times()
    found = fitted_shares(rows)
    sources = list(dict.fromkeys(row.low.source for row in rows))
    without = {name: fitted_shares([row for row in rows if row.low.source != name]) for name in sources}
    for (group, peak), share in found.items():
        mine = [row for row in rows if row.low.kind == (group, peak)]
        print(f"{', '.join(group):<18} {peak:<6} {share:.3f} on {len(mine)} steps")
        for name in dict.fromkeys(row.low.source for row in mine):
            print(f"  without {name:<16} {without[name][group, peak]:.3f}")
    for path in sorted(PRESETS.glob("*.yaml")) if given.write else ():
        hardware = preset_hardware(path.stem)
        own = next((group for group in GROUPS if path.stem in group), HOPPER)
        pairs = [(own if (own, peak) in found else BLACKWELL, peak) for peak in START if getattr(hardware, peak)]
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not LOW.match(line)]
        if pairs:
            gpus = dict.fromkeys(name for group, _ in pairs for name in group)
            lines += [
                f"{NOTE} {', '.join(gpus)}",
                *(f"  {peak}: {found[pair]:g}" for pair in pairs for peak in pair[1:]),
            ]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return 0


def low_lines(text: str) -> list[str]:
    """Return the lines of a preset that this script writes."""
    return [line for line in text.splitlines() if LOW.match(line)]


if __name__ == "__main__":
    raise SystemExit(main())
