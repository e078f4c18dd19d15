"""`b1` held to the original's complete chain, from files in their original formats."""

import json
import random
import warnings
from dataclasses import replace

import numpy as np
import pytest
import signals
import torch
from golden import xvector_nsf_files as files

from voiceanon import ConfigError, ConversionError, WeightsError, load, system_info
from voiceanon.components.vocoder.hn_sinc_nsf import NsfNoise
from voiceanon.hub.pool import Pool, write_pool
from voiceanon.registry import system_config
from voiceanon.systems import xvector_nsf_files as names
from voiceanon.systems.xvector_nsf_networks import truncate_to_16_bits

STORED = np.load(files.FOLDER / "features.npz")
F0 = np.load(files.FOLDER / "f0.npz")["f0_aligned"]
CONTENT = np.load(files.FOLDER / "bn_small.npz")["bn_compressed"]
EXPECTED = files.END_TO_END
WAV = STORED["wav"].astype(np.float32) / 32768
SHORT = WAV[8_000:14_000]
SPEAKERS = files.speaker_names(48)
PUBLISHED = {
    "compress": True, "distance": "cosine", "missing_sex": "any", "candidates": 20, "averaged": 10,
}  # fmt: skip
"""As `e2e_small.npz` was made."""

SMALL = {"missing_sex": "any", "candidates": 12, "averaged": 5}

TOLERANCE = 5e-4
"""Of full scale, as the README of the values says: rounding moves single values of features across
the steps of the lossy compression."""


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def unpinned(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEANON_CACHE", str(tmp_path_factory.mktemp("cache")))
        files.unpin(patch)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return files.write_small(tmp_path_factory.mktemp("b1"))


@pytest.fixture(scope="module")
def original(folder):
    """The published pipeline."""
    return load("b1", weights=folder, device="cpu", **PUBLISHED)


@pytest.fixture(scope="module")
def system(folder):
    return load("b1", weights=folder, device="cpu", **SMALL)


def batch_of(*waves):
    tensors = [torch.as_tensor(wav) for wav in waves]
    batch = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)
    return batch, torch.tensor([len(wav) for wav in tensors])


def generators(count, seed=0):
    return [torch.Generator().manual_seed(seed + number) for number in range(count)]


# The published chain.


@torch.inference_mode()
def test_the_published_choice_of_speakers(original):
    ranks = random.Random("0").sample(range(20), 10)
    (target,) = original.settle_targets(*batch_of(WAV), [{"ranks": sorted(ranks), "sex": ""}])
    assert [SPEAKERS.index(name) for name in target["speakers"]] == EXPECTED["averaged"].tolist()
    (everyone,) = original.settle_targets(*batch_of(WAV), [{"ranks": list(range(20)), "sex": ""}])
    assert [SPEAKERS.index(name) for name in everyone["speakers"]] == EXPECTED["top20"].tolist()
    vector = original._pool_here().averages([target["speakers"]])[0]
    assert np.abs(vector.numpy() - EXPECTED["pseudo_xvector"]).max() <= 1e-6


@torch.inference_mode()
def test_the_published_content_and_f0(original):
    vector = torch.zeros(1, 24)
    features, f0, frames = original.networks.generator_inputs(*batch_of(WAV), vector)
    assert int(frames) == len(CONTENT) == 235
    # One step of the lossy compression, of which a few of 3760 values are off.
    apart = np.abs(features[0, :, :16].numpy() - CONTENT)
    assert apart.max() <= 0.01 * np.abs(CONTENT).max()
    assert np.median(apart) <= 1e-4 * np.abs(CONTENT).max()
    assert (np.abs(f0[0].numpy() - F0) <= 1e-2).mean() >= 0.99
    assert torch.equal(features[0, :, -1], f0[0])


@torch.inference_mode()
def test_the_published_waveform(original):
    vector = torch.from_numpy(EXPECTED["pseudo_xvector"])[None]
    features, f0, frames = original.networks.generator_inputs(*batch_of(WAV), vector)
    features[..., -1] = f0 = torch.from_numpy(F0)[None]
    draws = np.random.RandomState(2022)
    noise = [
        draws.random_sample((1, 8)),
        draws.standard_normal((1, 37600, 8)),
        draws.standard_normal((1, 37600, 1)),
    ]
    noise = NsfNoise(*(torch.from_numpy(part.astype(np.float32)) for part in noise))
    wav, lengths = original.components.vocoder(features, f0, frames, noise)
    assert lengths.tolist() == [37600]
    wav = wav[0].numpy()
    assert np.abs(wav[:8000] - EXPECTED["wav_first"]).max() <= TOLERANCE
    assert np.abs(wav[::7] - EXPECTED["wav_every7"]).max() <= TOLERANCE
    pcm = (truncate_to_16_bits(0.7 * torch.from_numpy(wav)) * 32768).int().numpy()[:8000]
    assert np.abs(pcm - EXPECTED["pcm_of_0p7_wav_first"].astype(int)).max() <= 20


def test_truncation_as_the_published_program_does_it():
    wav = torch.tensor([1.5, 1.0, -1.5, 0.9999 / 32768, -1.9 / 32768, -0.5])
    assert (truncate_to_16_bits(wav) * 32768).tolist() == [32767, 32767, -32768, 0, -1, -16384]


def test_the_result_keeps_the_length_and_ends_with_zeros(system):
    result, report = system.anonymize(WAV, seed=1, return_report=True)
    assert result.shape == WAV.shape
    assert not result[160 * 235 :].any()
    assert result[160 * 234 : 160 * 235].any()
    assert report.gain_db == 0
    assert len(report.target["speakers"]) == 5
    assert set(report.target["speakers"]) <= set(SPEAKERS)
    assert set(report.weights) == set(system.weight_keys)


# Batches.


def mixed_waves():
    """0.025 to 1.4 s of speech, and what is none."""
    return [
        WAV[:22_345], WAV[5_000:5_400], WAV[999:6_000], WAV[9_000:15_600],
        np.full(4_000, 1e-9, np.float32), signals.noise(0.4).numpy(), signals.tone(0.3).numpy(),
    ]  # fmt: skip


@torch.inference_mode()
@pytest.mark.parametrize("options", [{}, {"dither": 1.0, "compress": True}])
def test_a_batch_of_different_lengths_equals_single_runs(folder, options):
    system = load("b1", weights=folder, device="cpu", **SMALL, **options)
    waves = mixed_waves()
    targets = [{"ranks": [number, 11 - number], "sex": "fm"[number % 2]} for number in range(6)]
    targets.append({"speakers": SPEAKERS[3:9]})
    together, lengths = system.convert(*batch_of(*waves), targets, generators(len(waves)))
    assert lengths.tolist() == [len(wav) for wav in waves]
    settled = system.settle_targets(*batch_of(*waves), targets)
    for i, wav in enumerate(waves):
        assert system.settle_targets(*batch_of(wav), targets[i : i + 1]) == settled[i : i + 1]
        alone, _ = system.convert(*batch_of(wav), targets[i : i + 1], generators(1, seed=i))
        apart = (together[i, : len(wav)] - alone[0]).abs()
        # Compression has steps, which rounding can move a value across.
        assert float(apart.max()) <= (2e-3 if options else 2e-5), i


def test_draws_go_into_the_noise(system):
    target = {"speakers": SPEAKERS[:5]}
    results = [system.anonymize(SHORT, target=target, seed=seed) for seed in (1, 1, 2)]
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


# Voices.


def test_a_voice_is_drawn_without_the_audio_and_settled_with_it(system):
    drawn = [system.draw_target(torch.Generator().manual_seed(seed), None) for seed in range(200)]
    counts = np.zeros(12, int)
    for target in drawn:
        assert target["sex"] == ""
        assert target["ranks"] == sorted(set(target["ranks"]))
        assert len(target["ranks"]) == 5
        counts[target["ranks"]] += 1
    assert counts.sum() == 1000
    assert counts.min() > 50
    with torch.inference_mode():
        batch = batch_of(WAV, WAV[:20_000], WAV)
        settled = system.settle_targets(*batch, drawn[:3])
        assert all(set(target) == {"speakers"} for target in settled)
        assert system.settle_targets(*batch, settled) == settled
        half = system.settle_targets(*batch, [drawn[0], settled[1], drawn[2]])
        assert half == settled
    json.dumps(settled)


def test_a_voice_of_a_report_gives_the_same_result(system):
    result, report = system.anonymize(SHORT, seed=1, return_report=True)
    again = system.anonymize(SHORT, seed=1, target=json.loads(json.dumps(report.target)))
    assert np.array_equal(again, result)
    drawn = {"ranks": [0, 5], "sex": "m"}
    report = system.anonymize(SHORT, seed=1, target=drawn, return_report=True)[1]
    assert len(report.target["speakers"]) == 2
    assert all(SPEAKERS.index(name) % 2 for name in report.target["speakers"])


def choose(folder, **options):
    """Candidates of the utterance, from the first rank on."""
    options = {**SMALL, "candidates": 12, **options}
    system = load("b1", weights=folder, device="cpu", **options)
    sex = system.draw_target(torch.Generator(), "anna")["sex"]
    with torch.inference_mode():
        target = {"ranks": list(range(12)), "sex": sex}
        (settled,) = system.settle_targets(*batch_of(WAV), [target])
    return settled["speakers"]


def sexes_of(speakers):
    return {"fm"[SPEAKERS.index(name) % 2] for name in speakers}


def test_the_sex_of_the_source_decides_who_may_be_averaged(folder):
    assert sexes_of(choose(folder)) == {"f", "m"}
    assert sexes_of(choose(folder, source_sex="f")) == {"f"}
    assert sexes_of(choose(folder, source_sex="f", source_sexes={"anna": "m"})) == {"m"}
    assert sexes_of(choose(folder, source_sexes={"bert": "f"}, source_sex="m")) == {"m"}
    crossed = choose(folder, source_sexes={"anna": "m"}, cross_gender=True)
    assert sexes_of(crossed) == {"f"}


def test_the_farthest_and_the_nearest_by_two_distances(folder):
    nearest = choose(folder, proximity="nearest", candidates=24, source_sex="f")
    farthest = choose(folder, candidates=24, source_sex="f")
    assert set(farthest) | set(nearest) == set(SPEAKERS[::2])
    assert not set(farthest) & set(nearest)
    assert choose(folder, distance="cosine") != choose(folder)


@pytest.mark.parametrize("cause", [{}, {"source_sexes": {"bert": "m"}}])
def test_a_missing_sex_is_an_error_with_the_ways_out(folder, cause):
    system = load("b1", weights=folder, device="cpu", candidates=12, averaged=5, **cause)
    ways = r"source_sex='f'.*source_sexes=.*missing_sex='any'"
    with pytest.raises(ConfigError, match=ways):
        system.anonymize(SHORT, seed=1)
    with pytest.raises(ConfigError, match=rf"'anna' is not known.*{ways}"):
        system.anonymize(SHORT, seed=1, speaker="anna")
    if cause:
        system.anonymize(SHORT, seed=1, speaker="bert")
    system.anonymize(SHORT, seed=1, target={"ranks": [1], "sex": "f"})


def test_too_few_candidates_are_an_error(folder):
    system = load("b1", weights=folder, device="cpu", source_sex="f")
    with pytest.raises(ConfigError, match="200 candidates are wanted, but the pool has 24 female"):
        system.anonymize(SHORT, seed=1)
    with pytest.raises(ConfigError, match="48 speakers; load with candidates=48 and averaged=48 "):
        system.parse_target({"ranks": [0], "sex": ""})


@pytest.mark.parametrize(
    "target",
    [
        None, 3, "1000", {}, {"speakers": []}, {"speakers": "1000"}, {"speakers": [3]},
        {"speakers": ["1000", "nobody"]}, {"speakers": ["1000"], "sex": "f"}, {"ranks": [0]},
        {"ranks": [0], "sex": "x"}, {"ranks": [12], "sex": "f"}, {"ranks": [-1], "sex": "f"},
        {"ranks": [], "sex": "f"}, {"ranks": [True], "sex": "f"}, {"ranks": "0", "sex": "f"},
    ],
)  # fmt: skip
def test_what_is_no_voice(system, target):
    with pytest.raises(ConfigError, match="target: "):
        system.parse_target(target)


def test_draws_of_the_published_program(folder):
    stored = json.loads((files.FOLDER / "pool_selection.json").read_text())
    first, second = stored["_python_random_sample_200_100"]["2020"]
    system = load("b1", weights=folder, device="cpu", cross_gender=True)
    assert system.published_targets("2020", ["f", "m"]) == [
        {"ranks": sorted(first), "sex": "m"},
        {"ranks": sorted(second), "sex": "f"},
    ]
    with pytest.raises(ConfigError, match="as text"):
        system.published_targets(2020, ["f"])


def test_one_voice_for_a_speaker(system):
    utterances = [WAV[:16_000], WAV[10_000:30_000], WAV[20_000:]]
    target = system.target_for_speaker(utterances, sex="f", speaker="anna", seed=1)
    assert system.target_for_speaker(utterances, sex="f", speaker="anna", seed=1) == target
    assert system.parse_target(target) == target
    assert sexes_of(target["speakers"]) == {"f"}
    with torch.inference_mode():
        vectors = torch.cat([system.networks.xvectors(*batch_of(wav)) for wav in utterances])
    (ranked,) = system._pool_here().ranked(vectors.mean(0, keepdim=True), ["f"], system.config)
    assert set(target["speakers"]) <= set(ranked)
    assert [ranked.index(name) for name in target["speakers"]] == sorted(
        ranked.index(name) for name in target["speakers"]
    )
    keys = [f"utt-{number}" for number in range(6)]
    several = system.targets_for_speaker(utterances, keys, sex="f", speaker="anna", seed=1)
    assert len({tuple(each["speakers"]) for each in several}) > 3
    assert {name for each in several for name in each["speakers"]} <= set(ranked)
    assert (
        system.targets_for_speaker(utterances, keys[3:4], sex="f", speaker="anna", seed=1)
        == (several[3:4])
    )
    assert system.target_for_speaker(utterances) != system.target_for_speaker(utterances)
    with pytest.raises(ConfigError, match="'x' is not 'f' or 'm'"):
        system.target_for_speaker(utterances, sex="x")


# Pools.


def test_a_pool_of_ones_own(folder, tmp_path):
    system = load("b1", weights=folder, device="cpu", candidates=2, averaged=1, source_sex="f")
    speech = {f"voice {number}": WAV[5000 * number :][:16_000] for number in range(4)}
    pool = system.make_pool(speech, sexes=dict.fromkeys(list(speech)[:3], "f"))
    with torch.inference_mode():
        vector = system.networks.xvectors(*batch_of(speech["voice 2"]))
    assert torch.allclose(pool.features["voice 2"], vector, atol=1e-5)
    # Else whoever lists the pool takes its rows for frames of speech.
    assert pool.facts["rows"] == "x-vectors"
    before = system.anonymize(SHORT, seed=1)
    for given in (pool, tmp_path / "mine.safetensors"):
        write_pool(tmp_path / "mine.safetensors", pool)
        system.use_pool(given)
        result, report = system.anonymize(SHORT, seed=1, return_report=True)
        assert report.target["speakers"][0] in list(speech)[:3]
        assert report.weights["pool"] == pool.digest()
        assert not np.array_equal(result, before)
    system.use_pool(speech)
    with pytest.raises(ConfigError, match="has 0 female speakers; take a larger pool, or tell"):
        system.anonymize(SHORT, seed=1)


@pytest.mark.parametrize("shape", [(1, 23), (2, 24), (1, 48)])
def test_a_pool_that_does_not_fit(system, shape):
    with pytest.raises(ConfigError, match="build the pool with this system"):
        system.use_pool(Pool({"a": torch.ones(shape)}))
    with pytest.raises(ConfigError, match="got int"):
        system.use_pool(3)


def test_the_public_variant_averages_other_vectors_of_the_same_speakers(folder, system, tmp_path):
    files.write_small(tmp_path)
    files.write_sidekit(tmp_path)
    variant = load("b1-sidekit", weights=tmp_path, device="cpu", **SMALL)
    assert variant.config.generator.input_width == 16 + 6 + 1
    _, report = variant.anonymize(SHORT, seed=1, key="a", return_report=True)
    # The draw depends on the system's id; who is far from the source does not.
    drawn = {"ranks": [0, 3, 7], "sex": "f"}
    with torch.inference_mode():
        one, two = (each.settle_targets(*batch_of(WAV), [drawn]) for each in (variant, system))
    assert one == two
    vector = variant._pool_here().averages([one[0]["speakers"]])[0]
    pool = files.seeded_tensor("sidekit", (48, 6))
    chosen = pool[[SPEAKERS.index(name) for name in one[0]["speakers"]]]
    assert np.allclose(vector.numpy(), chosen.mean(0), atol=1e-6)
    assert names.SIDEKIT_POOL_FILE in report.weights
    with pytest.raises(ConfigError, match="sidekit x-vectors, which are not computed here"):
        variant.make_pool({"a": WAV})


# Settings and files.


@pytest.mark.parametrize(
    "options",
    [
        {"compress": True}, {"dither": 1.0}, {"pcm16": True}, {"chunk_frames": 30},
        {"distance": "cosine"}, {"proximity": "nearest"},
    ],
)  # fmt: skip
def test_options_change_the_result(folder, system, options):
    expected, report = system.anonymize(SHORT, seed=1, return_report=True)
    changed = load("b1", weights=folder, device="cpu", **SMALL, **options)
    target = None if "dither" not in options else report.target
    result = changed.anonymize(SHORT, seed=1, target=target)
    assert not np.array_equal(result, expected)
    if "pcm16" in options:
        assert np.abs(result - expected.clip(-1, 32767 / 32768)).max() <= 1 / 32768
        assert not np.any(result * 32768 % 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vectors": "ecapa"}, "vectors: 'ecapa' is not one of kaldi, sidekit"),
        ({"missing_sex": "guess"}, "missing_sex"),
        ({"distance": "euclid"}, "distance"),
        ({"proximity": "random"}, "proximity"),
        ({"source_sex": "x"}, "source_sex: 'x'"),
        ({"source_sexes": {"a": "female"}}, "source_sexes: .*female"),
        ({"averaged": 201}, "averaged: 201 of 200"),
        ({"averaged": 0}, "averaged: 0 of 200"),
        ({"dither": -1.0}, "dither"),
        ({"dither": float("nan")}, "dither"),
        ({"dither": float("inf")}, "dither: inf"),
        ({"dither": "1"}, "dither: '1'"),
        ({"source_sexes": "f"}, "source_sexes: .* got 'f'"),
        ({"source_sexes": None}, "source_sexes: .* got None"),
        ({"candidates": 200.0}, "candidates: 200.0; a whole number from 1 on"),
        ({"candidates": "200"}, "candidates: '200'; a whole number"),
        ({"averaged": True}, "averaged: True; a whole number"),
        ({"chunk_frames": 0}, "chunk_frames: 0; a whole number from 1 on"),
        ({"min_chunk_frames": 14}, "min_chunk_frames: 14; a whole number from 15 on"),
        ({"backend_width": -3}, "backend_width: -3"),
        ({"compress": "no"}, "compress: 'no'"),
        ({"speed": 2}, "unknown option 'speed'"),
    ],
)
def test_settings_that_do_not_fit(options, words):
    with pytest.raises(ConfigError, match=words):
        load("b1", device="cpu", weights="random", **options)


def test_sizes_come_from_the_files(system):
    config = system.config
    assert config.xvector.hidden == (32, 32, 32, 32, 40)
    assert (config.xvector.embedding, config.backend_width) == (24, 8)
    assert (config.ivector.gaussians, config.ivector.width, config.ivector.ivector) == (16, 20, 30)
    assert (config.bottleneck.hidden, config.bottleneck.inner) == (32, 12)
    assert config.generator.input_width == 41
    assert (config.min_chunk_frames, config.chunk_frames) == (25, 10_000)
    assert len(system.pool.names) == 48


def test_the_prepared_content_network_gives_the_same(folder, system, tmp_path):
    files.write_small(tmp_path)
    prepared = (files.KALDI / "bn_small_prepared.raw").read_bytes()
    (tmp_path / names.BOTTLENECK_FILE).write_bytes(prepared)
    other = load("b1", weights=tmp_path, device="cpu", **SMALL)
    expected = system.anonymize(SHORT, seed=1)
    assert np.abs(other.anonymize(SHORT, seed=1) - expected).max() <= 1e-4


def test_flat_folders_and_the_folder_of_the_models(folder, system, tmp_path):
    expected = system.anonymize(SHORT, seed=1)
    flat = tmp_path / "flat"
    flat.mkdir()
    for key in system.weight_keys:
        (flat / key.rpartition("/")[2]).write_bytes((folder / key).read_bytes())
    inner = tmp_path / "models"
    for key in system.weight_keys:
        files.place(inner, key.removeprefix("exp/models/")).write_bytes((folder / key).read_bytes())
    for place in (flat, inner):
        other = load("b1", weights=place, device="cpu", **SMALL)
        assert np.array_equal(other.anonymize(SHORT, seed=1), expected)


def swap(folder, key, change):
    path = folder / key
    path.write_bytes(change(path.read_bytes()))


def without(entry):
    def change(state):
        del state[entry]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("m_cond.l_conv1d.bias"), "m_cond.l_conv1d.bias"),
        (lambda state: state.update(more=torch.zeros(1)), "more"),
        (lambda state: state.update({"output_std": torch.tensor([2.0])}), r"output_std is \[2.0\]"),
        (without("input_mean"), "no entry 'input_mean'"),
        (
            lambda state: state.update(input_mean=torch.tensor(0.0)),
            r"'input_mean' has the shape \(",
        ),
        (
            lambda state: state.update({"m_source.l_linear.weight": torch.zeros(1, 0)}),
            r"l_linear.weight' has the shape \(1, 0\)",
        ),
        (lambda state: state.clear() or state.update(files.generator_state(30)), "30 values"),
    ],
)
def test_a_generator_that_does_not_fit(tmp_path, change, words):
    files.write_small(tmp_path)
    path = tmp_path / names.GENERATOR_FILES["kaldi"]
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)
    with pytest.raises(WeightsError, match=words):
        load("b1", weights=tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("key", "old", "new", "words"),
    [
        (names.XVECTOR_FILE, b"Offset(input, -2)", b"Offset(input, -3)", "tdnn1.affine sees"),
        (names.XVECTOR_FILE, b"name=tdnn3.affine c", b"name=tdnn3.afflne c", "no node 'tdnn3.aff"),
        (
            names.BOTTLENECK_FILE,
            b"<TimeOffsets> \4\2\0\0\0\xfd\xff\xff\xff\0\0\0\0",
            b"<TimeOffsets> \4\2\0\0\0\xfc\xff\xff\xff\0\0\0\0",
            r"tdnnf6.linear sees frames \(-4, 0\), \(-3, 0\) are known",
        ),
        (names.CHUNK_FILES[1], b"10000", b"all", "number of frames from 1 to .* found 'all'"),
        (names.CHUNK_FILES[0], b"25", b"0", "expected a number of frames"),
        (names.CHUNK_FILES[0], b"25", b"14", "expected a number of frames from 15"),
        (names.CHUNK_FILES[0], b"25", b"1000000", "from 15 to 100000, found '1000000'"),
        (names.CHUNK_FILES[0], b"25", b"000000025123", "found '000000025123'"),
        (names.CHUNK_FILES[1], b"10000", b"000000001" + bytes([48]) * 5000, "number of frames"),
        (names.XVECTOR_FILE, b"Append(Offset(input, -2)", b"Append(Offset", "tdnn1.affine sees"),
        (names.SEXES_FILE, b"1001 m", b"1001 m\n1001 f", "says 'f' and 'm' of 1001"),
        (names.SEXES_FILE, b"1001 m", b"1001 x", "expected a name and 'f' or 'm'"),
        (names.SEXES_FILE, b"1001 m\n", b"", r"says nothing of 1 speakers.*\(1001\)"),
        (names.SEXES_FILE, b"1001 m", b"\xff\xff", "cannot be read as text"),
    ],
)  # fmt: skip
def test_files_of_another_kind(tmp_path, key, old, new, words):
    files.write_small(tmp_path)
    assert old in (tmp_path / key).read_bytes()
    swap(tmp_path, key, lambda data: data.replace(old, new))
    with pytest.raises(WeightsError, match=words):
        load("b1", weights=tmp_path, device="cpu")


def official_backend(folder):
    files.write_backend(folder, 512, 8)


def narrow_pool(folder):
    files.write_pool(folder, torch.ones(48, 23))


def utterances(folder):
    from golden import kaldi_writer

    files.place(folder, names.POOL_FILE).write_bytes(kaldi_writer.ark({"1000": torch.ones(3, 24)}))


def not_finite(folder):
    files.write_pool(folder, torch.full((48, 24), float("nan")))


def other_statistics(folder):
    from golden import kaldi_writer

    stats = torch.ones(2, 31)
    files.place(folder, names.CMVN_FILE).write_bytes(kaldi_writer.single(stats))


def no_features(folder):
    files.place(folder, names.CMVN_FILE).write_text(" [\n  5\n  5 ]\n")


def negative_variances(folder):
    from golden import kaldi_writer

    from voiceanon.hub import kaldi

    path = folder / names.PLDA_FILE
    plda = kaldi.read_plda(path)
    path.write_bytes(kaldi_writer.plda(replace(plda, psi=-plda.psi)))


def other_mixture(folder):
    from golden import kaldi_writer

    from voiceanon.hub import kaldi

    ubm = kaldi.DiagGmm(torch.ones(3), torch.ones(3), torch.ones(3, 20), torch.ones(3, 20))
    files.place(folder, names.UBM_FILE).write_bytes(kaldi_writer.diag_gmm(ubm))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (official_backend, "Backend"),
        (narrow_pool, "vectors of 23 values, networks and generator want 24"),
        (utterances, "1000 has 3 rows"),
        (not_finite, "the vector of 1000 is not finite"),
        (other_statistics, "do not fit frames of 30 features"),
        (no_features, "expected two rows of sums with their count"),
        (negative_variances, "variances that are negative"),
        (other_mixture, "16 Gaussians in 20 dimensions"),
    ],
)
def test_files_that_do_not_belong_together(tmp_path, change, words):
    files.write_small(tmp_path)
    change(tmp_path)
    with pytest.raises(WeightsError, match=words):
        load("b1", weights=tmp_path, device="cpu")


@pytest.mark.parametrize("part", ["networks.xvector", "backend"])
@pytest.mark.parametrize("level", ["utterance", "speaker"])
def test_scores_that_are_no_numbers_choose_nobody(tmp_path, part, level):
    files.write_small(tmp_path)
    broken = load("b1", weights=tmp_path, device="cpu", **SMALL)
    for value in broken.get_submodule(part).state_dict().values():
        value.fill_(torch.nan)
    with pytest.raises(ConversionError, match="comparison with the pool"):
        broken.anonymize(SHORT, speaker="a", level=level)
    with pytest.raises(ConversionError, match="comparison with the pool"):
        broken.target_for_speaker(SHORT)


def test_a_saved_system_is_the_same(system, tmp_path):
    system.save_pretrained(tmp_path)
    again = load(tmp_path, device="cpu")
    assert again.config == system.config
    for target in (None, {"ranks": [0, 1], "sex": "m"}):
        results = [
            each.anonymize(SHORT, seed=1, target=target, return_report=True)
            for each in (system, again)
        ]
        assert np.array_equal(results[0][0], results[1][0])
        assert results[0][1].target == results[1][1].target
    assert system.weight_digests.items() <= again.weight_digests.items()


def test_random_weights_have_the_official_sizes():
    from properties.systems import small_xvector_nsf

    with pytest.warns(UserWarning, match="RANDOM WEIGHTS"):
        small = load(
            "b1", device="cpu", **{**small_xvector_nsf(), "candidates": 200, "averaged": 100}
        )
    assert len(small.pool.names) == 1160
    assert sum(small.pool.sex(name) == "m" for name in small.pool.names) == 600
    target = small.draw_target(torch.Generator().manual_seed(0), None)
    assert len(target["ranks"]) == 100
    config = system_config("b1")
    assert (config.candidates, config.averaged, config.distance) == (200, 100, "plda")
    with torch.device("meta"), warnings.catch_warnings():
        from voiceanon.systems.xvector_nsf_networks import Networks, with_sizes

        sizes = with_sizes(config, "b1")
        networks = Networks(sizes)
    count = sum(value.numel() for value in networks.bottleneck.state_dict().values())
    assert round(count / 1e4) == 1605
    assert sizes.generator.input_width == 769
    assert with_sizes(replace(config, vectors="sidekit"), "x").generator.input_width == 513


def test_facts():
    info = system_info("b1")
    assert info.id == "vpc2024-b1"
    assert info.keeps_length
    assert "Not verified against published weights" in info.notes[0]
    assert {(r.metric, r.value) for r in info.published if "test" in r.condition} == {
        ("EER", 6.08), ("WER", 2.91), ("UAR", 42.8),
    }  # fmt: skip
    assert {file.key for file in info.weights} == set(names.weight_keys("kaldi"))
    (private,) = [file for file in info.weights if file.request]
    assert private.key == names.GENERATOR_FILES["kaldi"]
    variant = system_info("b1-sidekit")
    assert not variant.published
    assert not any(file.request for file in variant.weights)
    members = {name for file in variant.weights for name in (file.members or (file.key,))}
    assert members == set(names.weight_keys("sidekit"))
