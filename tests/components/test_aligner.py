"""The aligner and its adaptation against the original's stored outputs; batches; what stays."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from golden.seeded_weights import fill_

from voiceanon.components.alignment.aligner import (
    BANDS,
    BLANK,
    LARGEST_GRADIENT,
    LEARNING_RATE,
    STEPS,
    SYMBOLS,
    Aligner,
)
from voiceanon.components.alignment.search import durations_from_logits
from voiceanon.errors import ConfigError

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
STORED = np.load(GOLDEN / "aligner.npz")
ENTRIES = json.loads((GOLDEN / "entries_aligner.json").read_text())
MEL = torch.from_numpy(np.load(GOLDEN / "audio.npz")["logmel"])
IDS = torch.from_numpy(STORED["ids"])

TOLERANCE = 2e-5
"""Absolute, for outputs of a size of 1."""

DOUBLE_TOLERANCE = 1.5e-4
"""Stored outputs after adaptation in float32 against the same in double precision: 9e-5."""

ADAPTED_TOLERANCE = 5e-3
"""Adaptation in float32: where a rectifier's input is nearly 0, rounding decides whether a gradient
passes. With torch's own convolutions, and losses and steps, the difference is 2.6e-3, too."""

NORM_TOLERANCE = 1e-2
"""Relative, of norms of gradients, for the same reason; the number of threads moves them by 3e-3.
"""


@pytest.fixture(scope="module")
def aligner():
    model = Aligner().eval()
    fill_(model.state_dict())
    return model


def close(result, expected, tolerance=TOLERANCE):
    expected = torch.as_tensor(expected).to(result.dtype)
    assert result.shape == expected.shape
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def evaluate(model, mel):
    with torch.no_grad():
        return model(mel[None], torch.tensor([len(mel)]))[0]


def durations(logits):
    lengths = torch.tensor([len(logits)]), torch.tensor([len(IDS)])
    return durations_from_logits(logits[None], lengths[0], IDS[None], lengths[1])[0].tolist()


def plain_outputs(model, mel):
    """The network with torch's own convolution."""
    x = mel.T[None]
    for block in model.convs.values():
        x = block.bnorm(F.conv1d(x, block.conv.weight, padding=1).relu())
    return model.proj(model.rnn(x.transpose(1, 2))[0])[0]


def plain_adaptation(model, mel, ids):
    """Outputs after steps of torch's own optimiser, and the losses before them."""
    model = copy.deepcopy(model).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for _ in range(STEPS):
        logits = plain_outputs(model, mel).log_softmax(-1)[:, None]
        loss = F.ctc_loss(logits, ids[None], (len(mel),), (len(ids),), blank=BLANK)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
        optimiser.step()
        losses.append(loss.item())
    with torch.no_grad():
        return plain_outputs(model.eval(), mel), losses


def test_published_entries(aligner):
    assert {name: list(value.shape) for name, value in aligner.state_dict().items()} == ENTRIES


def test_stored_outputs(aligner):
    logits = evaluate(aligner, MEL)
    assert logits.dtype == torch.float32
    close(logits, STORED["logits_eval"])
    assert durations(logits) == STORED["durations_eval"].tolist()


def test_stored_outputs_after_adaptation_without_dropout(aligner):
    network, losses, norms = aligner.adapted(MEL, IDS, generator(), dropout=0.0)
    logits = evaluate(network, MEL)
    close(logits, STORED["logits_ft_nodrop"], ADAPTED_TOLERANCE)
    close(losses, STORED["loss_ft_nodrop"], 1e-3)
    np.testing.assert_allclose(norms, STORED["gradnorm_ft_nodrop"], rtol=NORM_TOLERANCE)
    assert durations(logits) == STORED["durations_ft_nodrop"].tolist()


def test_adaptation_without_dropout_is_plain_gradient_descent(aligner):
    expected, losses = plain_adaptation(copy.deepcopy(aligner).double(), MEL.double(), IDS)
    close(expected, STORED["logits_ft_nodrop"], DOUBLE_TOLERANCE)
    np.testing.assert_allclose(losses, STORED["loss_ft_nodrop"], rtol=0, atol=2e-4)
    network, *_ = aligner.adapted(MEL, IDS, generator(), dropout=0.0)
    close(evaluate(network, MEL).double(), expected, ADAPTED_TOLERANCE)


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="other draws without MKL")
def test_stored_outputs_after_adaptation_with_dropout(aligner):
    network, losses, norms = aligner.adapted(MEL, IDS, generator(0))
    logits = evaluate(network, MEL)
    close(logits[::4], STORED["logits_ft_drop_seed0"], ADAPTED_TOLERANCE)
    close(losses, STORED["loss_ft_drop_seed0"], 1e-3)
    np.testing.assert_allclose(norms, STORED["gradnorm_ft_drop_seed0"], rtol=NORM_TOLERANCE)
    assert durations(logits) == STORED["durations_ft_drop_seed0"].tolist()


def padded(*items):
    """Spectra in one batch, with values that are not numbers behind them."""
    frames = torch.tensor([len(item) for item in items])
    batch = torch.full((len(items), int(frames.max()) + 2, BANDS), float("nan"))
    for row, item in zip(batch, items, strict=True):
        row[: len(item)] = item
    return batch, frames


def test_batch_equals_items(aligner):
    items = MEL[:40], MEL, MEL[20:21]
    mel, frames = padded(*items)
    with torch.no_grad():
        logits = aligner(mel, frames)
    assert logits.shape == (3, 108, SYMBOLS)
    for row, item in zip(logits, items, strict=True):
        close(row[: len(item)], evaluate(aligner, item))


def test_adapted_batch_equals_items(aligner):
    mel, frames = padded(MEL[:40], MEL[30:])
    ids = torch.full((2, len(IDS)), -1)
    ids[0, :9], ids[1] = IDS[:9], IDS
    with torch.inference_mode():
        logits = aligner.adapt(
            mel, frames, ids, torch.tensor([9, 21]), [generator(1), generator(2)]
        )
    assert logits.shape == (2, mel.shape[1], SYMBOLS)
    first, *_ = aligner.adapted(MEL[:40], IDS[:9], generator(1))
    second, *_ = aligner.adapted(MEL[30:], IDS, generator(2))
    close(logits[0, :40], evaluate(first, MEL[:40]))
    close(logits[1, :76], evaluate(second, MEL[30:]))
    assert not logits[0, 40:].any()
    assert not logits[1, 76:].any()


def test_adaptation_is_private(aligner):
    before = copy.deepcopy(aligner.state_dict())
    state = torch.random.get_rng_state()
    arguments = MEL[None], torch.tensor([106]), IDS[None], torch.tensor([21])
    with torch.inference_mode():
        first = aligner.adapt(*arguments, [generator(3)])
        again = aligner.adapt(*arguments, [generator(3)])
        other = aligner.adapt(*arguments, [generator(4)])
    assert torch.equal(first, again)
    assert (first - other).abs().max() > 1e-2
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not aligner.training
    assert all(torch.equal(value, before[name]) for name, value in aligner.state_dict().items())
    assert all(parameter.grad is None for parameter in aligner.parameters())


def test_network_made_in_inference_mode():
    with torch.inference_mode():
        model = Aligner().eval().requires_grad_(False)
        fill_(model.state_dict())
        mel = MEL.clone()
        network, losses, _ = model.adapted(mel, IDS.clone(), generator(), dropout=0.0)
        close(network(mel[None], torch.tensor([106]))[0], STORED["logits_ft_nodrop"], 5e-3)
    close(losses, STORED["loss_ft_nodrop"], 1e-3)


def test_more_symbols_than_frames(aligner):
    network, losses, norms = aligner.adapted(MEL[:10], IDS, generator())
    assert losses.tolist() == norms.tolist() == [0, 0, 0]
    for name, value in network.named_parameters():
        assert torch.equal(value, aligner.get_parameter(name))
    assert evaluate(network, MEL[:10]).isfinite().all()


def test_utterance_without_words(aligner):
    ids = torch.tensor([[0, 0, 1]])
    lengths = torch.tensor([106]), torch.tensor([3])
    logits = aligner.adapt(MEL[None], lengths[0], ids, lengths[1], [generator()])
    spoken = durations_from_logits(logits, lengths[0], ids, lengths[1])
    assert spoken.sum() == 106
    assert (spoken > 0).all()


def test_autocast_changes_nothing(aligner):
    arguments = MEL[None], torch.tensor([106])
    symbols = IDS[None], torch.tensor([21])
    with torch.no_grad():
        expected = aligner(*arguments), aligner.adapt(*arguments, *symbols, [generator()])
        with torch.autocast("cpu", torch.bfloat16):
            result = aligner(*arguments), aligner.adapt(*arguments, *symbols, [generator()])
    assert torch.equal(result[0], expected[0])
    assert torch.equal(result[1], expected[1])


def test_one_generator_for_each_utterance(aligner):
    with pytest.raises(ConfigError, match="2 generators for 1 utterances"):
        aligner.adapt(
            MEL[None],
            torch.tensor([106]),
            IDS[None],
            torch.tensor([21]),
            [generator(), generator()],
        )
