"""EnCodec's decoder at its official size, stage by stage, and in padded batches."""

import numpy as np
import pytest
import torch
from golden.codec_lm_files import FOLDER, codec_entries, hub_codec_name

from voiceanon.components.codec.encodec import (
    HOP_SAMPLES,
    ORIGINAL_RENAMES,
    RENAMES,
    EncodecConfig,
    EncodecDecoder,
    is_unused_entry,
)
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError
from voiceanon.hub.convert import rename

GOLDEN = np.load(FOLDER / "encodec.npz")
TOLERANCE = 1e-5
"""Absolute, on waveforms with a peak of 1.3."""


@pytest.fixture(scope="module")
def decoder():
    model = EncodecDecoder().eval()
    entries = rename(codec_entries(), ORIGINAL_RENAMES, file=FOLDER)
    kept = {name: value for name, value in entries.items() if not is_unused_entry(name)}
    model.load_state_dict(rename(fold_entries(kept), RENAMES, file=FOLDER), strict=True)
    return model


@pytest.fixture(scope="module")
def small():
    config = EncodecConfig(codebook_size=32, width=8, channels=2)
    return EncodecDecoder(config).double().eval().requires_grad_(False)


@pytest.fixture(autouse=True)
def inference():
    """On one thread: small networks lose more by waiting for a second one than they gain."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(before)


def codes_of(array):
    return torch.from_numpy(array).long()[None], torch.tensor([array.shape[1]])


def test_stages(decoder):
    codes, lengths = codes_of(GOLDEN["codes"])
    seen = {}
    handles = [
        decoder.layers[i].register_forward_hook(
            lambda module, inputs, output, i=i: seen.update({i: output[0].clone()})
        )
        for i in (0, 1, 3)
    ]
    wav, samples = decoder(codes, lengths)
    for handle in handles:
        handle.remove()
    assert np.abs(decoder.embed(codes)[0].numpy() - GOLDEN["embedding"]).max() <= 1e-6
    for i in (0, 1, 3):
        assert np.abs(seen[i][:8].numpy() - GOLDEN[f"decoder_{i}_first8ch"]).max() <= TOLERANCE
    assert samples.tolist() == [19200]
    assert np.abs(wav[0].numpy() - GOLDEN["wave"]).max() <= TOLERANCE


@pytest.mark.parametrize(
    ("file", "codes", "wav"),
    [("fine", "b_codes", "wave_from_fine_b"), ("chain", "fine", "wave_out24k")],
)
def test_codes_of_the_fine_model(decoder, file, codes, wav):
    expected = GOLDEN[wav] if wav in GOLDEN else np.load(FOLDER / f"{file}.npz")[wav]
    result, _ = decoder(*codes_of(np.load(FOLDER / f"{file}.npz")[codes]))
    assert np.abs(result[0].numpy() - expected).max() <= TOLERANCE


def test_names_of_the_hub_and_of_the_package():
    names = list(codec_entries())
    renamed = rename(dict.fromkeys(names, torch.zeros(1)), ORIGINAL_RENAMES, file=FOLDER)
    for old, new in zip(names, renamed, strict=True):
        if not is_unused_entry(new):
            assert new == hub_codec_name(old)


@pytest.mark.parametrize("lengths", [(1, 40, 3, 7, 6), (12, 12, 12)])
def test_a_padded_batch(small, lengths):
    """In float64: what is left is rounding alone. Down to recordings shorter than the kernel."""
    draws = torch.Generator().manual_seed(0)
    codes = torch.randint(32, (len(lengths), 8, max(lengths)), generator=draws)
    wav, samples = small(codes, torch.tensor(lengths))
    for row, item, length, count in zip(wav, codes, lengths, samples.tolist(), strict=True):
        assert count == HOP_SAMPLES * length
        alone, _ = small(item[None, :, :length], torch.tensor([length]))
        assert float((row[:count] - alone[0]).abs().max()) <= 1e-12
        assert not row[count:].any()


@pytest.mark.parametrize("frames", [1, 6, 30])
def test_the_package_in_any_length(decoder, frames):
    from encodec.model import EncodecModel

    theirs = EncodecModel.encodec_model_24khz(pretrained=False).eval()
    theirs.load_state_dict(codec_entries(whole=True), strict=True)
    codes = torch.randint(1024, (1, 8, frames), generator=torch.Generator().manual_seed(1))
    expected = theirs.decoder(theirs.quantizer.decode(codes.transpose(0, 1)))[0, 0]
    result, _ = decoder(codes, torch.tensor([frames]))
    assert float((result[0] - expected).abs().max()) <= TOLERANCE


def test_autocast_changes_nothing(decoder):
    codes = codes_of(GOLDEN["codes"])
    expected, _ = decoder(*codes)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(decoder(*codes)[0], expected)


def test_settings():
    official = {
        "num_filters": 32,
        "hidden_size": 128,
        "upsampling_ratios": [8, 5, 4, 2],
        "codebook_size": 1024,
        "num_lstm_layers": 2,
        "kernel_size": 7,
        "residual_kernel_size": 3,
        "use_causal_conv": True,
        "norm_type": "weight_norm",
    }
    assert EncodecConfig.from_published(official) == EncodecConfig()
    assert EncodecConfig.from_published({}) == EncodecConfig()
    assert EncodecConfig.from_published({"num_filters": 4}).channels == 4
    for name, value in (("norm_type", "time_group_norm"), ("use_causal_conv", False)):
        with pytest.raises(ConfigError, match=name):
            EncodecConfig.from_published({**official, name: value})


@pytest.mark.parametrize("strides", [(8, 5, 4), (2, 8, 5, 4)])
def test_impossible_strides(strides):
    with pytest.raises(ConfigError, match="product must be 320"):
        EncodecConfig(strides=strides)
