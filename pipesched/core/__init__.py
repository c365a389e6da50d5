"""Tasks and resources: timing, list scheduling, bounds, check, CP-SAT; no pipelines."""
