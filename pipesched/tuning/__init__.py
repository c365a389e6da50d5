"""The best layout and schedule of a model on GPUs: every point of a space, exactly within the cost model."""
