"""Acoustic models: symbols, prosody and a speaker to spectrograms."""
