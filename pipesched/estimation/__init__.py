"""From a model and a GPU to the costs and the memory of a problem."""
