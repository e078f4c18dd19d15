"""How the recogniser's published settings are read, and what is refused."""

import pytest
from reduced_recognizer import E_SETTINGS, SETTINGS, TOKENS

from voiceanon.components.asr.branchformer.beam_search import SearchOptions
from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
from voiceanon.components.asr.branchformer.recognizer import PhoneRecognizer
from voiceanon.errors import ConfigError


def read(settings):
    return PhoneRecognizerConfig.from_published(settings)


def test_settings_are_read():
    assert read(SETTINGS) == PhoneRecognizerConfig(
        vocabulary=40,
        encoder="branchformer",
        width=32,
        heads=4,
        blocks=2,
        gated_units=64,
        ffn_units=2048,
        merge_kernel=3,
        decoder_heads=4,
        decoder_ffn_units=64,
        decoder_layers=2,
    )
    config = read(E_SETTINGS)
    assert (config.encoder, config.ffn_units, config.merge_kernel) == ("e_branchformer", 64, 31)


def test_what_is_left_out_is_as_in_espnet():
    config = read({k: v for k, v in SETTINGS.items() if not k.endswith("_conf")})
    assert (config.width, config.heads, config.blocks) == (256, 4, 12)
    assert (config.hop_samples, config.gated_units, config.gated_kernel) == (128, 2048, 31)
    assert (config.decoder_heads, config.decoder_ffn_units, config.decoder_layers) == (4, 2048, 6)


def test_empty_sections_are_none():
    assert read(SETTINGS | {"normalize_conf": None}) == read(SETTINGS)


def test_defaults_are_the_recipe():
    config = PhoneRecognizerConfig()
    assert (config.vocabulary, config.width, config.heads, config.blocks) == (100, 512, 8, 18)
    assert config.end == 99


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        (None, "encoder", "conformer"),
        (None, "encoder", None),
        (None, "decoder", "rnn"),
        (None, "frontend", "s3prl"),
        (None, "normalize", None),
        (None, "token_type", "phn"),
        (None, "preencoder", "linear"),
        (None, "postencoder", "length_adaptor"),
        ("frontend_conf", "fs", 8000),
        ("frontend_conf", "win_length", 400),
        ("normalize_conf", "norm_vars", False),
        ("encoder_conf", "rel_pos_type", "legacy"),
        ("encoder_conf", "input_layer", "conv2d6"),
        ("encoder_conf", "merge_method", "learned_ave"),
        ("encoder_conf", "use_cgmlp", False),
        ("decoder_conf", "normalize_before", False),
    ],
)
def test_other_networks_are_refused(section, key, value):
    settings = SETTINGS | {key: value}
    if section:
        settings = SETTINGS | {section: SETTINGS.get(section, {}) | {key: value}}
    with pytest.raises(ConfigError, match=key):
        read(settings)


def test_e_branchformer_without_feed_forward_is_refused():
    with pytest.raises(ConfigError, match="use_ffn"):
        read(E_SETTINGS | {"encoder_conf": SETTINGS["encoder_conf"]})


@pytest.mark.parametrize("name", ["frontend_conf", "encoder_conf", "decoder_conf"])
@pytest.mark.parametrize("section", [5, "x", [1]])
def test_sections_that_hold_no_settings_are_refused(name, section):
    with pytest.raises(ConfigError, match=f"'{name}' is .*settings by name are due"):
        read(SETTINGS | {name: section})


@pytest.mark.parametrize(
    "tokens",
    [None, [], "tokens.txt", TOKENS[1:], TOKENS[:-1], [TOKENS[0], 7, TOKENS[-1]],
     [TOKENS[0], ["a"], TOKENS[-1]]],
)  # fmt: skip
def test_tokens_must_be_text_that_begins_and_ends_as_published(tokens):
    with pytest.raises(ConfigError, match="token_list"):
        read(SETTINGS | {"token_list": tokens})


def test_messages_stay_short():
    """Also where a setting refers to one value very often."""
    many = "x"
    for _ in range(6):
        many = [many] * 9
    for name in ("token_list", "encoder_conf", "encoder"):
        with pytest.raises(ConfigError) as caught:
            read(SETTINGS | {name: many})
        assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "values",
    [
        {"blocks": 0},
        {"gated_kernel": 30},
        {"heads": 7},
        {"decoder_heads": 3},
        {"gated_units": 65},
        {"encoder": "conformer"},
        {"normalize": "none"},
        {"width": "32"},
        {"width": 32.0},
        {"blocks": True},
    ],
)
def test_impossible_sizes_are_refused(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        PhoneRecognizerConfig(**values)


@pytest.mark.parametrize(
    "values", [{"beam": 0}, {"beam": 1.5}, {"ctc_weight": 0.0}, {"ctc_weight": 1.0}]
)
def test_impossible_searches_are_refused(values):
    with pytest.raises(ConfigError):
        SearchOptions(**values)


def test_tokens_must_be_those_of_the_network():
    with pytest.raises(ConfigError, match="39 tokens"):
        PhoneRecognizer(read(SETTINGS), TOKENS[:-1])
