"""PSPLIB's projects by the core's CP-SAT, to their published optima."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from pipesched.core.cpsat import Limits

ROOT = Path(__file__).parents[2]
PSPLIB = ROOT / "tests" / "data" / "psplib"
QUICK = ("j3012_7", "j3017_6", "j301_1", "j3028_6", "j3033_4", "j3044_1", "j309_1", "j601_1", "j6022_5", "j6034_1")


def _bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_rcpsp", ROOT / "scripts" / "bench_rcpsp.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCH = _bench()


@pytest.mark.parametrize("name", QUICK)
def test_projects_to_their_known_optima(name: str) -> None:
    """The instances that are proved in a moment; scripts/bench_rcpsp.py takes all of them."""
    project = BENCH.read_project(PSPLIB / f"{name}.sm")
    answer = BENCH.solve_project(project, Limits(seconds=60))
    assert (answer.status, answer.objective) == ("optimal", BENCH.read_optima(PSPLIB)[name])
    users = [[job for job in range(len(project.durations)) if project.requests[job][r]] for r in range(4)]
    for tick in range(answer.objective):
        for resource, jobs in enumerate(users):
            running = [job for job in jobs if answer.starts[job] <= tick < answer.starts[job] + project.durations[job]]
            assert sum(project.requests[job][resource] for job in running) <= project.capacities[resource]
    for before, after in project.precedences:
        assert answer.starts[before] + project.durations[before] <= answer.starts[after]
