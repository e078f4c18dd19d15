"""Networks and signal processing that know nothing of systems, files, devices or seeds."""
