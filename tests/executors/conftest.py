"""One Dask cluster for all tests: two processes that only this machine can reach."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest


def started_cluster() -> Any:
    """A cluster of two processes of one thread, without a dashboard."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Dask's own
        return distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
        )


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster for all tests."""
    with started_cluster() as made:
        yield made


@pytest.fixture
def dask(cluster: Any) -> str:
    """The text that names the cluster's executor, once all its workers are there."""
    cluster.scheduler_info  # noqa: B018  the first look at a cluster waits for it
    return str(cluster.scheduler_address).replace("tcp://", "dask://")
