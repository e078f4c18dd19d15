"""``python -m voiceanon.cli``: the command ``voiceanon``."""

from voiceanon.cli.app import main

if __name__ == "__main__":
    main()
