"""What comes back: outcomes, comparisons, sweeps, frontiers, their status; and `run`, which makes an outcome."""
