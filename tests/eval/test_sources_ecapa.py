"""ECAPA-TDNN stage by stage against SpeechBrain's stored values, and its published layouts."""

import numpy as np
import pytest
import torch
from source_files import (
    GOLDEN,
    SMALL_ECAPA,
    SYN,
    UTT,
    checkpoint,
    entries,
    seeded_ecapa,
    write_files,
    write_zip,
)

from voiceanon.errors import AudioError, WeightsError
from voiceanon.eval.sources.ecapa import (
    MIN_FRAMES,
    EcapaConfig,
    EcapaTdnn,
    Frames,
    mirror_ends,
)
from voiceanon.eval.sources.ecapa_embedder import (
    ASV_EVAL,
    EcapaEmbedder,
    challenge_form,
    load_asv_eval,
    load_ecapa_voxceleb,
)
from voiceanon.eval.sources.fbank import Fbank, subtract_mean
from voiceanon.eval.sources.manifest import read_source
from voiceanon.hub.paths import release_path

STORED = np.load(GOLDEN / "asv_models.npz")
WAVES = {"utt": challenge_form(UTT), "syn": challenge_form(SYN)}

FBANK_DB = 2e-3
"""As the goldens state it: 10 log10 near the floor magnifies rounding."""

RELATIVE = 2e-5
"""Of the largest value of a stage: two orders of float32 sums."""


@pytest.fixture(scope="module", autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def network():
    """The full-size network."""
    return seeded_ecapa(like=entries("entries_asv_ecapa_embedding_model.ckpt.json"))


@pytest.fixture(scope="module")
def small():
    return seeded_ecapa(SMALL_ECAPA)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VOICEANON_CACHE", str(tmp_path / "cache"))


def stored_features(name):
    features = torch.from_numpy(STORED[f"{name}_fbank"])[None]
    frames = torch.tensor([features.shape[1]])
    return subtract_mean(features, frames), frames


def close(found, name, tolerance=RELATIVE):
    expected = torch.from_numpy(STORED[name])
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= tolerance * expected.abs().max()


def embed(network, features, frames):
    return network(subtract_mean(features, frames), frames)


# Stages.


@pytest.mark.parametrize("name", WAVES)
def test_features(name):
    wave = WAVES[name]
    features, frames = Fbank()(wave[None], torch.tensor([len(wave)]))
    expected = torch.from_numpy(STORED[f"{name}_fbank"])
    assert frames.tolist() == [len(expected)]
    assert (features[0] - expected).abs().max() < FBANK_DB


def test_features_of_24_bands():
    """Those of the challenge's x-vector, with the same front end."""
    for name, wave in WAVES.items():
        features, _ = Fbank(24)(wave[None], torch.tensor([len(wave)]))
        expected = torch.from_numpy(STORED[f"{name}_fbank24_every4fr"])
        assert (features[0, ::4] - expected).abs().max() < FBANK_DB


@pytest.mark.parametrize("name", WAVES)
def test_blocks(network, name):
    features, frames = stored_features(name)
    layout = Frames.of(frames, features.shape[1])
    x = network.blocks[0](features.transpose(1, 2), frames)
    close(x[0, ::32, ::16], f"{name}_block0_every32ch_every16fr")
    for i in (1, 2, 3):
        x = network.blocks[i](x, layout)
        close(x[0, ::32, ::16], f"{name}_block{i}_every32ch_every16fr")


@pytest.mark.parametrize("name", WAVES)
def test_pooling_and_embedding(network, name):
    features, frames = stored_features(name)
    pooled_frames = network.frames(features, frames)
    close(pooled_frames[0, ::96, ::16], f"{name}_mfa_every96ch_every16fr")
    close(network.pool(pooled_frames, frames)[0, ::16, 0], f"{name}_asp_every16")
    close(network(features, frames)[0], f"{name}_embedding")


def test_chain_from_the_waveform(network):
    embedder = embedder_of(network)
    found = embedder.embed([UTT, SYN])
    for row, name in zip(found, ("utt", "syn"), strict=True):
        close(torch.from_numpy(row), f"{name}_embedding")
    cosine = found[0] @ found[1] / np.linalg.norm(found[0]) / np.linalg.norm(found[1])
    assert cosine == pytest.approx(float(STORED["cosine_utt_syn"]), abs=1e-5)


def embedder_of(network, *, challenge_input=True):
    return EcapaEmbedder(
        network,
        label="test",
        identity="seeded",
        training_data="none",
        challenge_input=challenge_input,
        device="cpu",
    )


# Parts.


def test_challenge_form():
    wave = torch.tensor([0.0, 0.0, 0.25, 0.0, -0.5, 0.0])
    assert challenge_form(wave).tolist() == [0.5, 0.0, -1.0]
    assert len(WAVES["syn"]) == 15_500
    with pytest.raises(AudioError, match="silent"):
        challenge_form(torch.zeros(100))


def test_ends_are_mirrored_where_recordings_end():
    x = torch.arange(14.0).reshape(2, 1, 7)
    x[1, :, 4:] = torch.nan
    found = mirror_ends(x, torch.tensor([7, 4]), 2)
    assert found[0, 0].tolist() == [2, 1, 0, 1, 2, 3, 4, 5, 6, 5, 4]
    assert found[1, 0, :8].tolist() == [9, 8, 7, 8, 9, 10, 9, 8]


def test_full_length_rows_are_mirrored_as_torch_does():
    x = torch.randn(3, 4, 20, generator=torch.Generator().manual_seed(0))
    for width in (1, 2, 4):
        expected = torch.nn.functional.pad(x, (width, width), mode="reflect")
        assert torch.equal(mirror_ends(x, torch.full((3,), 20), width), expected)


def test_loud_recordings_limit_the_range():
    wave = torch.zeros(16_000)
    wave[:4000] = torch.sin(torch.arange(4000) / 5.0)
    features, _ = Fbank()(wave[None], torch.tensor([16_000]))
    assert features.max() - features.min() == pytest.approx(80.0, abs=1e-4)


# Batches.


@pytest.mark.parametrize("padding", [0.0, 3.0, torch.nan, torch.inf])
def test_padded_batch_equals_single_recordings(small, padding):
    clips = [UTT[:9000], UTT[3000:3640], UTT[100:20_000], SYN]
    lengths = torch.tensor([len(clip) for clip in clips])
    batch = torch.full((4, int(lengths.max())), padding)
    for row, clip in zip(batch, clips, strict=True):
        row[: len(clip)] = clip
    fbank = Fbank()
    features, frames = fbank(batch, lengths)
    assert frames.tolist() == [57, MIN_FRAMES, 125, 101]
    found = embed(small, features, frames)
    for row, feature, count, clip in zip(found, features, frames, clips, strict=True):
        alone, own_frames = fbank(clip[None], torch.tensor([len(clip)]))
        assert torch.allclose(feature[:count], alone[0], rtol=0, atol=1e-4)
        expected = embed(small, alone, own_frames)[0]
        assert (row - expected).abs().max() < 1e-5 * expected.abs().max()


def test_padding_of_features_does_not_matter(small):
    features = torch.randn(2, 40, 80, generator=torch.Generator().manual_seed(1))
    frames = torch.tensor([40, 11])
    expected = small(features, frames)
    features[1, 11:] = torch.nan
    assert torch.equal(small(features, frames), expected)


def test_order_and_batches_do_not_matter(small, monkeypatch):
    embedder = embedder_of(small)
    waves = [UTT[:9000], UTT[3000:12_000], UTT[100:20_000], SYN, UTT[:2000]]
    expected = embedder.embed(waves)
    assert expected.dtype == np.float32
    assert expected.shape == (5, 12)
    assert np.array_equal(embedder.embed(waves[::-1]), expected[::-1])
    monkeypatch.setattr("voiceanon.eval.sources.ecapa_embedder.CPU_BATCH_SECONDS", 60.0)
    assert np.abs(embedder.embed(waves) - expected).max() < 1e-5 * np.abs(expected).max()


def test_caller_settings_do_not_matter(small):
    expected = embedder_of(small).embed([UTT[:9000]])
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            assert np.array_equal(embedder_of(small).embed([UTT[:9000]]), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_level_matters_only_without_the_challenges_input(small):
    embedder = embedder_of(small)
    padded = torch.cat([torch.zeros(300), 0.3 * UTT, torch.zeros(70)])
    assert np.abs(embedder.embed([UTT]) - embedder.embed([padded])).max() < 1e-3
    plain = embedder_of(small, challenge_input=False)
    assert np.abs(plain.embed([UTT]) - plain.embed([padded])).max() > 0.01
    assert plain.identity != embedder.identity


def test_recordings_that_cannot_be_embedded_are_named(small):
    embedder = embedder_of(small)
    with pytest.raises(AudioError, match=r"recording 1: audio: 639 samples .* too short for test"):
        embedder.embed([UTT, UTT[:639]])
    embedder.embed([UTT[:640]])
    with pytest.raises(AudioError, match="recording 1: audio: the recording is silent"):
        embedder.embed([UTT, torch.zeros(16_000)])
    assert embedder.embed([]).shape == (0, 12)


# Published files.


def test_all_published_entries_fit_in_both_sizes():
    published = entries("entries_asv_ecapa_embedding_model.ckpt.json")
    with torch.device("meta"):
        state = {name: torch.empty(shape) for name, shape in published.items()}
        assert EcapaConfig.from_entries(state) == EcapaConfig()
        wide = EcapaTdnn(EcapaConfig(width=1024, pooled_width=3072))
        assert EcapaConfig.from_entries(wide.state_dict()) == wide.config
    assert sum(p.numel() for p in EcapaTdnn().parameters()) == 6_194_048


def archive_files(network, folder="exp/asv_orig/CKPT+10"):
    return {
        f"{folder}/embedding_model.ckpt": checkpoint(network.state_dict()),
        f"{folder}/classifier.ckpt": checkpoint({"weight": torch.zeros(9, 12)}),
        "exp/asv_orig/hyperparams.yaml": b"!new:os.system\n",
    }


@pytest.mark.parametrize("layout", ["archive", "unpacked", "unpacked without exp"])
def test_asv_eval_is_read_from_its_layouts(small, tmp_path, layout):
    files = archive_files(small)
    folder = tmp_path / "weights"
    folder.mkdir()
    if layout == "archive":
        write_zip(folder / "asv_orig.zip", files)
    else:
        cut = len("exp/asv_orig/") if layout == "unpacked without exp" else 0
        write_files(folder, {name[cut:]: data for name, data in files.items()})
    embedder = load_asv_eval(weights=folder, device="cpu")
    assert embedder.label.startswith("ASV_eval")
    assert "train-clean-360" in embedder.training_data
    expected = embedder_of(small).embed([UTT, SYN])
    assert np.array_equal(embedder.embed([UTT, SYN]), expected)
    assert load_asv_eval(weights=folder, device="cpu").identity == embedder.identity


def test_asv_eval_is_taken_out_of_a_cached_archive(small, tmp_path):
    (file,) = read_source(ASV_EVAL).weights
    path = release_path(file)
    path.parent.mkdir(parents=True)
    write_zip(path, archive_files(small))
    embedder = load_asv_eval(local_files_only=True, device="cpu")
    expected = embedder_of(small).embed([SYN])
    assert np.array_equal(embedder.embed([SYN]), expected)
    unpacked = list((tmp_path / "cache" / "unpacked").rglob("*.ckpt"))
    assert [p.name for p in unpacked] == ["embedding_model.ckpt"]
    assert np.array_equal(load_asv_eval(local_files_only=True).embed([SYN]), expected)


def test_other_weights_have_another_identity(small, tmp_path):
    write_files(tmp_path / "a", archive_files(small))
    other = seeded_ecapa(SMALL_ECAPA)
    other.fc.conv.bias.data += 1
    write_files(tmp_path / "b", archive_files(other))
    first, second = (load_asv_eval(weights=tmp_path / name, device="cpu") for name in "ab")
    assert first.identity != second.identity


def test_voxceleb_model_is_read_and_labelled(small, tmp_path):
    write_files(tmp_path / "w/spkrec-ecapa-voxceleb", {
        "embedding_model.ckpt": checkpoint(small.state_dict())
    })  # fmt: skip
    embedder = load_ecapa_voxceleb(weights=tmp_path / "w", device="cpu")
    assert embedder.label.endswith("not the challenge's")
    expected = embedder_of(small, challenge_input=False).embed([SYN])
    assert np.array_equal(embedder.embed([SYN]), expected)


def test_two_checkpoints_are_ambiguous(small, tmp_path):
    files = archive_files(small) | archive_files(small, "exp/asv_orig/CKPT+9")
    write_files(tmp_path / "w", files)
    with pytest.raises(WeightsError, match=r"found 2 \(exp/asv_orig/CKPT\+10/embedding_model"):
        load_asv_eval(weights=tmp_path / "w")


def test_missing_and_wrong_files_are_named(small, tmp_path):
    with pytest.raises(WeightsError, match=r"asv_orig\.zip: looked for in .*releases/download"):
        load_asv_eval(weights=write_files(tmp_path / "empty", {"a/b.txt": b"x"}))
    with pytest.raises(WeightsError, match=r"vpc2024-asv-eval: .*local_files_only"):
        load_asv_eval(local_files_only=True)
    state = {k: v for k, v in small.state_dict().items() if not k.startswith("mfa")}
    files = write_files(tmp_path / "w", {"embedding_model.ckpt": checkpoint(state)})
    with pytest.raises(WeightsError, match=r"mfa\.conv\.conv\.weight"):
        load_ecapa_voxceleb(weights=files)


@pytest.mark.gpu
def test_gpu_equals_cpu(small):
    waves = [UTT, SYN, UTT[:9000]]
    expected = embedder_of(small).embed(waves)
    embedder = EcapaEmbedder(
        small, label="t", identity="t", training_data="t", challenge_input=True, device="cuda"
    )
    assert np.abs(embedder.embed(waves) - expected).max() < 1e-4 * np.abs(expected).max()
    small.cpu()
