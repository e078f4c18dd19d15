"""Trimming of reference speech at both ends by voice activity.

Source: specification sheet of kNN-VC, section 5.2.
"""

from __future__ import annotations

from torch import Tensor

TRIGGER_LEVEL = 7.0
"""Activity above which speech begins, in the detector's own unit."""

MIN_SAMPLES = 400
"""Shortest clip that may be left: one frame of the content encoder at 16 kHz."""


def trim_voice(
    wav: Tensor,
    sample_rate: int,
    trigger_level: float = TRIGGER_LEVEL,
    *,
    min_samples: int = MIN_SAMPLES,
) -> Tensor:
    """Cuts what comes before the first and after the last voice activity.

    The detector is `torchaudio.functional.vad`; it looks for the end in the reversed clip, and cuts
    in steps of 50 ms. It is eager: some hundred milliseconds of speech may go as well. Where it
    leaves nearly nothing (silence, steady noise, clips too short for it to wake up), the
    clip is returned as it is.

    Args:
        wav: float32 ``(T,)``, full scale 1.0.
        sample_rate: In Hz.
        trigger_level: Activity above which speech begins.
        min_samples: Fewest samples that may be left.

    Returns:
        float32 ``(T',)`` on the same device; ``wav`` itself where it is not cut.
    """
    # Imported here, since only the making of pools needs it.
    from torchaudio.functional import vad

    # The detector is a loop of small steps, which a GPU would only slow down.
    clip = wav.detach().cpu()
    for _ in range(2):
        if len(clip) < min_samples:
            return wav
        clip = vad(clip, sample_rate, trigger_level=trigger_level).flip(0)
    return wav if len(clip) < min_samples else clip.to(wav.device)
