"""Front end and encoders of the phone recogniser, stage by stage against the stored values."""

import math

import numpy as np
import pytest
import reduced_recognizer
import torch
from golden.seeded_weights import seeded_state_dict
from reduced_recognizer import E_SETTINGS, GOLDEN, SETTINGS, STORED, entries

from voiceanon.components.asr.branchformer.config import FEWEST_FRAMES, PhoneRecognizerConfig
from voiceanon.components.asr.branchformer.encoder import Encoder, subsampled_count
from voiceanon.components.asr.branchformer.front_end import UtteranceNormalization
from voiceanon.components.asr.branchformer.recognizer import PhoneRecognizer
from voiceanon.components.relative_attention import relative_positions

E_STORED = {
    name: torch.from_numpy(value)
    for name, value in np.load(GOLDEN / "asr_e_branchformer.npz").items()
}

TOLERANCE = 3e-5
"""Absolute: the subsampled frames reach 30, everything behind the first norm 3."""

LOGARITHM_TOLERANCE = 1e-4
"""Absolute, for logarithms of power, whose least values are differences of float32 sums."""

SHORT, LONG = 9_600, 24_000


def close(result, expected, tolerance=TOLERANCE):
    assert result.shape == expected.shape
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def model():
    return reduced_recognizer.reduced()


@pytest.fixture(scope="module")
def e_encoder():
    encoder = Encoder(PhoneRecognizerConfig.from_published(E_SETTINGS)).eval()
    weights = seeded_state_dict(entries("asr_e_branchformer_reduced"))
    encoder.load_state_dict({k.removeprefix("encoder."): v for k, v in weights.items()})
    return encoder


@pytest.fixture(scope="module")
def normalised():
    return ((STORED["feats"] - STORED["mean"]) / STORED["std"])[None]


@pytest.fixture(autouse=True)
def same_everywhere():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class TestFrontEnd:
    def test_stored_frames(self, model):
        wav = reduced_recognizer.utterance()[None]
        frames, counts = model.frontend(wav, torch.tensor([wav.shape[1]]))
        assert counts.tolist() == [170]
        close(frames[0], STORED["feats"], LOGARITHM_TOLERANCE)

    def test_stored_normalisation(self, model, normalised):
        valid = torch.ones(1, 170, dtype=torch.bool)
        close(model.normalize(STORED["feats"][None], valid), normalised)

    def test_utterance_normalisation_is_that_of_its_frames(self):
        frames = torch.randn(2, 9, 80)
        frames[0, 6:] = math.nan
        valid = torch.arange(9) < torch.tensor([[6], [9]])
        result = UtteranceNormalization()(frames, valid)
        close(result[0, :6], frames[0, :6] - frames[0, :6].mean(0))
        close(result[1], frames[1] - frames[1].mean(0))
        assert (result[0, 6:] == 0).all()

    def test_item_in_a_batch_is_item_alone(self, model):
        wav = torch.randn(2, LONG)
        wav[0, SHORT:] = math.nan
        together, counts = model.frontend(wav, torch.tensor([SHORT, LONG]))
        assert together.isfinite().all()
        assert counts.tolist() == [1 + SHORT // 160, 1 + LONG // 160]
        alone, _ = model.frontend(wav[:1, :SHORT], torch.tensor([SHORT]))
        close(together[0, : counts[0]], alone[0])


class TestEncoders:
    def test_stored_subsampling(self, model, e_encoder, normalised):
        close(model.encoder.embed(normalised)[0], STORED["embed"])
        close(e_encoder.embed(normalised)[0], E_STORED["embed"])

    @pytest.mark.parametrize("layer", [0, 1])
    @pytest.mark.parametrize("kind", ["branchformer", "e_branchformer"])
    def test_stored_blocks(self, model, e_encoder, kind, layer):
        encoder, stored = (
            (model.encoder, STORED) if kind == "branchformer" else (e_encoder, E_STORED)
        )
        x = stored["embed" if layer == 0 else "layer0"][None]
        close(run_block(encoder.encoders[layer], x)[0], stored[f"layer{layer}"])

    def test_stored_gated_branch(self, model):
        block = model.encoder.encoders[0]
        valid = torch.ones(1, 41, dtype=torch.bool)
        gated = block.cgmlp(block.norm_mlp(STORED["embed"][None]), valid)
        close(gated[0], STORED["layer0_cgmlp"])

    def test_stored_output(self, model, e_encoder, normalised):
        for encoder, stored in ((model.encoder, STORED), (e_encoder, E_STORED)):
            encoded, counts = encoder(normalised, torch.tensor([170]))
            assert counts.tolist() == [41]
            close(encoded[0], stored["enc_out"])

    def test_whole_path_from_the_waveform(self, model):
        wav = reduced_recognizer.utterance()[None]
        encoded, counts = model.encode(wav, torch.tensor([wav.shape[1]]))
        assert counts.tolist() == [41]
        close(encoded[0], STORED["enc_out"], LOGARITHM_TOLERANCE)

    def test_stored_ctc(self, model):
        close(model.ctc(STORED["enc_out"][None])[0], STORED["ctc_logp"])

    @pytest.mark.parametrize("settings", [SETTINGS, E_SETTINGS])
    def test_item_in_a_batch_is_item_alone(self, settings):
        model = reduced_recognizer.reduced(settings)
        wav = torch.randn(2, LONG) * 0.1
        wav[0, SHORT:] = math.nan
        together, counts = model.encode(wav, torch.tensor([SHORT, LONG]))
        for row, length in enumerate((SHORT, LONG)):
            alone, count = model.encode(wav[row : row + 1, :length], torch.tensor([length]))
            assert count == counts[row]
            close(together[row, :count], alone[0])

    def test_fewest_frames_give_one(self):
        assert subsampled_count(torch.tensor([FEWEST_FRAMES - 1, FEWEST_FRAMES])).tolist() == [0, 1]

    def test_under_autocast_close_to_float32(self, model, normalised):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            encoded, _ = model.encoder(normalised, torch.tensor([170]))
        assert encoded.dtype == torch.float32
        # bfloat16 keeps three digits; the output has a standard deviation of 1.
        close(encoded[0], STORED["enc_out"], 0.1)


def run_block(block, x):
    valid = torch.ones(x.shape[:2], dtype=torch.bool)
    return block(x, relative_positions(x.shape[1], x.shape[2], x), valid)


class TestPublishedEntries:
    """Names and shapes of the published checkpoints, without their memory."""

    @pytest.mark.parametrize(
        ("table", "settings"),
        [
            (
                "asr_branchformer_recipe",
                {
                    "encoder": "branchformer",
                    "encoder_conf": {
                        "output_size": 512,
                        "attention_heads": 8,
                        "cgmlp_linear_units": 3072,
                        "num_blocks": 18,
                    },
                },
            ),
            (
                "asr_e_branchformer_inferred",
                {
                    "encoder": "e_branchformer",
                    "encoder_conf": {
                        "output_size": 512,
                        "attention_heads": 8,
                        "cgmlp_linear_units": 3072,
                        "num_blocks": 17,
                        "use_ffn": True,
                        "macaron_ffn": True,
                        "linear_units": 1024,
                        "merge_conv_kernel": 31,
                    },
                },
            ),
        ],
    )
    def test_official_sizes(self, table, settings):
        published = entries(table)
        tokens = ["<blank>", *["x"] * (published["ctc.ctc_lo.bias"][0] - 2), "<sos/eos>"]
        settings = SETTINGS | settings | {"token_list": tokens}
        settings["decoder_conf"] = {"attention_heads": 8, "linear_units": 2048, "num_blocks": 6}
        config = PhoneRecognizerConfig.from_published(settings)
        with torch.device("meta"):
            model = PhoneRecognizer(config, tokens)
        assert {k: tuple(v.shape) for k, v in model.state_dict().items()} == published

    def test_reduced_sizes(self, model, e_encoder):
        front = ("frontend", "normalize")
        own = {k: tuple(v.shape) for k, v in model.state_dict().items() if not k.startswith(front)}
        assert own == entries("asr_reduced")
        own = {f"encoder.{k}": tuple(v.shape) for k, v in e_encoder.state_dict().items()}
        assert own == entries("asr_e_branchformer_reduced")

    def test_utterance_normalisation_has_no_entries(self):
        settings = SETTINGS | {"normalize": "utterance_mvn", "normalize_conf": {}}
        model = reduced_recognizer.reduced(settings)
        assert not [name for name in model.state_dict() if name.startswith("normalize")]
