"""Attackers really learn, can be interrupted, and say what they are."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from training_voices import SPEAKERS, TINY, tiny, training_data, utterances, voice

from voiceanon import AudioError, ConfigError, WeightsError
from voiceanon.eval.attackers import (
    ORIGINAL,
    AttackerConfig,
    TrainingData,
    load_attacker,
    train_attacker,
)
from voiceanon.eval.metrics import equal_error_rate

# Bits are compared: the order of sums must not depend on the load of the machine.
pytestmark = [pytest.mark.speechbrain, pytest.mark.usefixtures("one_thread")]

DATA = training_data()
LABEL = (
    "ECAPA-TDNN trained on 22 utterances of 4 speakers anonymized by vpc2024-b2, level utterance, "
    "changed configuration: not the challenge's"
)


class StoppedError(Exception):
    pass


def train(folder, *, data=DATA, config=TINY, stop=None, **options):
    """Trains; interrupts when the ``stop``-th report comes in."""
    reports = []

    def progress(report):
        reports.append(report)
        if len(reports) == stop:
            raise StoppedError

    options = {"device": "cpu", "checkpoint_seconds": 0.0, **options}
    return train_attacker(data, config, folder, progress=progress, **options), reports


def weights(folder):
    return torch.load(folder / "embedding_model.ckpt", weights_only=True)


def same_weights(one, other):
    one, other = weights(one), weights(other)
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A longer training, its folder and its reports."""
    folder = tmp_path_factory.mktemp("attacker")
    attacker, reports = train(folder, config=tiny(epochs=10, half_cycle=15))
    return attacker, folder, reports


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A short training that was not interrupted."""
    folder = tmp_path_factory.mktemp("short")
    return *train(folder), folder


# Learning.


def eer(attacker):
    """Of voices and takes that the training has not heard."""
    waves = [voice(speaker, take, 0.9) for speaker in SPEAKERS for take in range(20, 26)]
    rows = attacker.embed(waves)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    owners = np.repeat(np.arange(len(SPEAKERS)), 6)
    scores = rows @ rows.T
    same = owners[:, None] == owners
    pairs = np.triu(np.ones_like(same), 1).astype(bool)
    return equal_error_rate(scores[same & pairs], scores[~same & pairs]).value


def test_training_lowers_the_loss_and_tells_speakers_apart(trained):
    attacker, _, _ = trained
    losses = [result.loss for result in attacker.facts.history]
    assert losses[-1] < 0.2 * losses[0]
    assert min(result.validation_error for result in attacker.facts.history) == 0.0
    assert eer(attacker) < 0.02


def test_an_attacker_of_no_training_does_worse(trained, tmp_path):
    untrained, _ = train(tmp_path, config=tiny(epochs=1, max_rate=1e-8))
    assert eer(untrained) > eer(trained[0]) + 0.05


def test_best_epoch_is_kept(tmp_path):
    """After the best epoch the weights stay, whatever follows."""
    config = tiny(epochs=6, half_cycle=15)
    kept = {}

    def progress(report):
        if report.result is not None:
            kept[report.epoch] = (report.result.validation_error, weights(tmp_path))

    train_attacker(DATA, config, tmp_path, device="cpu", progress=progress)
    best = min(kept, key=lambda epoch: kept[epoch][0])
    final = weights(tmp_path)
    assert all(torch.equal(final[name], kept[best][1][name]) for name in final)
    assert not all(torch.equal(final[n], kept[1][1][n]) for n in final) or best == 1


# Interruptions.


@pytest.mark.parametrize("stop", [1, 2, 4, 5, 9])
def test_an_interrupted_training_ends_as_one_that_ran_through(short, tmp_path, stop):
    attacker, reports, folder = short
    # Three steps and a validation in each of three epochs.
    assert len(reports) == 12
    with pytest.raises(StoppedError):
        train(tmp_path, stop=stop)
    resumed, later = train(tmp_path)
    assert len(later) == len(reports) - stop
    assert later == reports[stop:]
    assert resumed.facts == attacker.facts
    assert resumed.identity == attacker.identity
    assert same_weights(tmp_path, folder)


def test_interruptions_between_saved_states_repeat_steps(short, tmp_path):
    with pytest.raises(StoppedError):
        train(tmp_path, stop=7, checkpoint_seconds=1e9)
    resumed, later = train(tmp_path)
    # Saved after the first epoch: its four reports are not repeated.
    assert len(later) == 8
    assert resumed.facts == short[0].facts
    assert same_weights(tmp_path, short[2])


def test_an_interruption_between_the_files_of_an_epoch(short, tmp_path):
    """Weights of an epoch are there, but its state is not."""
    with pytest.raises(StoppedError):
        train(tmp_path, stop=3, checkpoint_seconds=1e9)
    assert not (tmp_path / "training.ckpt").exists()
    (tmp_path / "embedding_model.ckpt").write_bytes(b"of the first epoch")
    assert train(tmp_path)[0].facts == short[0].facts
    assert same_weights(tmp_path, short[2])


def test_a_finished_training_is_not_repeated(short):
    attacker, _, folder = short
    again, reports = train(folder)
    assert reports == []
    assert again.facts == attacker.facts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": tiny(margin=0.3)}, "margin: 0.2 there, 0.3 here"),
        ({"data": training_data(system="vpc2024-b5")}, "system: vpc2024-b2 there, vpc2024-b5"),
        ({"data": training_data(count=5)}, "data: .* there"),
    ],
)
def test_a_folder_holds_one_training(short, changes, message):
    with pytest.raises(ConfigError, match=f"holds another training .*{message}"):
        train(short[2], **changes)


def test_a_damaged_state_is_an_error(tmp_path):
    with pytest.raises(StoppedError):
        train(tmp_path, stop=1)
    state = tmp_path / "training.ckpt"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(WeightsError, match="delete it to start the training anew"):
        train(tmp_path)


def test_an_unfinished_training_is_no_attacker(tmp_path):
    with pytest.raises(WeightsError, match="the folder holds no attacker"):
        load_attacker(tmp_path)
    with pytest.raises(StoppedError):
        train(tmp_path, stop=5)
    with pytest.raises(WeightsError, match="has not come to its end"):
        load_attacker(tmp_path)


def test_a_loss_that_is_not_finite_stops_the_training(tmp_path):
    with pytest.raises(ConfigError, match=r"the loss is nan in step \d+; lower max_rate"):
        train(tmp_path, config=tiny(max_rate=1e30, half_cycle=1, epochs=8))
    assert not (tmp_path / "attacker.json").exists()


# What it says about itself.


def test_progress(short):
    _, reports, _ = short
    steps = [(r.epoch, r.step, r.result is not None) for r in reports[:5]]
    assert steps == [(1, 1, False), (1, 2, False), (1, 3, False), (1, 3, True), (2, 1, False)]
    assert all((r.epochs, r.steps) == (3, 3) for r in reports)
    rates = [r.learning_rate for r in reports[:3]]
    assert rates == pytest.approx([0.01 / 12, 0.02 / 12, 0.03 / 12], rel=1e-4)
    assert reports[3].result.loss == reports[3].loss == reports[2].loss
    assert all(math.isfinite(r.loss) for r in reports)


def test_label_and_facts(short):
    attacker, reports, folder = short
    assert attacker.label == LABEL
    assert attacker.training_data in LABEL
    assert attacker.facts.trained_on == "anonymized"
    assert attacker.facts.history == tuple(r.result for r in reports if r.result)
    assert json.loads((folder / "attacker.json").read_text())["system"] == "vpc2024-b2"


def test_labels_tell_what_differs(short):
    facts = short[0].facts
    original = replace(facts, system=ORIGINAL, level=None)
    assert "22 original utterances of 4 speakers, changed" in original.label
    assert original.trained_on == "original"
    tuned = replace(facts, start="0123456789abcdef", config=AttackerConfig())
    assert tuned.label.startswith("ECAPA-TDNN fine-tuned (from weights 01234567) on 22")
    assert tuned.label.endswith("level utterance, challenge configuration")
    wavlm = replace(facts, config=replace(TINY, front_end="wavlm"))
    assert wavlm.label.startswith("WavLM and ECAPA-TDNN trained on")


def test_reduced_data_is_counted(tmp_path):
    attacker, _ = train(tmp_path, config=tiny(utterances_per_speaker=3, epochs=1))
    assert attacker.facts.utterances == 3 * len(SPEAKERS) - 1
    assert attacker.facts.config == tiny(utterances_per_speaker=3, epochs=1)


# Loading and embedding.


def test_loading_gives_the_same_embeddings(short):
    attacker, _, folder = short
    waves = [voice("ann", 9), voice("bob", 9, 0.7)]
    loaded = load_attacker(folder, device="cpu")
    assert loaded.identity == attacker.identity
    assert loaded.facts == attacker.facts
    assert np.array_equal(loaded.embed(waves), attacker.embed(waves))


def test_identity_names_the_weights(short, trained):
    assert short[0].identity != trained[0].identity


def test_embeddings_depend_on_the_recording_alone(short):
    attacker = short[0]
    waves = [voice("ann", 9), voice("bob", 9, 0.4), voice("cleo", 9, 0.9)]
    together = attacker.embed(waves)
    assert together.shape == (3, TINY.sizes.embedding)
    assert together.dtype == np.float32
    for row, wave in zip(together, waves, strict=True):
        np.testing.assert_allclose(row, attacker.embed([wave])[0], rtol=1e-4, atol=1e-5)
    loud = attacker.embed([np.pad(2.5 * waves[1], (300, 70))])
    np.testing.assert_allclose(loud[0], together[1], rtol=1e-4, atol=1e-5)
    assert attacker.embed([]).shape == (0, TINY.sizes.embedding)


@pytest.mark.parametrize(
    ("wave", "message"),
    [(np.zeros(8000, np.float32), "recording 0: .* silent"), (np.ones(600, np.float32), "short")],
)
def test_recordings_that_cannot_be_embedded(short, wave, message):
    with pytest.raises(AudioError, match=message):
        short[0].embed([wave])


def test_facts_of_another_program_are_refused(short, tmp_path):
    (tmp_path / "attacker.json").write_text('{"config": {}}')
    with pytest.raises(WeightsError, match="not written by train_attacker"):
        load_attacker(tmp_path)


# Starting from given weights.


@pytest.mark.parametrize("what", ["folder", "file"])
def test_fine_tuning_starts_from_given_weights(trained, tmp_path, what):
    start = trained[1] if what == "folder" else trained[1] / "embedding_model.ckpt"
    config = tiny(epochs=1, max_rate=1e-8, seed=5)
    tuned, reports = train(tmp_path, config=config, init=start)
    assert tuned.facts.start in trained[0].identity
    assert tuned.label.startswith("ECAPA-TDNN fine-tuned")
    first, last = weights(trained[1]), weights(tmp_path)
    moved = [n for n in first if not torch.allclose(first[n], last[n], atol=1e-6)]
    # With next to no learning rate only the statistics of batches move.
    assert all("running" in name or "tracked" in name for name in moved)
    # The classifier starts anew.
    assert reports[0].loss > 2 * trained[0].facts.history[-1].loss + 2


def test_weights_to_start_from_must_fit(trained, tmp_path):
    with pytest.raises(WeightsError, match="there is no such file"):
        train(tmp_path / "a", init=tmp_path / "nowhere")
    wider = replace(TINY, sizes=replace(TINY.sizes, width=32))
    with pytest.raises(WeightsError, match="does not fit"):
        train(tmp_path / "b", config=wider, init=trained[1])
    with pytest.raises(ConfigError, match="start: None there"):
        train(trained[1], config=trained[0].facts.config, init=trained[1])


# The caller's process.


def test_the_process_is_neither_used_nor_changed(short, tmp_path):
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.get_rng_state(), repr(np.random.get_state())
    torch.set_default_dtype(torch.float64)
    try:
        train(tmp_path)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert repr(np.random.get_state()) == before[1]
    assert same_weights(tmp_path, short[2])


def test_the_order_of_utterances_of_a_folder_is_part_of_the_data(short):
    shuffled = TrainingData(utterances=utterances()[::-1], system=DATA.system, level=DATA.level)
    with pytest.raises(ConfigError, match="holds another training"):
        train(short[2], data=shuffled)


def test_state_is_plain(short):
    state = torch.load(short[2] / "training.ckpt", weights_only=True)
    assert state["identity"]["system"] == "vpc2024-b2"
    assert state["identity"]["sizes"] == asdict(TINY.sizes)
    assert state["total_steps"] == 9


def test_validation_leaves_the_statistics_alone(short):
    state = torch.load(short[2] / "training.ckpt", weights_only=True)
    counts = {v.item() for n, v in state["network"].items() if n.endswith("batches_tracked")}
    assert counts == {state["total_steps"]}
