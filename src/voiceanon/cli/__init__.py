"""The command ``voiceanon``."""

from voiceanon.cli.app import app, main

__all__ = ["app", "main"]
