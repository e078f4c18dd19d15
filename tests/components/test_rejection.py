"""Choice by rejection: the published sequence of draws, batches, edges."""

from pathlib import Path

import numpy as np
import torch

from voiceanon.components.selection.rejection import choose_dissimilar, count_rejected

WGAN = np.load(Path(__file__).parents[1] / "golden" / "gan_fastspeech2" / "wgan.npz")
STOCK = torch.from_numpy(WGAN["sel_vectors"])
SOURCES = torch.from_numpy(WGAN["sel_sources"])
THRESHOLD = float(WGAN["sel_threshold"])
TRIES = 20


def test_published_sequence():
    """Unused vectors are kept in a list over utterances, and refilled when all were used."""
    random = np.random.RandomState(5)
    unused = np.arange(len(STOCK))
    chosen, rejected = [], []
    for source in SOURCES:
        if len(unused) == 0:
            unused = np.arange(len(STOCK))
        # What the published loop would draw if it rejected everything; then as much as it drew.
        state = random.get_state()
        draws = torch.tensor([[random.choice(unused) for _ in range(TRIES)]])
        count = int(count_rejected(source[None], STOCK, draws, threshold=THRESHOLD))
        random.set_state(state)
        for _ in range(min(count + 1, TRIES)):
            random.choice(unused)
        chosen.append(int(choose_dissimilar(source[None], STOCK, draws, threshold=THRESHOLD)))
        rejected.append(count)
        unused = unused[unused != chosen[-1]]
    assert chosen == WGAN["sel_chosen"].tolist()
    assert rejected == WGAN["sel_rejections"].tolist()
    assert unused.tolist() == WGAN["sel_unused_after"].tolist()
    similarities = torch.cosine_similarity(SOURCES, STOCK[chosen])
    assert np.abs(similarities.numpy() - WGAN["sel_sims"]).max() < 1e-6


def test_first_accepted_or_the_last():
    stock = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
    source = torch.tensor([[5.0, 0.0]]).expand(5, -1)
    draws = torch.tensor([[0, 1, 2], [2, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]])
    assert count_rejected(source, stock, draws).tolist() == [1, 0, 2, 3, 0]
    assert choose_dissimilar(source, stock, draws).tolist() == [1, 2, 1, 0, 1]


def test_the_threshold_itself_is_rejected():
    stock = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    draws = torch.tensor([[0, 1]])
    source = torch.tensor([[0.0, 1.0]])
    assert choose_dissimilar(source, stock, draws, threshold=0.0).tolist() == [1]
    assert count_rejected(source, stock, draws, threshold=0.0).tolist() == [2]


def test_zeros_are_like_nothing_and_everything():
    draws = torch.arange(3)[None]
    assert count_rejected(torch.zeros(1, 128), STOCK, draws).tolist() == [3]
    assert choose_dissimilar(torch.zeros(1, 128), STOCK, draws).tolist() == [2]


def test_an_item_does_not_depend_on_the_batch():
    generator = torch.Generator().manual_seed(0)
    draws = torch.randint(len(STOCK), (len(SOURCES), TRIES), generator=generator)
    together = choose_dissimilar(SOURCES, STOCK, draws, threshold=0.0)
    for i, chosen in enumerate(together):
        part = slice(i, i + 1)
        alone = choose_dissimilar(SOURCES[part], STOCK, draws[part], threshold=0.0)
        assert torch.equal(alone, chosen[None])
