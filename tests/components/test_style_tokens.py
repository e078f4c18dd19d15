"""Style tokens: golden values by stage, the window, batches, published entries."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.random_weights import fill_random
from voiceanon.components.speaker.style_tokens import (
    STYLE_WIDTH,
    WINDOW_FRAMES,
    StyleTokens,
    style_window,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
GST = np.load(GOLDEN / "gst.npz")
LOGMEL = torch.from_numpy(np.load(GOLDEN / "audio.npz")["logmel"])

# Sums of up to 128 x 9 products in another order; running statistics would be off by 1e-3.
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def model():
    entries = json.loads((GOLDEN / "entries_embedding_function.json").read_text())
    floats = {k: s for k, s in entries.items() if not k.endswith("num_batches_tracked")}
    counters = {k: torch.tensor(0) for k in entries if k not in floats}
    network = StyleTokens().eval()
    network.load_state_dict({**seeded_state_dict(floats), **counters}, strict=True)
    return network


def close(result, expected, tolerance=TOLERANCE):
    torch.testing.assert_close(result, torch.as_tensor(expected), rtol=0, atol=tolerance)


def starting_at(start, frames):
    """Fraction in the middle of those that give a start."""
    available = frames if frames >= WINDOW_FRAMES else -(-512 // frames) * frames
    return torch.tensor([(start + 0.5) / (available - WINDOW_FRAMES)])


def window_of(mel, start):
    frames = torch.tensor([len(mel)])
    return style_window(mel[None], frames, starting_at(start, len(mel)))


# Golden values.


def test_window_of_a_short_spectrogram():
    repeated = LOGMEL.repeat(int(GST["repeat"]), 1)
    start = int(GST["window_start"])
    assert torch.equal(window_of(LOGMEL, start)[0], repeated[start : start + WINDOW_FRAMES])


def test_reference_encoder(model):
    window = window_of(LOGMEL, int(GST["window_start"]))
    encoder = model.gst["ref_enc"]
    close(encoder.convs(window[:, None]), GST["convs_train"])
    close(encoder(window), GST["gru_train"])


def test_attention_to_tokens(model):
    state = torch.from_numpy(GST["gru_train"])
    close(model.gst["stl"](state)[0], GST["embedding_train"])


def test_embedding(model):
    result = model(window_of(LOGMEL, int(GST["window_start"])))[0]
    close(result, GST["embedding_train"])
    assert (result - torch.from_numpy(GST["embedding_eval"])).abs().max() > 50 * TOLERANCE


def test_embedding_of_a_long_spectrogram(model):
    mel = LOGMEL.repeat(3, 1)
    close(model(window_of(mel, int(GST["window_start_long"])))[0], GST["embedding_train_long"])


# The window.


@pytest.mark.parametrize("frames", [1, 2, 100, 255, 256, 257, 300, 1000])
def test_window_is_a_stretch_of_the_repeated_spectrogram(frames):
    mel = torch.arange(float(frames))[None, :, None]
    copies = -(-512 // frames) if frames < WINDOW_FRAMES else 1
    repeated = mel[0, :, 0].repeat(copies)
    last = max(len(repeated) - WINDOW_FRAMES - 1, 0)
    largest = 1 - 2.0**-24
    for fraction, start in ((0.0, 0), (0.5, (len(repeated) - WINDOW_FRAMES) // 2), (largest, last)):
        window = style_window(mel, torch.tensor([frames]), torch.tensor([fraction]))
        assert window.shape == (1, WINDOW_FRAMES, 1)
        assert torch.equal(window[0, :, 0], repeated[start : start + WINDOW_FRAMES])


def test_starts_are_uniform():
    mel = torch.arange(260.0)[None, :, None].expand(4000, -1, -1)
    fractions = torch.rand(4000, generator=torch.Generator().manual_seed(0))
    starts = style_window(mel, torch.full((4000,), 260), fractions)[:, 0, 0]
    assert starts.unique(return_counts=True)[1].min() > 900
    assert starts.unique().tolist() == [0, 1, 2, 3]


def test_padding_is_not_looked_at(model):
    frames = torch.tensor([106, 300, 256, 30])
    mel = torch.full((4, 320, 80), torch.nan)
    items = []
    for i, count in enumerate(frames.tolist()):
        items.append(LOGMEL.repeat(4, 1)[i : i + count])
        mel[i, :count] = items[-1]
    fractions = torch.tensor([0.2, 0.9, 0.5, 0.0])
    windows = style_window(mel, frames, fractions)
    for i, item in enumerate(items):
        alone = style_window(item[None], frames[i : i + 1], fractions[i : i + 1])
        assert torch.equal(windows[i], alone[0])
        close(model(windows)[i], model(alone)[0], 1e-6)


# Entries and modes.


def test_training_mode_and_running_statistics_do_not_matter(model):
    window = window_of(LOGMEL, 3)
    expected = model(window)
    other = StyleTokens().train()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        for name, buffer in other.named_buffers():
            if name.endswith("running_mean"):
                buffer.fill_(7.0)
    before = {name: value.clone() for name, value in other.named_buffers()}
    assert torch.equal(other(window), expected)
    assert all(torch.equal(value, before[name]) for name, value in other.named_buffers())


def test_number_of_parameters():
    assert sum(p.numel() for p in StyleTokens().parameters()) == 476_896


def test_autocast_changes_nothing(model):
    window = window_of(LOGMEL, 3)
    with torch.autocast("cpu", torch.bfloat16):
        result = model(window)
    assert torch.equal(result, model(window))


def test_random_weights_give_finite_and_different_vectors():
    network = StyleTokens().eval()
    fill_random(network, torch.Generator().manual_seed(0))
    vectors = network(torch.stack([LOGMEL[:1].expand(256, -1), window_of(LOGMEL, 0)[0]]))
    assert vectors.shape == (2, STYLE_WIDTH)
    assert vectors.isfinite().all()
    assert not torch.allclose(vectors[0], vectors[1])
