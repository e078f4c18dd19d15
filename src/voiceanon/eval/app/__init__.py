"""The command ``voiceanon-eval``: finds the data, measures, writes results and a report."""
