"""Choosing targets and frames by similarity."""
