"""Figures for papers and slides, drawn by matplotlib: SVG, PNG and PDF. Loaded only when one is asked for."""
