"""The best layout and schedule of a model on GPUs, exact within the cost model."""
