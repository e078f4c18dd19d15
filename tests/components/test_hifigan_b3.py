"""B3's vocoder, 16 kHz mel to 48 kHz: golden values by stage, and a padded batch."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.vocoder.hifigan import B3_RENAMES, HiFiGan
from voiceanon.components.weight_norm import fold_entries
from voiceanon.hub.convert import load_strict
from voiceanon.systems.gan_fastspeech2_config import OFFICIAL_VOCODER

FOLDER = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def vocoder():
    shapes = json.loads((FOLDER / "entries_hifigan_best.json").read_text())
    model = HiFiGan(OFFICIAL_VOCODER).eval()
    state = seeded_state_dict({name: tuple(shape) for name, shape in shapes.items()})
    load_strict(model, state, file=Path("best.pt"), renames=B3_RENAMES, fold=fold_entries)
    return model


def test_every_stage(vocoder):
    golden = np.load(FOLDER / "hifigan.npz")
    outputs = {}
    handles = [
        module.register_forward_hook(
            lambda module, inputs, output, name=name: outputs.update({name: output.clone()})
        )
        for name, module in vocoder.named_modules()
        if name.startswith(("ups.", "resblocks."))
    ]
    mel = torch.from_numpy(golden["mel"])
    wav, lengths = vocoder(mel[None], torch.tensor([24]))
    for handle in handles:
        handle.remove()
    for stage in range(4):
        stored = golden[f"up{stage}"]
        found = outputs[f"ups.{stage}"][0, : stored.shape[0], : stored.shape[1]]
        np.testing.assert_allclose(found.numpy(), stored, rtol=0, atol=TOLERANCE)
    mean = sum(outputs[f"resblocks.{block}"][0] for block in (9, 10, 11)) / 3
    np.testing.assert_allclose(
        mean[:2, :512].numpy(), golden["before_output"], rtol=0, atol=TOLERANCE
    )
    np.testing.assert_allclose(wav[0].numpy(), golden["wave"], rtol=0, atol=TOLERANCE)
    assert lengths.tolist() == [24 * 768]


def test_a_padded_batch_equals_single_runs(vocoder):
    mel = torch.from_numpy(np.load(FOLDER / "hifigan.npz")["mel"])
    lengths = torch.tensor([9, 24, 1])
    batch = torch.stack([mel, mel.flip(0), mel.roll(5, 0)])
    for row, length in enumerate(lengths.tolist()):
        batch[row, length:] = float("nan")
    found, counts = vocoder(batch, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, _ = vocoder(batch[row : row + 1, :length], lengths[row : row + 1])
        assert int(counts[row]) == 768 * length
        assert float((found[row, : 768 * length] - alone[0]).abs().max()) <= 1e-6
