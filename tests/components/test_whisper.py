"""Whisper held to transformers: features, networks, tokens, long recordings."""

import math

import numpy as np
import pytest
import torch
from golden.asr_tts_files import (
    END,
    NO_TIMESTAMPS,
    POSITIONS,
    START,
    TEXT_TOKENS,
    hub_whisper,
    whisper_vocabulary,
)
from torch.nn.utils.rnn import pad_sequence

from voiceanon.components.asr.log_mel import LogMel
from voiceanon.components.asr.vocabulary import (
    Vocabulary,
    artificial_tokens,
    published_tokens,
)
from voiceanon.components.asr.whisper import Whisper
from voiceanon.components.asr.whisper_config import WhisperConfig
from voiceanon.components.asr.whisper_decoding import (
    Times,
    TokenRules,
    compression_ratio,
    write,
)
from voiceanon.components.asr.whisper_recognizer import (
    WhisperChecks,
    WhisperRecognizer,
    cut_segments,
)
from voiceanon.errors import WeightsError

RATE = 16_000
NO_CHECKS = WhisperChecks(compression_ratio=1e9, log_probability=-1e9)
WINDOW = 2 * POSITIONS

MEL_TOLERANCE = 1e-5
"""Absolute, on values of about -1 to 1.5: another FFT. Transformers promises the same for its own
two ways."""

TOLERANCE = 2e-6
"""Share of the peak: attention and sums in another order."""


def ours(model):
    """Our networks with the weights of transformers'."""
    config = WhisperConfig.from_published(
        model.config.to_dict(), model.generation_config.to_dict(), 0
    )
    network = Whisper(config).eval()
    state = {n.removeprefix("model."): v for n, v in model.model.state_dict().items()}
    network.load_state_dict(state, strict=True)
    return network


def recognizer_of(model, checks=NO_CHECKS):
    tokens = published_tokens(whisper_vocabulary(), TEXT_TOKENS)
    return WhisperRecognizer(ours(model), Vocabulary(tokens), checks).eval()


def noise(seconds, seed=0, level=0.1):
    draws = torch.Generator().manual_seed(seed)
    steps = torch.linspace(0, 20 * seconds, round(seconds * RATE))
    return level * torch.randn(len(steps), generator=draws) * torch.sin(steps).abs()


def near(result, expected, tolerance=TOLERANCE):
    return float((result - expected).abs().max() / expected.abs().max()) <= tolerance


@pytest.fixture(scope="module")
def model():
    return hub_whisper(0)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def inference():
    with torch.inference_mode():
        yield


# Features.


@pytest.mark.parametrize("bins", [80, 128])
@pytest.mark.parametrize("seconds", [3.0, 0.0001, 4.71])
def test_log_mel_equals_that_of_transformers(bins, seconds):
    from transformers import WhisperFeatureExtractor

    wave = noise(seconds)
    extractor = WhisperFeatureExtractor(feature_size=bins)
    expected = extractor(wave.numpy(), sampling_rate=RATE, return_tensors="pt").input_features
    found = LogMel(bins)(wave[None], torch.tensor([len(wave)]), 30 * RATE)[..., :3000]
    assert float((found - expected).abs().max()) <= MEL_TOLERANCE


def test_log_mel_of_a_batch_equals_single_ones():
    waves = [noise(s, seed=i, level=10.0**-i) for i, s in enumerate((0.5, 2.0, 1.111))]
    lengths = torch.tensor([len(wave) for wave in waves])
    log_mel = LogMel(80)
    together = log_mel(pad_sequence(waves, True, float("nan")), lengths, RATE)
    assert bool(together.isfinite().all())
    for wave, row in zip(waves, together, strict=True):
        alone = log_mel(wave[None], torch.tensor([len(wave)]), RATE)[0]
        assert torch.allclose(row[:, : alone.shape[1]], alone, atol=1e-6)


# Networks.


def test_the_encoder_equals_that_of_transformers(model):
    features = torch.randn(3, 80, WINDOW)
    expected = model.model.encoder(features).last_hidden_state
    assert near(ours(model).encoder(features), expected)


def test_the_decoder_equals_that_of_transformers_in_any_steps(model):
    network = ours(model)
    encoded = torch.randn(2, POSITIONS, 32)
    tokens = torch.randint(0, END, (2, 12))
    hidden = model.model.decoder(tokens, encoder_hidden_states=encoded).last_hidden_state
    expected = model.proj_out(hidden)
    for steps in ([12], [1] * 12, [3, 1, 5, 3]):
        memory = network.decoder.start(encoded)
        parts = [network.decoder(part, memory, 12) for part in tokens.split(steps, 1)]
        assert near(network.logits(torch.cat(parts, 1)), expected)


# Tokens.


def hub_tokens(model, features, **options):
    """What transformers writes for single windows, without prompt and end."""
    written = model.generate(
        features,
        return_timestamps=True,
        force_unique_generate_call=True,
        max_new_tokens=30,
        max_length=None,
        **options,
    )
    rows = [[t for t in row if t != START] for row in written.tolist()]
    return [row[: row.index(END)] if END in row else row for row in rows]


def quiet(function, *args, **options):
    """Transformers warns of its own choices."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_greedy_tokens_equal_those_of_transformers(seed):
    model = hub_whisper(seed)
    recognizer = recognizer_of(model)
    features = torch.randn(6, 80, WINDOW, generator=torch.Generator().manual_seed(seed))
    expected = quiet(hub_tokens, model, features)
    encoded = recognizer.network.encoder(features)
    written = write(recognizer.network, recognizer.rules, encoded)
    rows = [row[:n] for row, n in zip(written.tokens.tolist(), written.counts, strict=True)]
    assert rows == expected
    assert len({len(row) for row in rows}) > 1 or max(map(len, rows)) == 30
    for i in range(6):
        alone = write(recognizer.network, recognizer.rules, encoded[i : i + 1])
        assert alone.tokens[0, : alone.counts[0]].tolist() == rows[i]
        assert torch.allclose(alone.log_probability, written.log_probability[i], atol=1e-5)


def test_scores_equal_those_of_transformers(model):
    from transformers import WhisperForConditionalGeneration

    recognizer = recognizer_of(model)
    features = torch.randn(1, 80, WINDOW, generator=torch.Generator().manual_seed(9))
    written = write(recognizer.network, recognizer.rules, recognizer.network.encoder(features))
    count = int(written.counts[0]) + int(written.counts[0] < 30)
    tokens = written.tokens[0, :count]
    ids = torch.cat([torch.tensor([START]), tokens])[None]
    logits = model(input_features=features, decoder_input_ids=ids).logits[0]
    scores, times = [recognizer.rules.first(logits[:1])], None
    yes = torch.ones(1, dtype=torch.bool)
    times = Times(yes, yes, torch.tensor([NO_TIMESTAMPS]))
    for step in range(1, count):
        times.add(tokens[step - 1 : step], NO_TIMESTAMPS + 1)
        scores.append(recognizer.rules.later(logits[step : step + 1], times))
    expected = WhisperForConditionalGeneration._retrieve_avg_logprobs(
        [s[0] for s in scores], tokens, 0.0
    )
    assert float(written.log_probability) == pytest.approx(float(expected), abs=1e-5)
    no_speech = logits[0].softmax(-1)[NO_TIMESTAMPS - 1]
    assert float(written.no_speech) == pytest.approx(float(no_speech), abs=1e-6)
    ratio = WhisperForConditionalGeneration._retrieve_compression_ratio(tokens, 258)
    assert compression_ratio(tokens.tolist(), 258) == ratio


def test_an_early_end_is_noticed(model):
    """Where the end comes soon, decoding stops before all tokens are written."""
    recognizer = recognizer_of(model)
    with torch.no_grad():
        weights = recognizer.network.decoder.embed_tokens.weight
        weights[END] = 3 * recognizer.network.decoder.layer_norm.bias
        recognizer.network.decoder.layer_norm.weight.mul_(0.1)
        recognizer.network.decoder.layer_norm.bias.mul_(10)
    encoded = recognizer.network.encoder(torch.randn(2, 80, WINDOW))
    written = write(recognizer.network, recognizer.rules, encoded)
    assert written.tokens.shape[1] == 16
    assert int(written.counts.max()) < 16


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_long_recordings_equal_transformers_token_by_token(seed):
    """A batch of several lengths, walked through by the predicted times."""
    from voiceanon.components.asr import whisper_recognizer

    model = hub_whisper(seed)
    recognizer = recognizer_of(model)
    lengths = [410, 733, 250]
    features = torch.randn(3, 80, 733, generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(733) < torch.tensor(lengths)[:, None]
    expected = quiet(
        model.generate,
        features,
        attention_mask=mask.long(),
        return_timestamps=True,
        return_segments=True,
        max_new_tokens=30,
        max_length=None,
    )["segments"]
    walks = [whisper_recognizer._Walk(row, n) for row, n in enumerate(lengths)]
    while ahead := [walk for walk in walks if walk.seek < walk.frames]:
        recognizer._step(ahead, features, [torch.Generator()] * 3)
    for walk, segments in zip(walks, expected, strict=True):
        assert [piece[2] for piece in walk.pieces] == [
            [t for t in s["tokens"].tolist() if t < END] for s in segments
        ]
        for (start, end, _), s in zip(walk.pieces, segments, strict=True):
            assert start == pytest.approx(float(s["start"]), abs=1e-9)
            assert end == pytest.approx(float(s["end"]), abs=1e-9)


def test_a_multilingual_whisper_is_told_language_and_task(model):
    generation = {
        **model.generation_config.to_dict(),
        "lang_to_id": {"<|de|>": 202, "<|en|>": 203},
        "task_to_id": {"transcribe": 204, "translate": 205},
    }
    config = WhisperConfig.from_published(model.config.to_dict(), generation, 0)
    assert config.prompt == (START, 203, 204)
    network = Whisper(config)
    network.load_state_dict(ours(model).state_dict())
    encoded = torch.randn(2, POSITIONS, 32)
    written = write(network, TokenRules(config), encoded)
    ids = torch.cat([torch.tensor([config.prompt] * 2), written.tokens[:, :8]], 1)
    hidden = model.model.decoder(ids, encoder_hidden_states=encoded).last_hidden_state
    logits = model.proj_out(hidden)
    expected = logits[:, 0].softmax(-1)[:, NO_TIMESTAMPS - 1]
    assert torch.allclose(written.no_speech, expected, atol=1e-6)
    first = TokenRules(config).first(logits[:, 2]).argmax(-1)
    assert torch.equal(written.tokens[:, 0], first)


# Rules.


@pytest.fixture(scope="module")
def rules(model):
    return TokenRules(ours(model).config)


def allowed(rules, *tokens, favourite=None):
    """Tokens that may follow."""
    logits = torch.zeros(1, rules.config.vocabulary)
    if favourite is not None:
        logits[0, favourite] = 50.0
    if not tokens:
        return rules.first(logits)[0].isfinite().nonzero()[:, 0].tolist()
    yes = torch.ones(1, dtype=torch.bool)
    times = Times(yes, yes, torch.tensor([NO_TIMESTAMPS]))
    for token in tokens:
        times.add(torch.tensor([token]), rules.config.first_time)
    return rules.later(logits, times)[0].isfinite().nonzero()[:, 0].tolist()


def test_the_rules_for_times(rules):
    zero = NO_TIMESTAMPS + 1
    last = zero + POSITIONS
    assert allowed(rules) == list(range(zero, zero + 11))
    after_start = allowed(rules, zero + 3, favourite=5)
    assert all(token < zero for token in after_start)
    assert END in after_start
    in_words = allowed(rules, zero + 3, 5, favourite=6)
    assert [t for t in in_words if t >= zero] == list(range(zero + 4, last + 1))
    ended = allowed(rules, zero + 3, 5, zero + 9, favourite=END)
    assert [t for t in ended if t < END] == []
    assert [t for t in ended if t >= zero] == list(range(zero + 9, last + 1))
    begun = allowed(rules, zero + 3, 5, zero + 9, zero + 9, favourite=6)
    assert [t for t in begun if t >= zero] == []
    assert not {1, 2, 7, NO_TIMESTAMPS} & set(in_words)
    assert 20 in in_words


def test_times_win_where_they_are_likelier_together(rules):
    """50 times of equal probability against one word that is likelier than each."""
    logits = torch.zeros(1, rules.config.vocabulary)
    yes = torch.ones(1, dtype=torch.bool)
    times = Times(~yes, yes, torch.tensor([NO_TIMESTAMPS + 1]))
    for value, expected in ((3.0, True), (5.0, False)):
        logits[0, 6] = value
        scores = rules.later(logits, times)
        assert bool(scores.argmax() > NO_TIMESTAMPS) == expected
    assert math.exp(3.0) < POSITIONS < math.exp(5.0)


# Recordings.


@pytest.fixture(scope="module")
def recognizer(model):
    return recognizer_of(model)


def transcribe(recognizer, waves, padding=0.0):
    lengths = torch.tensor([len(wave) for wave in waves])
    batch = pad_sequence(waves, batch_first=True, padding_value=padding)
    return recognizer.transcribe(batch, lengths, [torch.Generator() for _ in waves])


def test_a_batch_of_mixed_lengths_equals_single_runs_in_any_order(recognizer):
    waves = [noise(s, seed=i) for i, s in enumerate((0.4, 5.2, 1.0, 0.05, 2.7, 3.0, 0.9))]
    alone = [transcribe(recognizer, [wave])[0] for wave in waves]
    assert sum(len(each.segments) for each in alone) > 10
    assert transcribe(recognizer, waves, float("nan")) == alone
    assert transcribe(recognizer, waves[::-1], 0.5) == alone[::-1]


def test_segments_lie_within_their_recording(recognizer):
    for seconds in (0.3, 1.0, 4.4):
        (found,) = transcribe(recognizer, [noise(seconds)])
        for segment in found.segments:
            assert 0 <= segment.start <= segment.end
            assert segment.end <= seconds
            assert segment.text == segment.text.strip() != ""


def test_less_than_a_frame_gives_nothing(recognizer):
    assert transcribe(recognizer, [torch.full((159,), 0.1)])[0].segments == ()


def test_a_default_type_of_double_changes_nothing(recognizer):
    wave = noise(2.2)
    expected = transcribe(recognizer, [wave])
    torch.set_default_dtype(torch.float64)
    try:
        assert transcribe(recognizer, [wave]) == expected
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("checks", "reason"),
    [
        (WhisperChecks(compression_ratio=1e9, log_probability=0.0, no_speech=2.0), "unlikely"),
        (WhisperChecks(compression_ratio=1e9, log_probability=0.0, no_speech=-1.0), "no speech"),
        (WhisperChecks(compression_ratio=0.0, log_probability=-1e9), "repetitions"),
    ],
)
def test_windows_that_fail_a_check_are_dropped(model, checks, reason):
    (found,) = transcribe(recognizer_of(model, checks), [noise(2.5)])
    assert found.segments == ()
    assert len(found.rejected) == 3  # one per window of a second
    assert all(reason in each for each in found.rejected)


def test_a_failed_window_is_drawn_again_at_the_next_temperature(model):
    """What is drawn depends on the recording's generator alone."""
    checks = WhisperChecks(
        temperatures=(0.0, 0.8), compression_ratio=0.0, log_probability=-1e9, no_speech=2.0
    )
    recognizer = recognizer_of(model, checks)
    tried = []

    def fault(tokens, count, log_probability, no_speech):
        tried.append(tokens[:count])
        return ("bad", False) if len(tried) % 2 else ("", False)

    recognizer._fault = fault

    def run(seed):
        tried.clear()
        wave = noise(0.8)[None]
        lengths = torch.tensor([wave.shape[1]])
        recognizer.transcribe(wave, lengths, [torch.Generator().manual_seed(seed)])
        return list(tried)

    first, again, other = run(1), run(1), run(2)
    assert first == again
    assert first[0] == other[0]  # greedy
    assert first[1] != other[1]
    assert first[1] != first[0]


def test_draws_follow_the_distribution():
    from voiceanon.components.asr.whisper_decoding import _choose

    scores = torch.tensor([0.0, -math.inf, 1.0, 2.0]).expand(4000, -1)
    chance = torch.rand(4000, generator=torch.Generator().manual_seed(0))
    drawn = torch.bincount(_choose(scores, 0.5, chance), minlength=4) / 4000
    expected = (scores[0] / 0.5).softmax(-1)
    assert torch.allclose(drawn, expected, atol=0.02)
    assert drawn[1] == 0
    edges = _choose(scores[:2], 1.0, torch.tensor([0.0, 1 - 2**-24]))
    assert edges.tolist() == [0, 3]


def test_segments_of_a_window():
    config = WhisperConfig(source_positions=50)
    zero = config.first_time

    def cut(*tokens, frames=1000):
        pieces, moved = cut_segments(list(tokens), config, frames)
        return [(round(start, 2), round(end, 2), words) for start, end, words in pieces], moved

    assert cut(zero, 5, 6, zero + 20, zero + 25, 7, zero + 40) == (
        [(0.0, 0.4, [5, 6]), (0.5, 0.8, [7])], 100,
    )  # fmt: skip
    # The second is not finished, so the next window begins with it.
    assert cut(zero, 5, 6, zero + 20, zero + 20, 7, 8) == ([(0.0, 0.4, [5, 6])], 40)
    assert cut(zero, 5, 6) == ([(0.0, 1.0, [5, 6])], 100)
    assert cut(zero, 5, zero + 30) == ([(0.0, 0.6, [5])], 100)
    assert cut(zero, 5, 6, frames=30) == ([(0.0, 0.3, [5, 6])], 30)


# Words.


def test_the_published_vocabulary_is_read_as_transformers_reads_it():
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    code = bytes_to_unicode()
    text = "Grüße, 你好 €5\n"
    tokens = ["".join(code[b] for b in part.encode()) for part in ("Grü", "ße,", " 你", "好 €5\n")]
    # A character that is split between tokens.
    euro = "".join(code[b] for b in "€".encode())
    vocabulary = {token: i for i, token in enumerate([*tokens, euro[:2], euro[2:], "<|special|>"])}
    words = Vocabulary(published_tokens(vocabulary, 6))
    assert words.decode([[0, 1, 2, 3], [4, 5], [5, 6, 900], []]) == [text, "€", "�", ""]


def test_made_up_words_fill_the_vocabulary():
    words = Vocabulary(artificial_tokens(4900, 0))
    texts = words.decode([[i] for i in range(4900)])
    assert len(set(texts)) == 4900
    assert all(text.strip().isalpha() and text.isascii() for text in texts)
    again = Vocabulary(artificial_tokens(4900, int(words.ends[-1])))
    again.load_state_dict(words.state_dict(), strict=True)
    assert again.decode([[7]]) == texts[7:8]


# Sizes.


def test_the_default_is_whisper_medium_english():
    """Names and shapes of all entries, and 763.9 million values."""
    from transformers import WhisperConfig as HubConfig
    from transformers import WhisperModel

    settings = {
        "vocab_size": 51_864, "d_model": 1024, "encoder_layers": 24, "decoder_layers": 24,
        "encoder_attention_heads": 16, "decoder_attention_heads": 16, "encoder_ffn_dim": 4096,
        "decoder_ffn_dim": 4096,
    }  # fmt: skip
    with torch.device("meta"):
        published = WhisperModel(HubConfig(**settings)).state_dict()
        found = Whisper(WhisperConfig()).state_dict()
    assert {n: v.shape for n, v in found.items()} == {n: v.shape for n, v in published.items()}
    assert round(sum(v.numel() for v in found.values()) / 1e6, 1) == 763.9
    generation = {
        "decoder_start_token_id": 50_257, "eos_token_id": 50_256, "no_timestamps_token_id": 50_362,
        "begin_suppress_tokens": [220, 50_256], "max_initial_timestamp_index": 50,
    }  # fmt: skip
    read = WhisperConfig.from_published(HubConfig(**settings).to_dict(), generation, 0)
    assert read == WhisperConfig()
    assert (read.window_samples, read.most_tokens) == (480_000, 224)


def test_files_of_another_network_are_refused(model):
    settings, generation = model.config.to_dict(), model.generation_config.to_dict()
    with pytest.raises(WeightsError, match="activation_function 'relu'"):
        WhisperConfig.from_published({**settings, "activation_function": "relu"}, generation, 0)
    generation.pop("no_timestamps_token_id")
    with pytest.raises(WeightsError, match="no_timestamps_token_id"):
        WhisperConfig.from_published(settings, generation, 0)


def test_half_precision_writes_nearly_the_same(recognizer):
    wave = noise(1.0)[None]
    lengths = torch.tensor([wave.shape[1]])
    features = recognizer.log_mel(wave, lengths, recognizer.config.window_samples)
    windows = features[..., :WINDOW]
    expected = recognizer.network.encoder(windows)
    with torch.autocast("cpu", torch.bfloat16):
        half = recognizer.network.encoder(windows).float()
        recognizer.transcribe(wave, lengths, [torch.Generator()])
    assert np.corrcoef(half.flatten(), expected.flatten())[0, 1] > 0.99
