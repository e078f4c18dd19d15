"""Changes of pitch, energy and durations."""
