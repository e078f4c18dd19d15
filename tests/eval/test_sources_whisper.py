"""Whisper through Transformers, with a tiny random model in the layout of the Hub."""

import json

import pytest
import torch
from source_files import UTT

from voiceanon.errors import AudioError, ConfigError, WeightsError
from voiceanon.eval.sources import whisper
from voiceanon.eval.sources.whisper import WhisperRecognizer, load_whisper, whisper_sizes

FACTS = {"label": "tiny", "identity": "random", "training_data": "none", "device": "cpu"}
END = 256
START, PREVIOUS, NO_TIMESTAMPS = 257, 258, 259
SPECIALS = ("<|endoftext|>", "<|startoftranscript|>", "<|startofprev|>", "<|notimestamps|>")
TIMES = tuple(f"<|{i * 0.02:.2f}|>" for i in range(1501))


def byte_letters():
    """The letters that stand for bytes in vocabularies of GPT-2 and its children."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [256 + i for i in range(256 - len(shown))]
    return sorted(chr(c) for c in shown + hidden)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("hub") / "whisper-tiny.en"
    folder.mkdir()
    vocabulary = {letter: i for i, letter in enumerate(byte_letters())}
    tokenizer = transformers.WhisperTokenizer(vocab=vocabulary, merges=[])
    tokenizer.add_special_tokens({"additional_special_tokens": [*SPECIALS[1:], *TIMES]})
    assert tokenizer.convert_tokens_to_ids(list(SPECIALS)) == [END, START, PREVIOUS, NO_TIMESTAMPS]
    tokenizer.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)
    common = {
        "eos_token_id": END,
        "bos_token_id": END,
        "pad_token_id": END,
        "decoder_start_token_id": START,
    }
    torch.manual_seed(0)
    transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=len(tokenizer),
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            max_target_positions=24,
            **common,
        )
    ).save_pretrained(folder)
    settings = {
        **common,
        "no_timestamps_token_id": NO_TIMESTAMPS,
        "prev_sot_token_id": PREVIOUS,
        "is_multilingual": False,
        "max_length": 16,
        "max_initial_timestamp_index": 50,
        # Only bytes and times are left, so that there are texts to compare.
        "suppress_tokens": [END, START, PREVIOUS],
    }
    (folder / "generation_config.json").write_text(json.dumps(settings))
    (folder / "normalizer.json").write_text('{"colour": "color"}')
    return folder


@pytest.fixture(scope="module")
def recognizer(folder):
    return WhisperRecognizer(folder, **FACTS)


def test_batches_equal_single_recordings(recognizer, monkeypatch):
    waves = [UTT[:20_000], UTT[5000:9000], UTT]
    texts = recognizer.transcribe(waves)
    assert texts == [recognizer.transcribe([wave])[0] for wave in waves]
    assert recognizer.transcribe([]) == []
    monkeypatch.setattr(whisper, "BATCH_SIZE", 2)
    assert recognizer.transcribe(waves[::-1]) == texts[::-1]


def test_long_recordings_are_walked_through(recognizer):
    long = UTT.repeat(14)
    assert len(long) > 31 * 16_000
    texts = recognizer.transcribe([UTT, long, UTT])
    assert texts[0] == texts[2] == recognizer.transcribe([UTT])[0]
    assert isinstance(texts[1], str)


def test_texts_are_brought_to_one_form(recognizer):
    assert recognizer.normalise("The COLOUR, um, is twenty-two!") == "THE COLOR IS 22"
    assert recognizer.normalise("MISTER SMITH'S") == recognizer.normalise("Mr. Smith's")


def test_what_cannot_be_transcribed(recognizer):
    with pytest.raises(AudioError, match="recording 0: audio: 1599 samples"):
        recognizer.transcribe([UTT[:1599]])


def test_sizes_and_files(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("VOICEANON_CACHE", str(tmp_path))
    assert set(whisper_sizes()) == {"tiny.en", "base.en", "small.en", "medium.en", "large-v3"}
    with pytest.raises(ConfigError, match="size: 'huge' is none of"):
        load_whisper("huge")
    # The tokenizer of today writes fewer files than are published.
    with pytest.raises(WeightsError, match=r"openai-whisper-tiny\.en: .* weight files are missing"):
        load_whisper("tiny.en", weights=folder.parent)
    for name in ("vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json"):
        path = folder / name
        if not path.exists():
            path.write_text("{}" if name.endswith("json") else "#version: 0.2\n")
    loaded = load_whisper("tiny.en", weights=folder.parent, device="cpu")
    assert loaded.label == "Whisper tiny.en; not the challenge's"
    assert "openai-whisper-tiny.en" in loaded.identity
    (folder / "config.json").rename(folder.parent / "config.json")
    with pytest.raises(WeightsError, match="its files lie in 2 folders"):
        load_whisper("tiny.en", weights=folder.parent)
    (folder.parent / "config.json").rename(folder / "config.json")


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(WeightsError, match="cannot be read as a Whisper model"):
        WhisperRecognizer(tmp_path, **FACTS)
