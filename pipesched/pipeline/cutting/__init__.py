"""Cutting a list of items that differ into stages: the least largest work of a device, within memory."""
