"""Files and folders: lists, Kaldi folders, reports, resuming, worker processes, target pools.

::

    from voiceanon import load
    from voiceanon.corpus import anonymize_folder

    result = anonymize_folder(load("b2"), "in/", "out/", seed=7)

The command ``voiceanon anonymize`` does the same.
"""

from voiceanon.corpus.challenge import challenge_alphas, challenge_speaker_alpha
from voiceanon.corpus.items import CorpusResult, ItemResult
from voiceanon.corpus.plan import Plan
from voiceanon.corpus.pools import build_pool
from voiceanon.corpus.run import FileFormat, anonymize_folder

__all__ = [
    "CorpusResult",
    "FileFormat",
    "ItemResult",
    "Plan",
    "anonymize_folder",
    "build_pool",
    "challenge_alphas",
    "challenge_speaker_alpha",
]
