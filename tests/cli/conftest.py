"""Runs the command in this process."""

import pytest
import signals
import soundfile

from voiceanon import cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs ``voiceanon`` with arguments; gives exit status, stdout and stderr."""

    def start(*arguments):
        monkeypatch.setattr("sys.argv", ["voiceanon", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return start


@pytest.fixture
def corpus(tmp_path):
    """A folder with three files."""
    folder = tmp_path / "in"
    for index, name in enumerate(("ann/a1.wav", "ann/a2.flac", "ben/b1.wav")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, signals.speech(0.3, seed=index).numpy(), signals.RATE)
    return folder


@pytest.fixture
def recording(corpus):
    return corpus / "ann" / "a1.wav"
