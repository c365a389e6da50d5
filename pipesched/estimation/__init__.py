"""A model, GPUs and a layout become a Problem: times, bytes and cuts."""
