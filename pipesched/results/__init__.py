"""What comes back: outcomes, comparisons, sweeps, frontiers, their status; `run`, which makes an outcome; trainers, which take one."""
