"""Voices that depend on the source are completed once, from the first chunk of a recording."""

import signals
import torch
from properties.systems import PassThrough

from voiceanon import system_info
from voiceanon.systems.admixture import Admixture, AdmixtureConfig


class Listener(PassThrough):
    """Notes the first sample of the source in the target; counts how often it was asked."""

    def __init__(self, **facts):
        super().__init__(**facts)
        self.asked = 0

    def settle_targets(self, batch, lengths, targets):
        self.asked += sum("first" not in target for target in targets)
        return [
            target if "first" in target else {**target, "first": float(row[0])}
            for row, target in zip(batch, targets, strict=True)
        ]


def recording(first, seconds=1.0):
    wave = signals.speech(seconds, seed=3).clone()
    wave[0] = first
    return wave


def test_all_chunks_and_channels_share_the_voice_of_the_first():
    system = Listener(overlap_seconds=0.1)
    stereo = torch.stack([recording(0.25, 3.0), recording(0.5, 3.0)])
    _, report = system.anonymize(stereo, chunk_seconds=0.5, return_report=True, seed=1)
    assert report.chunks > 3
    assert report.target["first"] == 0.25
    assert {target["first"] for batch in system.targets for target in batch} == {0.25}
    assert system.asked == 1


def test_a_batch_gives_what_single_calls_give():
    system = Listener(overlap_seconds=0.1, batch_seconds=2.0)
    audios = [recording(0.1 * number, 0.5 + 0.7 * number) for number in range(1, 5)]
    keys = [str(number) for number in range(4)]
    _, together = system.anonymize_batch(audios, keys=keys, seed=1, return_reports=True)
    alone = [
        system.anonymize(audio, key=key, seed=1, return_report=True)[1]
        for audio, key in zip(audios, keys, strict=True)
    ]
    assert [report.target for report in together] == [report.target for report in alone]
    assert len({report.target["first"] for report in together}) == 4


def test_a_complete_voice_stays_as_it_was_given():
    system = Listener()
    given = {"number": 0.5, "first": 7.0}
    _, report = system.anonymize(recording(0.25), target=given, return_report=True)
    assert report.target == given
    assert system.targets == [[given]]
    assert system.asked == 0


def test_a_mixture_asks_the_system_of_each_voice():
    mixture = Admixture(AdmixtureConfig(p=0.5), system_info("admixture"))
    listener = Listener(id="test-listener")
    mixture.use_members({"first": listener, "second": PassThrough(id="test-deaf")})
    audios = [recording(0.1 * number) for number in range(1, 9)]
    _, reports = mixture.anonymize_batch(
        audios, keys=[str(number) for number in range(8)], seed=1, return_reports=True
    )
    heard = [report.target["system"] == "test-listener" for report in reports]
    assert 0 < sum(heard) < len(heard)
    for audio, report, own in zip(audios, reports, heard, strict=True):
        assert report.target["target"].get("first") == (float(audio[0]) if own else None)
    assert listener.asked == sum(heard)
