"""`b3` from files of the published layouts: steps, stored chain, batches, silences, settings."""

import dataclasses
import json

import numpy as np
import pytest
import signals
import torch
import torch.nn.functional as F
from golden.gan_files import FOLDER, LAYOUTS, filled, stored_vectors, table, unpin_vad, write
from golden.seeded_weights import seeded_state_dict

from voiceanon import ConfigError, ConversionError, WeightsError, load
from voiceanon.components.acoustic.fastspeech2 import FastSpeech2
from voiceanon.components.kaiser_resampling import resample_48_to_16
from voiceanon.components.prosody.multipliers import multiply_prosody
from voiceanon.components.prosody.per_phone import prosody_per_phone
from voiceanon.components.speaker.style_tokens import style_window
from voiceanon.components.text.articulatory import features_of
from voiceanon.components.vad.segments import speech_bounds
from voiceanon.components.vocoder.hifigan import B3_RENAMES, HiFiGan
from voiceanon.components.weight_norm import fold_entries
from voiceanon.hub.convert import load_strict
from voiceanon.systems import gan_fastspeech2_stages as stages
from voiceanon.systems.gan_fastspeech2_config import OFFICIAL_VOCODER, GanFastSpeech2Config
from voiceanon.systems.gan_fastspeech2_voices import draw_noise

RATE = 16_000
CHAIN_TOLERANCE = 2e-4
BATCH_TOLERANCE = 1e-4
"""Share of full scale: waveforms of a batch and of single runs. Symbols and frames are equal."""


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEANON_CACHE", str(tmp_path_factory.mktemp("cache")))
        unpin_vad(patch)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def system(folder):
    return load("b3", weights=folder, device="cpu")


def build(folder, **options):
    return load("b3", weights=folder, device="cpu", **options)


def draws(count):
    return [torch.Generator().manual_seed(number) for number in range(count)]


def one(wav):
    return wav[None], torch.tensor([len(wav)])


# Files.


def test_sizes_come_from_the_files(system):
    config = system.config
    assert (config.recognizer.width, config.recognizer.blocks) == (32, 2)
    assert (config.recognizer.vocabulary, config.tokens[-1]) == (40, "<sos/eos>")
    assert (config.aligner_width, config.acoustic.width) == (16, 64)
    assert (config.vocoder.first_width, config.vocoder.strides) == (32, (8, 6, 4, 4))
    assert (config.gan.mean, config.gan.std) == pytest.approx((0.05, 0.4))
    assert set(system.weight_digests) == {
        "asr/asr_branchformer_tts-phn_en.zip",
        "tts/Embedding/embedding_function.pt",
        "tts/Aligner/aligner.pt",
        "tts/FastSpeech2_Multi/prosody_cloning.pt",
        "tts/HiFiGAN_combined/best.pt",
        "anonymization/gan_style-embed/style-embed_wgan.pt",
        "silero_vad.onnx",
    }


def test_sizes_that_are_told_must_be_those_of_the_files(folder):
    assert build(folder, aligner_width=16).config.aligner_width == 16
    with pytest.raises(WeightsError, match=r"aligner\.pt: does not fit Aligner"):
        build(folder, aligner_width=32)


@pytest.mark.parametrize("unpacked", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_the_archives(tmp_path, layout, unpacked):
    system = build(write(tmp_path, layout, unpacked=unpacked))
    stock = system.voices._stock
    if layout == "new":
        assert (system.config.stock, system.config.stock_file) == (5000, False)
        noise = draw_noise(system.config, 16)
        assert torch.equal(stock, system.gan.vectors(noise))
    else:
        assert (system.config.stock, system.config.stock_file) == (30, True)
        assert torch.equal(stock, stored_vectors())


def test_the_stock_depends_on_its_seed_alone(folder, system):
    assert torch.equal(build(folder).voices._stock, system.voices._stock)
    other = build(folder, stock_seed=1, stock=60).voices._stock
    assert other.shape == (60, 128)
    assert not torch.equal(other, system.voices._stock[:60])


def test_a_stock_that_is_asked_for_must_be_there(tmp_path, folder):
    with pytest.raises(WeightsError, match="stock_file=None"):
        build(folder, stock_file=True)
    system = build(write(tmp_path, "old"), stock_file=False)
    assert (system.config.stock, system.config.stock_file) == (5000, False)


def test_a_saved_system_speaks_alike(tmp_path, folder):
    wav = signals.speech(1.0)
    for layout in ("new", "old"):
        place = tmp_path / layout
        place.mkdir()
        system = build(write(place, layout))
        system.save_pretrained(place / "saved")
        again = load(place / "saved", device="cpu")
        assert again.config == system.config
        assert torch.equal(again.anonymize(wav, seed=1), system.anonymize(wav, seed=1))


def changed(tmp_path, place, change):
    """A folder with one file changed: its content, or its bytes."""
    write(tmp_path, "old", unpacked=True)
    path = tmp_path / place
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, path)
    return tmp_path


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        ("tts/Embedding/embedding_function.pt", lambda c: c.pop("style_emb_func"),
         r"expected an entry 'style_emb_func'"),
        ("tts/Embedding/embedding_function.pt",
         lambda c: c["style_emb_func"].pop("gst.stl.gst_embs"),
         r"missing from the file:\n  gst\.stl\.gst_embs"),
        ("tts/Aligner/aligner.pt", lambda c: c["asr_model"].update(more=torch.zeros(1)),
         r"of no use to the network:\n  more"),
        ("tts/FastSpeech2_Multi/prosody_cloning.pt",
         lambda c: c["model"].update({"feat_out.bias": torch.zeros(79)}),
         r"feat_out\.bias: \(79,\), \(80,\)"),
        ("tts/FastSpeech2_Multi/prosody_cloning.pt",
         lambda c: c["model"].update({"encoder.embed.0.weight": torch.zeros(9)}),
         r"prosody_cloning\.pt: FastSpeech2: .*another number of dimensions"),
        ("tts/FastSpeech2_Multi/prosody_cloning.pt", lambda c: c["model"].clear(),
         r"prosody_cloning\.pt"),
        ("tts/FastSpeech2_Multi/prosody_cloning.pt",
         lambda c: c["model"].pop("encoder.embed.0.weight"),
         r"prosody_cloning\.pt: FastSpeech2: the entry 'encoder\.embed\.0\.weight' is missing"),
        ("tts/Aligner/aligner.pt",
         lambda c: c["asr_model"].update({"proj.weight": torch.zeros(145)}),
         r"aligner\.pt: the entry 'proj\.weight' has the shape \(145,\); 2 dimensions"),
        ("tts/HiFiGAN_combined/best.pt",
         lambda c: c["generator"].update({"input_conv.weight_v": torch.zeros(32)}),
         r"best\.pt: the entry 'input_conv\.weight_v' has the shape \(32,\); 3 dimensions"),
        ("tts/FastSpeech2_Multi/prosody_cloning.pt",
         lambda c: c["model"].update({"encoder.language_embedding.weight": torch.zeros(2, 64)}),
         r"of no use to the network:\n  encoder\.language_embedding\.weight"),
        ("tts/HiFiGAN_combined/best.pt",
         lambda c: c["generator"].update({"input_conv.weight_v": torch.zeros(33, 80, 7)}),
         r"best\.pt: HiFi-GAN: first width 33"),
        ("tts/HiFiGAN_combined/best.pt", lambda c: c["generator"].pop("output_conv.1.bias"),
         r"missing from the file:\n  conv_post\.bias"),
        ("anonymization/style-embed_wgan.pt", lambda c: c["model_parameters"].pop("z_dim"),
         r"style-embed_wgan\.pt: WGAN: 'model_parameters'"),
        ("anonymization/style-embed_wgan.pt",
         lambda c: c["model_parameters"].update(data_dim=[1, 1, 192]), "192 values; 128 are due"),
        ("anonymization/style-embed_wgan.pt",
         lambda c: c["generator_state_dict"].pop("module.fc.bias"),
         r"missing from the file:\n  fc\.bias"),
    ],
)  # fmt: skip
def test_entries_that_do_not_fit_are_listed(tmp_path, place, change, message):
    with pytest.raises(WeightsError, match=message):
        build(changed(tmp_path, place, change))


@pytest.mark.parametrize(
    ("stock", "message"),
    [
        (torch.zeros(10, 192), r"128 values, found \(10, 192\)"),
        (torch.zeros(0, 128), r"128 values, found \(0, 128\)"),
        (torch.zeros(4, 1, 128), r"128 values, found \(4, 1, 128\)"),
        (torch.full((4, 128), torch.nan), "not finite"),
    ],
)
def test_a_stock_of_other_vectors_is_refused(tmp_path, stock, message):
    write(tmp_path, "old", unpacked=True)
    name = "anonymization/style-embed_wgan_generated_vectors.pt"
    torch.save(stock, tmp_path / name)
    with pytest.raises(WeightsError, match=f"{message}.*load with stock_file=False"):
        build(tmp_path)
    assert build(tmp_path, stock_file=False).config.stock == 5000


def test_without_a_vector_of_the_source_nothing_is_chosen(folder):
    """Comparing with what is not a number would let the last candidate pass unseen."""
    system = build(folder)
    for parameter in system.style.parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    wav = signals.speech(0.5)
    with pytest.raises(ConversionError, match="vector of a source is not finite"):
        system.anonymize(wav, seed=1)
    assert system.anonymize(wav, seed=1, target=3).isfinite().all()


@pytest.mark.parametrize(
    ("option", "value"),
    [("embedding", "pool"), ("silences", "long"), ("selection", "any"), ("source_sex", "x"),
     ("tries", 0), ("stock", 0), ("averaged", 0), ("centroids", 0), ("farthest", 50),
     ("mixed_share", 1.5), ("prosody_range", (140, 60)), ("prosody_range", (-1, 60)),
     ("beam", 0), ("ctc_weight", 2.0),
     # Of another type, or of no value: found here, not by the first recording.
     ("tries", 2.5), ("tries", True), ("stock", "60"), ("farthest", 200.0), ("beam", 2.5),
     ("threshold", float("nan")), ("threshold", "0.7"), ("threshold", 70), ("stock_seed", None),
     ("stock_seed", b"secret"), ("stock_file", "yes"), ("adapt", "no"), ("mixed_share", "half"),
     ("source_sexes", {"anna": "female"}), ("source_sexes", {"anna": ["f"]}),
     ("aligner_width", 0), ("aligner_width", "512"),
     ("source_sexes", "f"), ("prosody_range", (60.5, 140)), ("prosody_range", (60, 100, 140)),
     ("prosody_range", 60), ("ctc_weight", "0.2")],
)  # fmt: skip
def test_bad_settings_are_refused(option, value):
    words = {"prosody_range": "prosody_range", "ctc_weight": "weight of CTC"}
    with pytest.raises(ConfigError, match=words.get(option, option)):
        GanFastSpeech2Config(**{option: value})


# The chain.


def stored(name, array):
    return torch.from_numpy(np.load(FOLDER / f"{name}.npz")[array])


def official(module, name, **how):
    state = seeded_state_dict(table(name))
    load_strict(module, state, file=FOLDER / f"{name}.pt", **how)
    return module.eval()


@torch.inference_mode()
def test_the_stored_chain_from_prosody_to_waveform():
    """Official sizes: acoustic model, vocoder, zeros at 48 kHz, 16 kHz."""
    acoustic = official(FastSpeech2(), "fastspeech2_prosody_cloning")
    vocoder = official(
        HiFiGan(OFFICIAL_VOCODER), "hifigan_best", renames=B3_RENAMES, fold=fold_entries
    )
    spoken = acoustic(
        stored("fastspeech2", "text").float()[None],
        torch.tensor([23]),
        stored("fastspeech2", "utt_emb")[None],
        stored("prosody", "durations")[None],
        stored("prosody", "anon_pitch")[None, :, 0],
        stored("prosody", "anon_energy")[None, :, 0],
    )
    wav, lengths = vocoder(spoken.mel, spoken.frames)
    silences = (stored("chain", name)[None] for name in ("start_silence", "end_silence"))
    result, count = resample_48_to_16(*stages.put_zeros_around(wav, lengths, *silences))
    expected = stored("chain", "wave16")
    for name, piece in (("first", wav[0, :2000]), ("last", wav[0, -2000:])):
        assert (piece - stored("chain", f"wave48_{name}2000")).abs().max() <= CHAIN_TOLERANCE
    assert count.tolist() == [len(expected)] == [30725]
    assert float((result[0] - expected).abs().max()) <= CHAIN_TOLERANCE


class Probabilities(torch.nn.Module):
    """A detector that has been told what it hears."""

    def __init__(self, *rows):
        super().__init__()
        self.rows = [torch.tensor(row) for row in rows]

    def forward(self, wav, lengths):
        blocks = torch.tensor([len(row) for row in self.rows])
        return torch.nn.utils.rnn.pad_sequence(self.rows, True), blocks


def test_silence_is_cut_off_as_stored(folder):
    """The stored recording, at a third of its level, beside one without speech."""
    system = build(folder)
    heard = json.loads((FOLDER / "vad.json").read_text())["v4_2023-04-28"]["utt"]["probs"]
    wave = stored("audio", "wave")
    batch = torch.zeros(2, 37840)
    batch[0, 7200:34272] = wave / 3
    batch[1, :30000] = signals.noise(30000 / RATE)
    system.vad = Probabilities(heard, [0.1] * 59)
    cut = system._cut(batch, torch.tensor([37840, 30000]))
    assert cut.lengths.tolist() == [27072, 30000]
    assert (cut.before.tolist(), cut.after.tolist()) == ([7200, 0], [3568, 0])
    assert float((cut.wav[0, :27072] - wave).abs().max()) <= 1e-6
    mel, frames = system.log_mel(cut.wav, cut.lengths)
    assert frames.tolist() == [106, 118]
    assert float((mel[0, :106] - stored("audio", "logmel")).abs().max()) <= 1e-4


@torch.inference_mode()
def test_convert_takes_the_published_steps(system):
    """Each step by hand, for one recording, in the order of section 1 of the sheet."""
    wav = signals.speech(1.7, seed=4)
    batch, lengths = one(wav)
    (text,) = system.recognizer.transcribe(batch, lengths)
    assert len(text) > 10
    normalised = wav / wav.abs().max()
    probabilities, blocks = system.vad(*one(normalised))
    start, end, _ = (int(bound) for bound in speech_bounds(probabilities, blocks, lengths))
    piece = normalised[start:end]
    mel, frames = system.log_mel(*one(piece))
    phones = features_of("~" + text + "~#")
    generator = torch.Generator().manual_seed(5)
    count = torch.tensor([len(phones.ids)])
    outputs = system.aligner.adapt(mel, frames, phones.ids[None], count, [generator])
    symbols = stages.read_phones([text], torch.device("cpu"))
    assert torch.equal(symbols.vectors[0], phones.vectors)
    durations = stages.durations_of(outputs, frames, symbols)
    assert int(durations.sum()) == int(frames)
    pitch, energy = prosody_per_phone(*one(piece), durations, phones.vectors[None])
    pitch, energy = multiply_prosody(
        pitch, energy, torch.tensor([len(phones.vectors)]), [generator], range=(60, 140)
    )
    speaker = system.voices._stock[17]
    spoken = system.acoustic(
        phones.vectors[None], symbols.counts, speaker[None], durations, pitch, energy
    )
    loud, samples = system.vocoder(spoken.mel, spoken.frames)
    silence = (torch.zeros(1, start), torch.zeros(1, len(wav) - end))
    whole = torch.cat([silence[0], loud, silence[1]], 1)
    expected, _ = resample_48_to_16(whole, torch.tensor([whole.shape[1]]))
    assert int(samples) == 768 * int(frames)
    result, counts = system.convert(
        batch, lengths, [{"vector": 17}], [torch.Generator().manual_seed(5)]
    )
    assert counts.tolist() == [expected.shape[1]]
    assert float((result - expected).abs().max()) <= 1e-6


def mixed():
    waves = [signals.speech(s, seed=i) for i, s in enumerate((0.3, 3.2, 1.0, 2.1, 0.02))]
    return [*waves, torch.full((RATE,), 1e-6), signals.noise(1.5)]


def test_a_batch_of_mixed_lengths_equals_single_runs_in_any_order(system, monkeypatch):
    # A CPU runs them one by one by itself.
    monkeypatch.setattr(system, "info", dataclasses.replace(system.info, cpu_batch_seconds=None))
    waves = mixed()
    keys = [f"utt-{i}" for i in range(len(waves))]
    alone = [
        system.anonymize(w, seed=7, key=k, return_report=True)
        for w, k in zip(waves, keys, strict=True)
    ]
    for order in (range(len(waves)), [5, 2, 0, 6, 3, 1, 4]):
        results, reports = system.anonymize_batch(
            [waves[i] for i in order], seed=7, keys=[keys[i] for i in order], return_reports=True
        )
        for i, result, report in zip(order, results, reports, strict=True):
            expected, single = alone[i]
            assert report.target == single.target
            assert result.shape == expected.shape
            assert float((result - expected).abs().max()) <= BATCH_TOLERANCE


def test_garbage_in_the_padding_does_not_matter(system):
    waves = [signals.speech(0.8), signals.speech(2.0)]
    lengths = torch.tensor([len(wav) for wav in waves])
    targets = [{"vector": 1}, {"candidates": [4, 5], "window": 0.3}]
    results = []
    for value in (0.0, 0.7, float("nan")):
        batch = torch.nn.utils.rnn.pad_sequence(waves, True, value)
        with torch.inference_mode():
            results.append(system.convert(batch, lengths, targets, draws(2)))
    for wav, counts in results[1:]:
        assert torch.equal(counts, results[0][1])
        assert torch.equal(wav, results[0][0])


@pytest.mark.parametrize("silences", ["published", "fixed"])
def test_silences_at_both_ends(folder, silences):
    """The vocoder's sound has 256 samples for each frame; what lies around it is cut off here."""
    system = build(folder, silences=silences)
    wav = torch.cat([torch.zeros(9000), signals.speech(1.0), torch.zeros(6001)])
    speech = [0.0] * 19 + [0.9] * 28 + [0.0] * 14
    system.vad = Probabilities(speech)
    result = system.anonymize(wav, seed=1)
    start, end = 19 * 512 - 480, 47 * 512 + 480
    sound = 256 * (1 + (end - start) // 256)
    after = len(wav) - end
    expected = (
        (start + 3 * sound + after) // 3 if silences == "published" else (start + sound + after)
    )
    assert len(result) == expected
    before = start // 3 if silences == "published" else start
    # The filter of the resampling reaches over 50 samples.
    assert float(result[: before - 50].abs().max()) < 1e-6
    assert float(result[before : before + 256].abs().max()) > 1e-3


@pytest.mark.parametrize("text", ["", " ", "…,", "a"])
def test_transcripts_with_hardly_any_symbols(folder, text):
    system = build(folder)
    system.recognizer.transcribe = lambda wav, lengths: [text] * len(wav)
    wav = signals.speech(1.2)
    result = system.anonymize(wav, seed=1)
    assert len(result) == 256 * (1 + len(wav) // 256)
    assert bool(result.isfinite().all())


@pytest.mark.parametrize("samples", [1, 15, 400, 1023])
def test_short_recordings(system, samples):
    result = system.anonymize(signals.noise(samples / RATE)[:samples], seed=1)
    assert bool(result.isfinite().all())
    assert len(result) == 256 * (1 + 1024 // 256)


def test_settings_change_what_they_should(folder, system):
    wav = signals.speech(1.5)
    expected = system.anonymize(wav, seed=1, target=3)
    assert torch.equal(build(folder).anonymize(wav, seed=1, target=3), expected)
    for options in (
        {"adapt": False},
        {"prosody_range": None},
        {"prosody_range": (70, 131)},
        {"beam": 1},
    ):
        result = build(folder, **options).anonymize(wav, seed=1, target=3)
        assert not torch.equal(F.pad(result, (0, len(expected))), F.pad(expected, (0, len(result))))
    plain = build(folder, adapt=False, prosody_range=None)
    # Nothing is drawn any more.
    assert torch.equal(
        plain.anonymize(wav, seed=1, target=3), plain.anonymize(wav, seed=2, target=3)
    )


# Voices.


def test_the_first_unlike_voice_is_taken(system):
    """Each candidate against the source's vector by hand."""
    wav = signals.speech(3.0, seed=9)
    stock = system.voices._stock
    vector = system.source_vectors(*one(wav), torch.tensor([0.25]))
    similarity = F.cosine_similarity(vector, stock)
    order = similarity.argsort()
    near, far = order[-3:].tolist(), order[:2].tolist()
    threshold = float(similarity[order[-4]]) + 1e-6
    for tried, expected in (
        ([near[0], far[0], far[1]], far[0]),
        ([near[0], near[1], near[2]], near[2]),
        ([far[1]], far[1]),
    ):
        system.config = GanFastSpeech2Config(**{**vars(system.config), "threshold": threshold})
        system._voices = None
        target = {"candidates": tried, "window": 0.25}
        settled = system.settle_targets(*one(wav), [target])
        assert settled == [{"vector": expected}]
        assert system.settle_targets(*one(wav), settled) == settled
    system.config = GanFastSpeech2Config(**{**vars(system.config), "threshold": 0.7})
    system._voices = None


def test_the_window_is_that_of_the_target(system):
    wav = signals.speech(8.0)
    cut = system._cut(*one(wav))
    mel, frames = system.log_mel(cut.wav, cut.lengths)
    expected = system.style(style_window(mel, frames, torch.tensor([0.5])))
    assert torch.equal(system.source_vectors(*one(wav), torch.tensor([0.5])), expected)
    other = system.source_vectors(*one(wav), torch.tensor([0.0]))
    assert not torch.allclose(other, expected)


def test_drawn_and_settled_voices_are_targets(system):
    wav = signals.speech(1.0)
    result, report = system.anonymize(wav, seed=3, key="a", return_report=True)
    drawn = system.draw_target(torch.Generator().manual_seed(1), None)
    assert len(drawn["candidates"]) == 20
    assert 0 <= drawn["window"] < 1
    assert json.loads(json.dumps(drawn)) == drawn
    for target in (report.target, report.target["vector"]):
        assert torch.equal(system.anonymize(wav, seed=3, key="a", target=target), result)
    again, other = system.anonymize(wav, seed=3, key="a", target=drawn, return_report=True)
    assert other.target["vector"] in drawn["candidates"]
    assert again.shape == result.shape


@pytest.mark.parametrize(
    "target",
    [5000, -1, True, "x", {}, {"vector": 1.0}, {"candidates": [], "window": 0.1},
     {"candidates": [1, 9999], "window": 0.1}, {"candidates": [1], "window": 1.0},
     {"candidates": [1]}],
)  # fmt: skip
def test_what_is_no_voice_is_refused(system, target):
    with pytest.raises(ConfigError, match="target"):
        system.anonymize(signals.speech(0.5), target=target)


def test_all_chunks_and_channels_share_a_voice(system):
    """The voice is settled with the first chunk of the first channel."""
    wav = torch.stack([signals.speech(2.5, seed=1), signals.speech(2.5, seed=2)])
    result, report = system.anonymize(wav, seed=1, chunk_seconds=1.0, return_report=True)
    assert report.chunks == 3
    alone, single = system.anonymize(wav[0], seed=1, chunk_seconds=1.0, return_report=True)
    assert report.target == single.target == {"vector": single.target["vector"]}
    assert torch.equal(result[0, : len(alone)], alone)


def test_a_speaker_has_candidates_in_common(system):
    """Which of them an utterance gets depends on its own sound."""
    waves = [signals.speech(1.0, seed=i) for i in range(3)]
    _, reports = system.anonymize_batch(
        waves, seed=1, keys=["a", "b", "c"], speakers=["s"] * 3, level="speaker",
        return_reports=True,
    )  # fmt: skip
    # Nothing is refused here: seeded vectors are hardly like each other.
    assert len({report.target["vector"] for report in reports}) == 1


def test_pools_are_for_the_other_embeddings(system):
    with pytest.raises(ConfigError, match="artificial speakers"):
        system.use_pool({"a": signals.speech(1.0)})


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_official_size_with_random_weights():
    """178 million values: one utterance, end to end."""
    with pytest.warns(UserWarning, match="RANDOM WEIGHTS"):
        system = load("b3", weights="random", device="cpu")
    parts = system.components
    counts = [sum(p.numel() for p in part.parameters()) for part in parts if part is not None]
    assert (counts[0], counts[6]) == (109_348_040, 46_813_839)
    result = system.anonymize(signals.speech(3.0), seed=1)
    assert bool(torch.isfinite(result).all())
    assert len(result) > 0


def test_no_entry_is_left_at_its_initial_value(system):
    """All that the files hold is in the networks."""
    loaded = system.state_dict()
    expected = {f"acoustic.{n}": v for n, v in filled(table("fastspeech2_reduced")).items()}
    expected |= {f"style.{n}": v for n, v in filled(table("embedding_function")).items()}
    expected |= {f"recognizer.{n}": v for n, v in filled(table("asr_reduced")).items()}
    assert all(torch.equal(loaded[name], value) for name, value in expected.items())
    parts = {name.split(".")[0] for name in loaded}
    assert parts == {"recognizer", "vad", "style", "aligner", "gan", "acoustic", "vocoder"}
