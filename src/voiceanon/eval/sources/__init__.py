"""Where scores come from: models that compare speakers, write down words, or name emotions.

Those of the VoicePrivacy Challenge 2024: `load_asv_eval`, `load_asr_eval`, `load_ser_eval`. Other
published ones: `load_ecapa_voxceleb`, `load_asr_hub`, `load_whisper`. Light ones that need no
download: `Ge2eEmbedder`, `PocketsphinxRecognizer`, `LeaveOneSpeakerOut`.
"""

from voiceanon.eval.sources.asr_eval import load_asr_eval, load_asr_hub
from voiceanon.eval.sources.base import (
    NOT_CHALLENGE,
    EmotionClassifier,
    Recognizer,
    Recording,
    ScoreSource,
    SpeakerEmbedder,
)
from voiceanon.eval.sources.ecapa_embedder import load_asv_eval, load_ecapa_voxceleb
from voiceanon.eval.sources.emotion import LeaveOneSpeakerOut
from voiceanon.eval.sources.pocketsphinx import PocketsphinxRecognizer
from voiceanon.eval.sources.resemblyzer import Ge2eEmbedder
from voiceanon.eval.sources.ser_eval import load_ser_eval
from voiceanon.eval.sources.whisper import load_whisper

__all__ = [
    "NOT_CHALLENGE",
    "EmotionClassifier",
    "Ge2eEmbedder",
    "LeaveOneSpeakerOut",
    "PocketsphinxRecognizer",
    "Recognizer",
    "Recording",
    "ScoreSource",
    "SpeakerEmbedder",
    "load_asr_eval",
    "load_asr_hub",
    "load_asv_eval",
    "load_ecapa_voxceleb",
    "load_ser_eval",
    "load_whisper",
]
