"""Speech recognition, and the guards around it."""
