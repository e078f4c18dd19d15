"""wav 2 vec 2.0 encoders as SpeechBrain wraps them, and its text files of labels.

Sources: specification sheet of the evaluation, sections 3.4 and 3.5; SpeechBrain 0.5.16,
`lobes/models/huggingface_wav2vec.py` and `dataio/encoder.py`. The network is that of Transformers.

The wrapper normalises whole rows of a batch, padding included, and all frames of a row together, so
that what it gives for a recording depends on the rows beside it. Published numbers were made so.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.errors import WeightsError
from voiceanon.hub.read import read

LARGE_LV60 = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "feat_extract_norm": "layer",
    "conv_bias": True,
    "do_stable_layer_norm": True,
}
"""Settings of ``facebook/wav2vec2-large-960h-lv60-self`` that differ from those of Transformers."""

BASE: dict[str, Any] = {}
"""Settings of ``facebook/wav2vec2-base``: those of Transformers."""

SETTINGS_FILE = "config.json"
"""Published settings of the encoder, where they lie beside its weights."""

ENCODER_RENAMES = (
    (r"^model\.", ""),
    (r"conv\.weight_g$", "conv.parametrizations.weight.original0"),
    (r"conv\.weight_v$", "conv.parametrizations.weight.original1"),
)
"""From the entries of ``wav2vec2.ckpt`` to those of Transformers: the wrapper's prefix, and the old
spelling of the weight norm."""

MIN_SAMPLES = 400
"""The convolutions need this much for one frame."""

_LINE = " => "


class Encoder(nn.Module):
    """The encoder between its two normalisations."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Builds the network with untrained weights.

        Args:
            settings: Arguments of `transformers.Wav2Vec2Config`.
        """
        super().__init__()
        from transformers import Wav2Vec2Config, Wav2Vec2Model

        self.model = Wav2Vec2Model(Wav2Vec2Config(**dict(settings)))
        self.width = int(self.model.config.hidden_size)

    def forward(self, wav: Tensor, lengths: Tensor) -> Tensor:
        """Encodes a batch.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, zeros in the padding.
            lengths: Samples of each recording, int64 ``(B,)``, at least `MIN_SAMPLES`.

        Returns:
            float32 ``(B, N, D)``. A row depends on T, and so on the other rows.
        """
        rows = F.layer_norm(wav, wav.shape[1:])
        inside = torch.arange(wav.shape[1], device=wav.device) < lengths[:, None]
        hidden: Tensor = self.model(rows, attention_mask=inside.long()).last_hidden_state
        return F.layer_norm(hidden, hidden.shape[1:])


def read_settings(encoder: Path, official: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from the `SETTINGS_FILE` beside an encoder's weights, or the official ones.

    Args:
        encoder: The file of the weights.
        official: Settings to take where there is no such file.
    """
    path = encoder.with_name(SETTINGS_FILE)
    return cast(dict[str, Any], read(path)) if path.is_file() else dict(official)


def read_labels(path: Path) -> tuple[str, ...]:
    """Reads the text file in which SpeechBrain keeps labels, such as ``'A' => 5`` a line.

    Args:
        path: ``tokenizer.ckpt`` or ``label_encoder.txt``.

    Returns:
        Labels in the order of their numbers.

    Raises:
        WeightsError: The file is of another kind, or numbers are missing.
    """
    numbers: dict[int, str] = {}
    try:
        for line in path.read_text("utf-8").splitlines():
            left, arrow, right = line.rpartition(_LINE)
            # Settings follow the labels: the separator of the two has no arrow.
            if not arrow:
                break
            numbers[int(right)] = str(ast.literal_eval(left))
    except (OSError, ValueError, SyntaxError) as error:
        raise WeightsError(
            f"{path}: cannot be read as labels ({error}); lines such as \"'A' => 5\" are due. Take "
            "the published file."
        ) from error
    if sorted(numbers) != list(range(len(numbers))) or not numbers:
        raise WeightsError(
            f"{path}: the numbers of its labels are {sorted(numbers)}; 0, 1, 2 and so on are due. "
            "Take the published file."
        )
    return tuple(numbers[i] for i in range(len(numbers)))
