"""Numbers of more digits than count: one note that names the first, and what they count as."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import pipesched
from pipesched.config.load import load_config
from pipesched.config.values import Source

LONG = Decimal("0.12345678951")
SETUP = {"model": "llama-3-8b", "parallel": {"gpus": 8, "pipeline": 4}, "batch": {"sequence": 4096, "global": 32}}


def note(text: str, **overrides: object) -> str | None:
    """What is said of a config with overrides."""
    return load_config(Source(text, "c.yaml"), overrides).rounded


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        ("devices: 2", {}, None),
        ("devices: 2", {"forward": 0.123456789, "activation": "1/3"}, None),
        ("devices: 2\ncosts: {forward: 0.12345678951}", {},
         "c.yaml:2: costs.forward: more than 9 digits, rounded to 0.12345679"),
        ("devices: 2\nmemory: {retain: [1, 0.1234567885]}", {"p2p": LONG},
         "c.yaml:2: memory.retain[1]: more than 9 digits, rounded to 0.123456789; 1 more number is rounded"),
        ("devices: 2", {"p2p": 0.1 + 0.2, "budget": [LONG, 12345678901], "name": "0.12345678951"},
         "`costs.p2p`: more than 9 digits, rounded to 0.3; 2 more numbers are rounded"),
        ("devices: 2\nlayers: 4\nlayer:\n  forward: 1\n  static: 12345.678951", {},
         "c.yaml:5: layer.static: more than 9 digits, rounded to 12345.679"),
        ("devices: 2\ntime_unit: ms\ncosts: {forward: 1.234567891234us}", {},
         "c.yaml:3: costs.forward: more than 9 digits, rounded to 1.23456789"),
        ("devices: 2\nalgorithm:\n  block:\n    period: 6.123456789012\n    forward: [0, 1]\n    backward: [4, 2]", {},
         "c.yaml:4: algorithm.block.period: more than 9 digits, rounded to 6.12345679"),
        ("devices: 2\nalgorithm: {list: {seed: 12345678901}}", {}, None),
    ],
)  # fmt: skip
def test_note(text: str, overrides: dict[str, object], said: str | None) -> None:
    """The note names the first place, a file's by its line, and how many more there are; whole numbers stay whole."""
    assert note(text, **overrides) == said


def test_rounding_in_a_setup(tmp_path: Path) -> None:
    """Numbers of GPUs and shares are rounded too, also in a file of shares; all else is of what they count as."""
    profile = tmp_path / "shares.yaml"
    profile.write_text("core: 0.25\nkernel: 8.12345678951\n")
    overrides = {
        **SETUP,
        "hardware": {"preset": "h100-sxm", "bandwidth": Decimal("3000.12345678")},
        "training": {"efficiency": str(profile)},
    }
    found = load_config(None, overrides)
    assert found.rounded is not None
    assert found.rounded.startswith("`hardware.bandwidth`: more than 9 digits, rounded to 3000.12346; 1 more number")
    assert found.setup is not None
    assert (found.setup.hardware.bandwidth, found.setup.hardware.efficiency.kernel) == (3000.12346, 8.12345679)
    with pytest.raises(pipesched.ConfigError, match=r"hardware\.bandwidth: 1E-10 is too small: at least 1e-9, or 0"):
        load_config(None, {**overrides, "hardware": {"preset": "h100-sxm", "bandwidth": Decimal("1e-10")}})


def test_python_rounds_silently(capfd: pytest.CaptureFixture[str]) -> None:
    """0.1 + 0.2 is 0.3, and nothing is said."""
    problem = pipesched.make_problem(devices=2, forward=0.1 + 0.2, budget=[LONG, 12345678901])
    assert problem.costs.forward == (0.3, 0.3)
    assert problem.memory.budget == (0.12345679, 12345678900)
    assert capfd.readouterr() == ("", "")
