"""What comes back: outcomes, comparisons, sweeps, frontiers; `run`, which makes outcomes; trainers, which take them."""
