"""Evaluation: how private and how useful anonymized speech is.

`voiceanon.eval.metrics` holds the metrics as plain functions on arrays.
"""
