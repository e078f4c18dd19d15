"""Settings of `AsrTts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from voiceanon.components.asr.activity import ActivityConfig
from voiceanon.components.asr.guards import GuardConfig
from voiceanon.components.asr.whisper_config import WhisperConfig
from voiceanon.components.asr.whisper_recognizer import WhisperChecks
from voiceanon.components.text.phonemes import NAMES, PhonemizerName
from voiceanon.components.tts.vits_config import VitsConfig
from voiceanon.errors import ConfigError

OnEmpty = Literal["silence", "error"]


@dataclass(frozen=True, kw_only=True)
class AsrTtsConfig:
    """Settings; where T8-1 is published, the defaults are its own.

    Attributes:
        recognizer: Hub repository of a Whisper, or ``"pocketsphinx"``.
        synthesizer: Hub repository of a VITS in transformers' layout, or ``"piper:"`` and the name
            of a Piper voice, such as ``"piper:en_US-libritts-high"``.
        phonemizer: For voices that read phonemes: ``"espeak"``, ``"gruut"``, ``"dictionary"``,
            ``"rules"``, or ``"auto"`` for the first of the first three that is installed.
        speaker: The voice of all utterances; ``None`` draws one per voice of the file, evenly.
        temperatures: At which Whisper writes: 0 is greedy; others follow where a check fails.
        compression_ratio: Largest of a window's tokens.
        log_probability: Least mean natural logarithm of a window's tokens.
        no_speech: Probability above which an unlikely window is taken for silence.
        min_speech_seconds: Least active sound; with less, nothing is recognised.
        activity_floor: Level above which sound may be active, dBFS.
        activity_range: Range below the loudest sound in which it is active, dB.
        max_repeated_share: Share of the words that one phrase may take up ...
        min_repeats: ... if it occurs so often.
        max_words_per_second: Of active sound.
        min_words_per_second: Of active sound, in segments with 2 s of it (ours).
        on_empty: What a recording without words gives: ``"silence"`` of its length, or
            ``"error"``.
        pauses_from_seconds: Recordings longer than this keep their pauses, with those at both ends;
            ``None`` for never, as in T8-1, whose utterances are short (ours).
        least_pause_seconds: Shortest pause that is kept (ours).
        join_seconds: Silence between pieces that are spoken one by one.
        max_characters: Longest piece of text that is spoken at once.
        noise_scale: Of the voice; ``None`` for its own.
        duration_noise_scale: Of the voice; ``None`` for its own.
        speaking_rate: Of the voice; ``None`` for its own.
        whisper: Sizes; ``None`` for what the weights say.
        voice: Sizes; ``None`` for what the weights say.
    """

    recognizer: str = "openai/whisper-medium.en"
    synthesizer: str = "kakao-enterprise/vits-vctk"
    phonemizer: PhonemizerName | Literal["auto"] = "auto"
    speaker: str | None = None
    temperatures: tuple[float, ...] = (0.0,)
    compression_ratio: float = 1.35
    log_probability: float = -1.0
    no_speech: float = 0.6
    min_speech_seconds: float = 0.2
    activity_floor: float = -50.0
    activity_range: float = 40.0
    max_repeated_share: float = 0.5
    min_repeats: int = 4
    max_words_per_second: float = 7.0
    min_words_per_second: float = 0.75
    on_empty: OnEmpty = "silence"
    pauses_from_seconds: float | None = 30.0
    least_pause_seconds: float = 0.5
    join_seconds: float = 0.2
    max_characters: int = 250
    noise_scale: float | None = None
    duration_noise_scale: float | None = None
    speaking_rate: float | None = None
    whisper: WhisperConfig | None = None
    voice: VitsConfig | None = None

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ConfigError: One does not fit.
        """
        for name, word, allowed in (
            ("phonemizer", self.phonemizer, ("auto", *NAMES)),
            ("on_empty", self.on_empty, get_args(OnEmpty)),
        ):
            if word not in allowed:
                raise ConfigError(f"{name}: {word!r} is not one of {', '.join(allowed)}.")
        if not self.temperatures or min(self.temperatures) < 0:
            raise ConfigError(
                f"temperatures: {self.temperatures!r}; at least one is due, none below 0."
            )
        if self.max_characters < 1:
            raise ConfigError(f"max_characters: {self.max_characters}; at least 1 is due.")
        rate = self.speaking_rate
        if rate is not None and rate <= 0:
            raise ConfigError(f"speaking_rate: {rate}; a positive number is due.")

    @property
    def checks(self) -> WhisperChecks:
        """When the words of one of Whisper's windows are thrown away."""
        return WhisperChecks(
            temperatures=self.temperatures,
            compression_ratio=self.compression_ratio,
            log_probability=self.log_probability,
            no_speech=self.no_speech,
        )

    @property
    def guards(self) -> GuardConfig:
        """When words are thrown away, whoever wrote them."""
        return GuardConfig(
            activity=ActivityConfig(floor_dbfs=self.activity_floor, range_db=self.activity_range),
            min_speech_seconds=self.min_speech_seconds,
            max_repeated_share=self.max_repeated_share,
            min_repeats=self.min_repeats,
            max_words_per_second=self.max_words_per_second,
            min_words_per_second=self.min_words_per_second,
        )
