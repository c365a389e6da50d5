"""Figures for papers and slides, drawn by matplotlib: SVG, PNG and PDF. `draw` alone loads without it."""
