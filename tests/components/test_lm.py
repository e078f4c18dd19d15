"""Bark's coarse and fine models: single passes, whole generations, and batches."""

import numpy as np
import pytest
import torch
from golden.codec_lm_files import CONFIG, FOLDER, PROMPTS, coarse_entries, fine_entries
from torch.nn.utils.rnn import pad_sequence

from voiceanon.components.lm.coarse import COARSE_CONFIG, CoarseModel
from voiceanon.components.lm.fine import FINE_CONFIG, FineModel, untie
from voiceanon.components.lm.gpt import ORIGINAL_RENAMES, GptConfig, is_unused_entry
from voiceanon.components.lm.prompts import VoicePrompts, trim
from voiceanon.components.lm.tokens import coarse_tokens, codec_frames, fine_windows
from voiceanon.errors import ConfigError, ConversionError, WeightsError
from voiceanon.hub.convert import rename

FORWARD = np.load(FOLDER / "forward.npz")
COARSE = np.load(FOLDER / "coarse.npz")
FINE = np.load(FOLDER / "fine.npz")
CASES = {"a": -1, "b": 0, "c": 1, "d": 2, "e": 1, "f": 0, "g": -1}
"""Place of each case's voice in the prompts; -1 for none."""

ORDER = ("zh_speaker_9", "en_speaker_0", "ru_speaker_1")
FORWARD_TOLERANCE = 2e-5
LOGITS_TOLERANCE = 3e-5
"""Absolute, for logits of a standard deviation of 1."""


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def prompts():
    parts = ("semantic", "coarse", "fine")
    return VoicePrompts.of(
        [trim(*(torch.from_numpy(PROMPTS[f"{name}.{part}"]) for part in parts)) for name in ORDER]
    )


def new_coarse():
    model = CoarseModel(GptConfig.from_published(CONFIG["coarse"], COARSE_CONFIG))
    model.load_state_dict(rename(coarse_entries(), ORIGINAL_RENAMES, file=FOLDER), strict=True)
    return model.eval().requires_grad_(False)


def new_fine():
    model = FineModel(GptConfig.from_published(CONFIG["fine"], FINE_CONFIG))
    entries = untie(rename(fine_entries(), ORIGINAL_RENAMES, file=FOLDER))
    model.load_state_dict(entries, strict=True)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def coarse():
    return new_coarse()


@pytest.fixture(scope="module")
def fine():
    return new_fine()


def rows(prompts, *cases):
    return prompts(torch.tensor([CASES[case] for case in cases]))


def tokens(case):
    return torch.from_numpy(COARSE[f"{case}_semantic"]).long()


def codes(case):
    return torch.from_numpy(FINE[f"{case}_coarse"]).long()


# Single passes.


def test_coarse_logits(coarse):
    ids = torch.from_numpy(FORWARD["coarse_ids"]).long()
    expected = torch.from_numpy(FORWARD["coarse_logits_last"])
    embedded = coarse.input_embeds_layer(ids)
    hidden = coarse.whole(embedded, coarse.new_cache(1, 300))
    last = coarse.lm_head(hidden[0, -1])
    assert float((last - expected).abs().max()) <= FORWARD_TOLERANCE
    for codebook in (0, 1):
        part = expected[10_000 + 1024 * codebook :][:1024]
        result = coarse.code_logits(hidden[0, -1], codebook)
        assert float((result - part).abs().max()) <= FORWARD_TOLERANCE


def test_steps_equal_the_whole(coarse):
    """One token at a time through the cache, rows at different places."""
    ids = torch.from_numpy(FORWARD["coarse_ids"]).long().expand(2, -1)
    expected = coarse.whole(coarse.input_embeds_layer(ids), coarse.new_cache(2, 300))
    cache = coarse.new_cache(2, 300)
    coarse.whole(coarse.input_embeds_layer(ids[:, :250]), cache)
    positions = torch.tensor([250, 200])
    for step in range(50):
        places = positions + step
        embedded = coarse.input_embeds_layer(ids[torch.arange(2), places])
        hidden = coarse.step(embedded, places, cache)
        wanted = expected[torch.arange(2), places]
        assert float((hidden - wanted).abs().max()) <= FORWARD_TOLERANCE


@pytest.mark.parametrize("codebook", [2, 4, 7])
def test_fine_logits(fine, codebook):
    ids = torch.from_numpy(FORWARD["fine_ids"]).long().transpose(1, 2)
    logits = fine(ids, codebook)[0, FORWARD["fine_positions"]]
    expected = torch.from_numpy(FORWARD[f"fine_logits_{codebook}"])[:, :1024]
    assert float((logits - expected).abs().max()) <= FORWARD_TOLERANCE


@pytest.mark.slow
def test_transformers():
    """Their models take our entries by name."""
    from transformers import BarkCoarseConfig, BarkCoarseModel, BarkFineConfig, BarkFineModel

    sizes = {"num_layers": 2, "num_heads": 4, "hidden_size": 32, "block_size": 1024, "bias": False}
    draws = torch.Generator().manual_seed(0)
    config = GptConfig(layers=2, heads=4, width=32)
    ours = CoarseModel(config).eval()
    vocabulary = {"input_vocab_size": 12096, "output_vocab_size": 12096}
    theirs = BarkCoarseModel(BarkCoarseConfig(**sizes, **vocabulary)).eval()
    missing, extra = theirs.load_state_dict(ours.state_dict(), strict=False)
    assert not extra
    assert all(name.endswith("attn.bias") for name in missing)
    ids = torch.randint(12096, (2, 100), generator=draws)
    with torch.no_grad():
        hidden = ours.whole(ours.input_embeds_layer(ids), ours.new_cache(2, 100))
        expected = theirs(ids).logits
        assert float((ours.lm_head(hidden) - expected).abs().max()) <= 1e-5

        ours = FineModel(GptConfig(layers=2, heads=4, width=32, vocabulary=1056)).eval()
        vocabulary = {"input_vocab_size": 1056, "output_vocab_size": 1056}
        theirs = BarkFineModel(BarkFineConfig(**sizes, **vocabulary)).eval()
        heads = {f"lm_heads.{i}.weight": ours.input_embeds_layers[i + 1].weight for i in range(7)}
        theirs.load_state_dict({**ours.state_dict(), **heads}, strict=True)
        ids = torch.randint(1025, (2, 8, 1024), generator=draws)
        for codebook in (2, 7):
            expected = theirs(codebook, ids.transpose(1, 2)).logits[..., :1024]
            assert float((ours(ids, codebook) - expected).abs().max()) <= 1e-5


# Whole generations, greedy.


def test_coarse_windows_and_logits(coarse, prompts, monkeypatch):
    """What each window begins with, and what comes out of its first and last steps."""
    code_logits = coarse.code_logits
    for case in "abcd":
        begun, logits = [], []
        with monkeypatch.context() as patch:
            patch.setattr(
                coarse.input_embeds_layer,
                "forward",
                lambda ids, begun=begun, table=coarse.input_embeds_layer.weight: (
                    begun.append(ids[0].clone()) if ids.ndim == 2 else None, table[ids]
                )[1],
            )  # fmt: skip
            patch.setattr(
                coarse,
                "code_logits",
                lambda hidden, book, logits=logits: (
                    logits.append(code_logits(hidden, book)[0]) or logits[-1][None]
                ),
            )
            result, _ = coarse.generate(
                tokens(case)[None], torch.tensor([len(tokens(case))]), rows(prompts, case)
            )
        assert result[0].tolist() == COARSE[f"{case}_codes"].tolist()
        assert len(begun) == -(-len(logits) // 60)
        for number, name in ((0, "first"), (2, "third"), (-1, "last")):
            assert begun[number].tolist() == COARSE[f"{case}_{name}_window"].tolist()
        made = torch.stack(logits)
        first, last = COARSE[f"{case}_logits_first4"], COARSE[f"{case}_logits_last2"]
        assert np.abs(made[:4].numpy() - first).max() <= LOGITS_TOLERANCE
        assert np.abs(made[-2:].numpy() - last).max() <= LOGITS_TOLERANCE
        best = made.topk(2).values
        assert np.abs(best[:, 0].numpy() - COARSE[f"{case}_max_logit"]).max() <= LOGITS_TOLERANCE
        margin = (best[:, 0] - best[:, 1]).numpy()
        assert np.abs(margin - COARSE[f"{case}_margin"]).max() <= 2 * LOGITS_TOLERANCE


@pytest.mark.parametrize("cases", ["d", "dacb", "bcad"])
def test_coarse_codes(coarse, prompts, cases):
    """Token by token, alone and together in any order."""
    lines = [tokens(case) for case in cases]
    batch = pad_sequence(lines, batch_first=True, padding_value=-7)
    lengths = torch.tensor([len(line) for line in lines])
    result, frames = coarse.generate(batch, lengths, rows(prompts, *cases))
    for row, count, case in zip(result, frames.tolist(), cases, strict=True):
        expected = COARSE[f"{case}_codes"]
        assert count == expected.shape[1]
        assert row[:, :count].tolist() == expected.tolist()
        assert not row[:, count:].any()


def test_fine_buffers_and_logits(fine, prompts, monkeypatch):
    predict, head = fine._predict, fine._head
    for case in "abcefg":
        buffers, logits = [], []
        with monkeypatch.context() as patch:
            patch.setattr(
                fine,
                "_predict",
                lambda buffer, *rest, buffers=buffers: (
                    buffers.append(buffer[0].clone()) or predict(buffer, *rest)
                ),
            )
            patch.setattr(
                fine,
                "_head",
                lambda hidden, book, logits=logits: logits.append(head(hidden, book)) or logits[-1],
            )
            result = fine.generate(
                codes(case)[None], torch.tensor([codes(case).shape[1]]), rows(prompts, case)
            )
        assert result[0].tolist() == FINE[f"{case}_codes"].tolist()
        assert len(buffers) == int(FINE[f"{case}_n_windows"])
        assert buffers[0].tolist() == FINE[f"{case}_first_buffer"].tolist()
        name = f"{case}_first_logits_q2"
        if name in FINE:
            result = logits[0][0, [0, 300, 700, 1023]].numpy()
            assert np.abs(result - FINE[name][:, :1024]).max() <= LOGITS_TOLERANCE


@pytest.mark.parametrize("cases", ["f", "gafecb", "bcegaf"])
def test_fine_codes(fine, prompts, cases):
    lines = [codes(case) for case in cases]
    lengths = [line.shape[1] for line in lines]
    batch = torch.full((len(cases), 2, max(lengths)), 77)
    for row, line in zip(batch, lines, strict=True):
        row[:, : line.shape[1]] = line
    result = fine.generate(batch, torch.tensor(lengths), rows(prompts, *cases))
    for row, count, case in zip(result, lengths, cases, strict=True):
        assert row[:, :count].tolist() == FINE[f"{case}_codes"].tolist()
        assert not row[:, count:].any()


# Drawn tokens: in float64, where no rounding decides.

LENGTHS = (25, 3, 41, 1)
VOICES = (0, 2, -1, 1)


def drawn(coarse, fine, prompts, order, temperatures=(0.7, 0.5)):
    """Codes of items in some order, each with numbers of its own."""
    lines, first, second = [], [], []
    for item in order:
        draws = torch.Generator().manual_seed(item)
        lines.append(torch.randint(10_000, (LENGTHS[item],), generator=draws))
        first.append(torch.rand(coarse_tokens(LENGTHS[item]), generator=draws))
        second.append(torch.rand(2, 6, 1024, generator=draws))
    lengths = torch.tensor([LENGTHS[item] for item in order])
    voices = prompts(torch.tensor([VOICES[item] for item in order]))
    result, frames = coarse.generate(
        pad_sequence(lines, batch_first=True), lengths, voices,
        pad_sequence(first, batch_first=True), temperatures[0],
    )  # fmt: skip
    made = fine.generate(result, frames, voices, torch.stack(second), temperatures[1])
    return [row[:, :count] for row, count in zip(made, frames.tolist(), strict=True)]


def test_a_batch_draws_what_its_items_draw_alone(prompts):
    coarse = CoarseModel(GptConfig(layers=2, heads=2, width=16)).double()
    fine = FineModel(GptConfig(layers=2, heads=2, width=16, vocabulary=1056)).double()
    alone = [drawn(coarse, fine, prompts, [item])[0] for item in range(len(LENGTHS))]
    for order in ([0, 1, 2, 3], [2, 3, 0, 1]):
        for item, result in zip(order, drawn(coarse, fine, prompts, order), strict=True):
            assert torch.equal(result, alone[item])
    greedy = drawn(coarse, fine, prompts, [2], (None, None))[0]
    assert float((greedy == alone[2]).double().mean()) < 0.1


def test_codes_stay_within_their_codebooks(coarse, fine, prompts):
    for result in drawn(coarse, fine, prompts, [0, 3], (5.0, 5.0)):
        assert int(result.min()) >= 0
        assert int(result.max()) < 1024


def test_autocast(coarse, fine, prompts):
    with torch.autocast("cpu", torch.bfloat16):
        assert coarse.new_cache(1, 5).dtype == torch.bfloat16
        results = drawn(coarse, fine, prompts, [0, 3])
    assert [result.shape[1] for result in results] == [37, 1]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_values_that_are_not_finite_do_not_become_tokens(prompts, value):
    coarse, fine = new_coarse(), new_fine()
    coarse.layernorm_final.weight[3] = value
    with pytest.raises(ConversionError, match=r"coarse model.*not finite"):
        drawn(coarse, fine, prompts, [1])
    fine.layernorm_final.bias[3] = value
    with pytest.raises(ConversionError, match=r"fine model.*not finite"):
        drawn(new_coarse(), fine, prompts, [1])


@pytest.mark.gpu
def test_greedy_codes_on_the_gpu(prompts):
    """Margins of the stored runs are above any rounding of float32."""
    coarse, fine, voices = new_coarse().cuda(), new_fine().cuda(), prompts.cuda()
    lines = [tokens(case).cuda() for case in "dacb"]
    lengths = torch.tensor([len(line) for line in lines]).cuda()
    chosen = voices(torch.tensor([CASES[case] for case in "dacb"]).cuda())
    result, frames = coarse.generate(pad_sequence(lines, batch_first=True), lengths, chosen)
    codes = fine.generate(result, frames, chosen).cpu()
    prompts.cpu()
    for row, made, count, case in zip(result.cpu(), codes, frames.tolist(), "dacb", strict=True):
        assert row[:, :count].tolist() == COARSE[f"{case}_codes"].tolist()
        if f"{case}_codes" in FINE:
            assert made[:, :count].tolist() == FINE[f"{case}_codes"].tolist()


# Prompts.


@pytest.mark.parametrize(
    ("voice", "used"),
    [("zh_speaker_9", (191, 572, 288)), ("en_speaker_0", (209, 626, 512)),
     ("ru_speaker_1", (209, 626, 512))],
)  # fmt: skip
def test_trimmed_prompts(prompts, voice, used):
    row = ORDER.index(voice)
    assert tuple(prompts.lengths[row].tolist()) == used
    chosen = prompts(torch.tensor([row, -1]))
    assert chosen.lengths.tolist() == [list(used), [0, 0, 0]]
    semantic, flat, frames = used
    stored = {part: PROMPTS[f"{voice}.{part}"] for part in ("semantic", "coarse", "fine")}
    assert chosen.semantic[0, :semantic].tolist() == stored["semantic"][-semantic:].tolist()
    assert chosen.fine[0, :, :frames].tolist() == stored["fine"][:, -frames:].tolist()
    interleaved = (stored["coarse"] + np.array([[10_000], [11_024]])).T.ravel()
    assert chosen.coarse[0, :flat].tolist() == interleaved[-flat - 2 : -2].tolist()


@pytest.mark.parametrize(
    ("semantic", "coarse", "fine", "words"),
    [
        ([10_000], [[1], [2]], [[1]] * 8, "semantic part has tokens from 10000"),
        ([1], [[1], [1024]], [[1]] * 8, "coarse part has tokens from 1 to 1024"),
        ([1], [[1], [2]], [[-1]] * 8, "fine part has tokens from -1"),
        ([1], [[1]], [[1]] * 8, "coarse part has shape"),
        ([], [[1], [2]], [[1]] * 8, "semantic part has shape"),
        ([1], [[1], [2]], [[1]] * 7, "fine part has shape"),
    ],
)
def test_what_is_no_prompt(semantic, coarse, fine, words):
    with pytest.raises(ConfigError, match=words):
        trim(*map(torch.tensor, (semantic, coarse, fine)))


# Numbers and sizes.


def test_counts_are_those_of_the_formulas():
    numbers = torch.arange(1, 5000)
    expected = [int(np.floor(number * 75 / 49.9)) for number in numbers.tolist()]
    assert codec_frames(numbers).tolist() == expected
    assert [codec_frames(number) for number in numbers.tolist()] == expected
    assert coarse_tokens(1) == 2
    for frames, history in ((1, 0), (512, 512), (513, 512), (1100, 0), (1024, 0), (5000, 288)):
        windows = max(0, int(np.ceil((frames - (1024 - history)) / 512))) + 1
        assert fine_windows(frames, history) == windows


def test_sizes_from_both_forms_of_settings():
    hub = {"num_layers": 2, "num_heads": 2, "hidden_size": 64, "block_size": 1024,
           "input_vocab_size": 12096, "output_vocab_size": 12096, "bias": False}  # fmt: skip
    original = {"n_layer": 2, "n_head": 2, "n_embd": 64, "block_size": 1024, "vocab_size": 12096}
    for settings in (hub, original):
        config = GptConfig.from_published(settings, FINE_CONFIG)
        assert config == GptConfig(layers=2, heads=2, width=64)
    assert GptConfig.from_published({}, FINE_CONFIG) == FINE_CONFIG
    with pytest.raises(ConfigError, match="bias"):
        GptConfig.from_published({"bias": True}, COARSE_CONFIG)
    with pytest.raises(ConfigError, match="vocabularies"):
        GptConfig.from_published({**hub, "output_vocab_size": 5}, COARSE_CONFIG)
    with pytest.raises(ConfigError, match="cannot be divided"):
        GptConfig(width=100, heads=3)


def test_models_without_room_are_refused():
    for model, config in (
        (CoarseModel, GptConfig(layers=1, heads=1, width=8, vocabulary=12_050)),
        (CoarseModel, GptConfig(layers=1, heads=1, width=8, context=946)),
        (FineModel, GptConfig(layers=1, heads=1, width=8, vocabulary=1024)),
        (FineModel, GptConfig(layers=1, heads=1, width=8, context=1023)),
    ):
        with pytest.raises(ConfigError, match="too few"):
            model(config)


def test_heads_that_are_no_copies_are_refused():
    entries = rename(fine_entries(), ORIGINAL_RENAMES, file=FOLDER)
    entries["lm_heads.2.weight"] = entries["lm_heads.2.weight"] + 1
    with pytest.raises(WeightsError, match=r"lm_heads.2.weight.*must be equal"):
        untie(entries)
    del entries["lm_heads.2.weight"]
    with pytest.raises(WeightsError, match=r"lm_heads.2.weight.*missing"):
        untie(entries)
    assert is_unused_entry("transformer.h.3.attn.bias")
    assert not is_unused_entry("layers.3.attn.out_proj.weight")
