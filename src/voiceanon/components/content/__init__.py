"""Encoders of what is said: networks that turn a waveform into frames."""
