"""Features of waveforms that several networks take in, and what prepares waveforms for them."""
