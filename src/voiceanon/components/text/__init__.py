"""Between a recogniser and a synthesiser: words that can be spoken, and their sounds."""
