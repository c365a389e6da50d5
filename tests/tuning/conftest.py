"""Searches run on the Dask cluster of the tests of executors too."""

from tests.executors.conftest import cluster, dask

__all__ = ["cluster", "dask"]
