"""The joint search against stored results and against its plain form."""

import copy
import json
import math

import plain_beam_search
import pytest
import reduced_recognizer
import torch
from reduced_recognizer import GOLDEN, STORED

from voiceanon.components.asr.branchformer.ancestry import Ancestry
from voiceanon.components.asr.branchformer.beam_search import (
    Ending,
    SearchOptions,
    beam_search,
)
from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
from voiceanon.components.asr.branchformer.decoder import Decoder

TOLERANCE = 1e-4
"""Absolute, for sums of some 100 float32 logarithms."""

IMPOSSIBLE = -1e9


@pytest.fixture(scope="module")
def model():
    return reduced_recognizer.reduced()


@pytest.fixture(autouse=True)
def same_everywhere():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def plain_decoder(decoder, heads=4):
    return plain_beam_search.PlainDecoder(decoder.state_dict(), heads)


def same_as_plain(result, texts):
    """Texts that CTC cannot have said are counted; their order is that of rounding."""
    assert result.finished == len(texts)
    texts = [text for text in texts if text.ctc > IMPOSSIBLE]
    possible = [found for found in result.hypotheses if found.ctc > IMPOSSIBLE]
    assert [found.ids for found in possible] == [tuple(text.ids) for text in texts]
    for found, text in zip(possible, texts, strict=True):
        assert found.score == pytest.approx(text.score, abs=TOLERANCE)
        assert found.ctc == pytest.approx(text.ctc, abs=TOLERANCE)


class TestDecoder:
    def test_stored_steps(self, model):
        memory = STORED["enc_out"][None]
        state = model.decoder.start(memory, torch.ones(1, 41, dtype=torch.bool), 1)
        for token, stored in zip(STORED["dec_prefix"].tolist(), STORED["dec_logp"], strict=True):
            scores, state = model.decoder.step(torch.tensor([[token]]), state)
            torch.testing.assert_close(scores[0, 0], stored, rtol=0, atol=1e-5)

    def test_hypotheses_that_change_places(self, model):
        """More tokens than there is room for at first, against the plain form."""
        memory = torch.randn(2, 7, 32)
        valid = torch.arange(7) < torch.tensor([[7], [4]])
        plain = plain_decoder(model.decoder)
        state = model.decoder.start(memory, valid, 3)
        ids = torch.full((2, 3, 1), 39)
        for step in range(40):
            scores, state = model.decoder.step(ids[..., -1], state)
            if step % 13 == 0:
                for row, frames in enumerate((7, 4)):
                    texts = [plain_beam_search.Text(ids=one) for one in ids[row].tolist()]
                    expected = causal(plain, texts, memory[row, :frames])
                    torch.testing.assert_close(scores[row], expected, rtol=0, atol=1e-5)
            parents = torch.randint(3, (2, 3))
            state = state.select(torch.arange(2), parents, 0)
            ids = ids.gather(1, parents[..., None].expand_as(ids))
            ids = torch.cat((ids, torch.randint(1, 39, (2, 3, 1))), dim=-1)


def causal(plain, texts, memory):
    """The plain form needs what its layers gave for earlier tokens."""
    for size in range(1, len(texts[0].ids) + 1):
        begun = [plain_beam_search.Text(ids=t.ids[:size], layers=t.layers) for t in texts]
        scores, layers = plain.next(begun, memory)
        for text, given in zip(texts, layers, strict=True):
            text.layers = given
    return scores


class TestSearch:
    @pytest.mark.parametrize(("scale", "suffix"), [(1, ""), (3, "_x3"), (6, "_x6")])
    def test_stored_results(self, model, scale, suffix):
        stored = json.loads((GOLDEN / "asr_beam.json").read_text())
        encoded = scale * STORED["enc_out"][None]
        (result,) = model.search(encoded, torch.tensor([41]), best=5)
        assert result.finished == stored[f"n_ended{suffix}"]
        expected = stored[f"nbest_encoder{suffix}"]
        assert [h.ids for h in result.hypotheses] == [tuple(one["yseq"]) for one in expected]
        for found, one in zip(result.hypotheses, expected, strict=True):
            # Stored scores are float32 sums.
            assert found.score == pytest.approx(one["score"], abs=2e-4)
            assert found.ctc == pytest.approx(one["ctc"], abs=2e-4)
            assert (found.score - 0.2 * found.ctc) / 0.8 == pytest.approx(one["decoder"], abs=2e-4)

    def test_stored_results_with_the_plain_form(self, model):
        stored = json.loads((GOLDEN / "asr_beam.json").read_text())
        memory = 6 * STORED["enc_out"]
        plain = plain_decoder(model.decoder)
        texts = plain_beam_search.search(plain, memory, model.ctc(memory).numpy())
        assert len(texts) == stored["n_ended_x6"]
        assert [t.ids for t in texts[:5]] == [one["yseq"] for one in stored["nbest_encoder_x6"]]

    def test_batch_is_plain_form_one_by_one(self, model):
        """Whole lists of finished texts; the first utterances end long before the last."""
        torch.manual_seed(0)
        counts = [1, 2, 3, 25, 40, 12, 60]
        encoded = torch.full((len(counts), 60, 32), math.nan)
        for row, count in enumerate(counts):
            encoded[row, :count] = 2 * torch.randn(count, 32)
        results = model.search(encoded, torch.tensor(counts), best=1000)
        plain = plain_decoder(model.decoder)
        for row, count in enumerate(counts):
            memory = encoded[row, :count]
            texts = plain_beam_search.search(plain, memory, model.ctc(memory).numpy())
            same_as_plain(results[row], texts)

    def test_item_in_a_batch_is_item_alone(self, model):
        encoded = 2 * torch.randn(2, 50, 32)
        counts = torch.tensor([20, 50])
        together = model.search(encoded, counts, best=3)
        for row, count in enumerate((20, 50)):
            (alone,) = model.search(encoded[row : row + 1, :count], counts[row : row + 1], best=3)
            assert alone.finished == together[row].finished
            for one, other in zip(alone.hypotheses, together[row].hypotheses, strict=True):
                assert one.ids == other.ids
                assert one.score == pytest.approx(other.score, abs=TOLERANCE)

    @pytest.mark.parametrize("vocabulary", [4, 10, 22, 23])
    @pytest.mark.parametrize("beam", [1, 4, 15])
    def test_small_vocabularies_and_beams(self, vocabulary, beam):
        """Fewer continuations than hypotheses, and fewer tokens than candidates."""
        torch.manual_seed(vocabulary + beam)
        config = PhoneRecognizerConfig(
            vocabulary=vocabulary, width=16, decoder_heads=2, decoder_ffn_units=8, decoder_layers=1
        )
        decoder = Decoder(config).eval()
        encoded = 3 * torch.randn(2, 9, 16)
        log_probs = (3 * torch.randn(2, 9, vocabulary)).log_softmax(-1)
        counts = torch.tensor([9, 6])
        options = SearchOptions(beam=beam, ctc_weight=0.4)
        results = beam_search(decoder, encoded, log_probs, counts, options, best=1000)
        plain = plain_decoder(decoder, heads=2)
        for row, count in enumerate(counts.tolist()):
            texts = plain_beam_search.search(
                plain, encoded[row, :count], log_probs[row, :count].numpy(), beam, 0.4
            )
            same_as_plain(results[row], texts)

    def test_an_end_behind_every_text_at_the_limit(self, model):
        decoder = copy.deepcopy(model.decoder)
        decoder.output_layer.bias[39] += 10
        encoded = torch.randn(1, 1, 32)
        (result,) = beam_search(
            decoder, encoded, model.ctc(encoded), torch.tensor([1]), SearchOptions(), best=15
        )
        assert result.finished == 15
        assert {len(h.ids) for h in result.hypotheses} == {3}
        assert {h.ids[-1] for h in result.hypotheses} == {39}
        assert result.hypotheses[0].ids == (39, 39, 39)

    def test_autocast_changes_nothing(self, model):
        encoded, counts = STORED["enc_out"][None], torch.tensor([41])
        expected = model.search(encoded, counts)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert model.search(encoded, counts) == expected

    def test_host_waits_once_per_token(self, model, monkeypatch):
        waits, steps = [], []
        for name in ("tolist", "item", "nonzero", "cpu", "__bool__", "__int__", "__float__"):
            plain = getattr(torch.Tensor, name)

            def counted(*args, plain=plain, name=name, **options):
                waits.append(name)
                return plain(*args, **options)

            monkeypatch.setattr(torch.Tensor, name, counted)
        step = Decoder.step
        monkeypatch.setattr(Decoder, "step", lambda *args: steps.append(1) or step(*args))
        model.search(torch.randn(3, 20, 32), torch.tensor([20, 9, 14]))
        before_and_after = 5
        assert len(waits) <= len(steps) + before_and_after


class TestEnding:
    """Lengths are compared with the number of a step: what ended two to four steps ago counts."""

    @pytest.mark.parametrize(
        ("scores", "expected"),
        [
            ([-1, -12, -12, -12, -math.inf, -math.inf], True),
            ([-1, -12, -11, -12, -math.inf, -math.inf], False),
            ([-1, -12, -11.01, -12, -math.inf, -math.inf], True),
            ([-1, -12, -math.inf, -12, -math.inf, -math.inf], False),
            ([-12, -12, -12, -math.inf, -1], True),
            ([-12, -12, -12, -1], False),
        ],
    )
    def test_late_texts_are_hopeless(self, scores, expected):
        ending = Ending(1, torch.device("cpu"))
        for score in scores:
            now = torch.tensor([[score, 0.0]], dtype=torch.float64)
            told = ending.update(now, torch.tensor([[score > -math.inf, False]]))
        assert told.tolist() == [expected]


class TestAncestry:
    def test_shared_tokens(self):
        ancestry = Ancestry(2, 3, torch.device("cpu"))
        ancestry.follow(torch.tensor([[0, 0, 0], [0, 1, 2]]))
        assert ancestry.newly_shared() == 0
        ancestry.follow(torch.tensor([[0, 1, 2], [1, 1, 1]]))
        assert ancestry.newly_shared() == 1
        ancestry.share(1)
        ancestry.follow(torch.tensor([[2, 2, 2], [0, 0, 0]]))
        assert ancestry.newly_shared() == 2
        ancestry.select(torch.tensor([1]))
        ancestry.share(2)
        assert ancestry.shared == 3
        assert ancestry.newly_shared() == 0
