"""FastSpeech2: golden values by stage, batches, padding, regulator, sizes, group norm."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.acoustic.fastspeech2 import FastSpeech2, FastSpeech2Config
from voiceanon.components.acoustic.fastspeech2.model import regulate
from voiceanon.components.masked_group_norm import MaskedGroupNorm
from voiceanon.errors import ConfigError, WeightsError

FOLDER = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
GOLDEN = np.load(FOLDER / "fastspeech2.npz")
REDUCED = "entries_fastspeech2_reduced"
OFFICIAL = "entries_fastspeech2_prosody_cloning"

TOLERANCE = 1e-4
"""Of the reduced network at every stage; values are up to 10."""

OFFICIAL_TOLERANCE = 5e-4
"""Twelve blocks of 384 instead of four of 64."""

BATCH_TOLERANCE = 1e-5

FEW_FRAMES_TOLERANCE = 1e-4
"""Where predicted durations leave one or two frames, groups of two channels are normalised by the
difference of nearly equal values, which magnifies rounding."""


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


def shapes(table):
    entries = json.loads((FOLDER / f"{table}.json").read_text())
    return {name: tuple(shape) for name, shape in entries.items()}


def filled(table):
    model = FastSpeech2(FastSpeech2Config.from_entries(shapes(table))).eval()
    model.load_state_dict(seeded_state_dict(shapes(table)), strict=True)
    return model


@pytest.fixture(scope="module")
def reduced():
    return filled(REDUCED)


def stored(name):
    return torch.from_numpy(GOLDEN[name])


def inputs(**changes):
    """The stored utterance as a batch of one."""
    given = {
        "vectors": stored("text").float()[None],
        "counts": torch.tensor([23]),
        "speaker": stored("utt_emb")[None],
        "durations": stored("durations")[None],
        "pitch": stored("pitch_in")[None, :, 0],
        "energy": stored("energy_in")[None, :, 0],
    }
    return {**given, **changes}


def record(model):
    """Collects what every layer gives."""
    outputs = {}
    handles = [
        module.register_forward_hook(
            lambda module, given, output, name=name: (
                outputs.update({name: output.clone()}) if torch.is_tensor(output) else None
            )
        )
        for name, module in model.named_modules()
    ]
    return outputs, handles


def close(found, name, tolerance=TOLERANCE):
    np.testing.assert_allclose(found.numpy(), GOLDEN[name], rtol=0, atol=tolerance)


def test_every_stage(reduced):
    outputs, handles = record(reduced)
    spoken = reduced(**inputs())
    for handle in handles:
        handle.remove()
    close(outputs["encoder.embed"][0], "s_embed")
    for layer in range(2):
        close(outputs[f"encoder.encoders.{layer}"][0], f"s_enc_layer{layer}")
        close(outputs[f"decoder.encoders.{layer}"][0], f"s_dec_layer{layer}")
    close(outputs["encoder.after_norm"][0], "s_enc_norm")
    close((outputs["encoder"] + outputs["encoder.embedding_expansion"])[0], "s_enc_out")
    close(outputs["pitch_embed"][0], "s_pitch_embed")
    close(outputs["energy_embed"][0], "s_energy_embed")
    close(outputs["decoder.after_norm"][0], "s_dec_out")
    close(outputs["feat_out"][0], "s_mel_before")
    # Stored is the post-net's own result; what is added to the rough spectrogram is the same.
    close(outputs["postnet"][0].T, "s_postnet")
    close(spoken.mel[0], "mel")
    close(spoken.pitch[0, :, None], "pitch_used", 0)
    assert spoken.frames.tolist() == [106]


def test_regulator(reduced):
    hidden = stored("s_enc_out") + stored("s_pitch_embed").T + stored("s_energy_embed").T
    repeated, frames = regulate(hidden[None], stored("durations")[None])
    close(repeated[0], "s_regulated", 1e-6)
    assert frames.tolist() == [106]


def test_predicted_prosody(reduced):
    spoken = reduced(**inputs(durations=None, pitch=None, energy=None))
    assert torch.equal(spoken.durations[0], stored("pred_durations"))
    close(spoken.pitch[0, :, None], "pred_pitch")
    close(spoken.energy[0, :, None], "pred_energy")
    close(spoken.mel[0], "pred_mel")


def test_pitch_counts_only_where_a_symbol_is_voiced(reduced):
    ones = torch.ones(1, 23)
    spoken = reduced(**inputs(pitch=ones))
    close(spoken.mel[0], "mel_pitch_ones")
    close(spoken.pitch[0, :, None], "pitch_ones_used", 0)
    assert torch.equal(ones, torch.ones(1, 23))


def test_official_size():
    model = filled(OFFICIAL)
    assert model.config == FastSpeech2Config()
    assert sum(p.numel() for p in model.parameters()) == 46_813_839
    outputs, _ = record(model)
    spoken = model(**inputs())
    encoded = outputs["encoder"] + outputs["encoder.embedding_expansion"]
    close(encoded[0], "full_enc_out", OFFICIAL_TOLERANCE)
    close(outputs["decoder.after_norm"][0, :4], "full_dec_out_first4", OFFICIAL_TOLERANCE)
    close(outputs["feat_out"][0], "full_mel_before", OFFICIAL_TOLERANCE)
    close(spoken.mel[0], "full_mel", OFFICIAL_TOLERANCE)


def mixed():
    """Four utterances of other lengths, one of a single symbol, one without frames."""
    whole = inputs()
    generator = torch.Generator().manual_seed(3)
    cuts = [(0, 23), (4, 15), (10, 11), (2, 9)]
    items = []
    for number, (start, end) in enumerate(cuts):
        item = {
            name: whole[name][:, start:end] for name in ("vectors", "durations", "pitch", "energy")
        }
        item["counts"] = torch.tensor([end - start])
        item["speaker"] = torch.randn(1, 128, generator=generator)
        if number == 3:
            item["durations"] = torch.zeros_like(item["durations"])
        items.append(item)
    return items


def together(items, fill):
    """A padded batch; ``fill`` stands in the padding."""
    size = max(int(item["counts"]) for item in items)
    batch = {name: torch.cat([item[name] for item in items]) for name in ("counts", "speaker")}
    for name in ("vectors", "durations", "pitch", "energy"):
        like = items[0][name]
        value = 7 if like.dtype == torch.int64 else fill
        rows = like.new_full((len(items), size, *like.shape[2:]), value)
        for row, item in zip(rows, items, strict=True):
            row[: int(item["counts"])] = item[name][0]
        batch[name] = rows
    return batch


@pytest.mark.parametrize("fill", [0.0, 3.0, float("nan")])
@pytest.mark.parametrize("predict", [False, True])
def test_a_batch_equals_single_runs_whatever_the_padding_holds(reduced, fill, predict):
    items = mixed()
    batch = together(items, fill)
    tolerance = FEW_FRAMES_TOLERANCE if predict else BATCH_TOLERANCE
    if predict:
        unknown = {"durations": None, "pitch": None, "energy": None}
        items, batch = [{**item, **unknown} for item in items], {**batch, **unknown}
    found = reduced(**batch)
    for row, item in enumerate(items):
        alone = reduced(**item)
        count, frames = int(item["counts"]), int(alone.frames)
        assert int(found.frames[row]) == frames
        assert torch.equal(found.durations[row, :count], alone.durations[0])
        assert float((found.mel[row, :frames] - alone.mel[0]).abs().max()) <= tolerance
        assert not found.mel[row, frames:].any()
        for name in ("pitch", "energy"):
            values, single = getattr(found, name), getattr(alone, name)
            assert float((values[row, :count] - single[0]).abs().max()) <= BATCH_TOLERANCE


def test_without_durations_every_symbol_gets_a_frame(reduced):
    spoken = reduced(**inputs(durations=torch.zeros(1, 23, dtype=torch.int64)))
    assert spoken.durations.tolist() == [[1] * 23]
    assert spoken.mel.shape == (1, 23, 80)


def test_sizes_come_from_the_shapes():
    assert FastSpeech2Config.from_entries(shapes(OFFICIAL)) == FastSpeech2Config()
    small = FastSpeech2Config.from_entries(shapes(REDUCED))
    assert (small.width, small.encoder_layers, small.post_width) == (64, 2, 64)
    for table in (OFFICIAL, REDUCED):
        config = FastSpeech2Config.from_entries(shapes(table))
        with torch.device("meta"):
            model = FastSpeech2(config)
        assert {n: tuple(t.shape) for n, t in model.state_dict().items()} == shapes(table)
    with pytest.raises(WeightsError, match=r"encoder\.embed\.0\.weight"):
        FastSpeech2Config.from_entries({"other": (1,)})


@pytest.mark.parametrize(
    "sizes", [{"width": 100}, {"post_kernel": 4}, {"post_width": 48}, {"bands": 30}]
)
def test_sizes_that_do_not_fit_are_refused(sizes):
    with pytest.raises(ConfigError, match=next(iter(sizes)).partition("_")[2] or "FastSpeech2"):
        FastSpeech2Config(**sizes)


def test_masked_group_norm_is_the_group_norm_of_an_item_alone():
    generator = torch.Generator().manual_seed(0)
    norm, plain = MaskedGroupNorm(4, 12), torch.nn.GroupNorm(4, 12)
    state = {name: torch.randn(12, generator=generator) for name in ("weight", "bias")}
    norm.load_state_dict(state)
    plain.load_state_dict(state)
    x = 5 + 3 * torch.randn(3, 12, 40, generator=generator)
    lengths = [40, 17, 1]
    valid = torch.arange(40) < torch.tensor(lengths)[:, None]
    found = norm(x.masked_fill(~valid[:, None], float("nan")), valid)
    for row, length in enumerate(lengths):
        expected = plain(x[row : row + 1, :, :length])[0]
        assert float((found[row, :, :length] - expected).abs().max()) <= 5e-6
        assert not found[row, :, length:].any()
    # What a plain group norm over the padded row gives.
    assert float((plain(x * valid[:, None])[1, :, :17] - found[1, :, :17]).abs().max()) > 0.1
