"""Networks that tell how a voice sounds: vectors of speakers and of utterances."""
