"""From features to waveforms."""
