"""What comes back: outcomes, comparisons, sweeps, frontiers; `run`, which makes an outcome; trainers, which take one."""
