"""Trial lists: read from Kaldi folders, made from pairs, drawn, and split by sex."""

import json
from pathlib import Path

import numpy as np
import pytest

from voiceanon.errors import ConfigError
from voiceanon.eval.ids import SHOWN_IDS
from voiceanon.eval.protocol.draw import draw_trials
from voiceanon.eval.protocol.kaldi import read_enrolment, read_sexes, read_trials
from voiceanon.eval.protocol.trials import by_sex, make_trials

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/eval/protocol.json").read_text())

SPEAKERS = {f"{s}-{i}": s for s in ("s1", "s2", "s3", "s4") for i in range(5)}
"""Speaker of each of 20 utterances."""

SEXES = {"s1": "f", "s2": "m", "s3": "f", "s4": "m"}


def write(folder, **tables):
    folder.mkdir(exist_ok=True)
    for name, lines in tables.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder


def table(mapping):
    return [f"{key} {value}" for key, value in mapping.items()]


def golden_trial_speakers():
    return {line.split()[1]: line.split()[1].split("-")[0] for line in GOLDEN["trials"]}


@pytest.fixture
def folders(tmp_path):
    """Enrolment and trial folder of the golden list."""
    enrolment = write(
        tmp_path / "libri_enrolls",
        enrolls=list(GOLDEN["enrol_utt2spk"]),
        utt2spk=table(GOLDEN["enrol_utt2spk"]),
    )
    trials = write(
        tmp_path / "libri_trials_f",
        trials=GOLDEN["trials"],
        utt2spk=table(golden_trial_speakers()),
    )
    return enrolment, trials


def pairs_of(trials):
    """The trials as texts, in their order."""
    speakers, utterances = list(trials.enrolment), list(trials.trial_speakers)
    words = {True: "target", False: "nontarget"}
    return [
        f"{speakers[i]} {utterances[j]} {words[bool(same)]}"
        for i, j, same in zip(
            trials.speaker_index, trials.utterance_index, trials.is_target, strict=True
        )
    ]


# Kaldi folders.


def test_a_list_is_read_in_its_order(folders):
    trials = read_trials(*folders)
    assert pairs_of(trials) == [line for line in GOLDEN["trials"] if line.split()[0] != "61"]
    assert set(trials.enrolment_utterances) == {
        name for name, speaker in GOLDEN["enrol_utt2spk"].items() if speaker in trials.enrolment
    }
    counts = trials.counts
    assert counts.targets == sum(line.endswith(" target") for line in GOLDEN["trials"])
    assert counts.targets + counts.nontargets == len(GOLDEN["trials"])
    assert counts.trial_utterances == 20
    assert counts.trial_speakers == 5


def test_a_speaker_with_one_enrolment_utterance_stays_a_list(folders):
    enrolment, _ = folders
    write(enrolment, enrolls=["only-one"], utt2spk=["only-one abcdefgh"])
    assert read_enrolment(enrolment) == {"abcdefgh": ("only-one",)}


def test_repeated_pairs_count_once(folders):
    enrolment, trial = folders
    once = read_trials(*folders)
    write(trial, trials=[*GOLDEN["trials"], GOLDEN["trials"][3], "", GOLDEN["trials"][0]])
    assert pairs_of(read_trials(enrolment, trial)) == pairs_of(once)


def test_enrolled_speakers_without_a_trial_are_left_out(folders):
    enrolment, trial = folders
    write(trial, trials=[line for line in GOLDEN["trials"] if not line.startswith("121 ")])
    trials = read_trials(enrolment, trial)
    assert "121" not in trials.enrolment
    assert "121" in trials.trial_speakers.values()


def test_ids_that_do_not_match_are_all_listed(folders):
    enrolment, trial = folders
    write(trial, trials=[*GOLDEN["trials"], "1089 x-1 nontarget", "1089 x-2 nontarget"])
    with pytest.raises(ConfigError, match=r"trial utterances: 2 \(x-1, x-2\) not among the 20"):
        read_trials(enrolment, trial)
    write(trial, trials=["nobody 1089-2-0000 nontarget", "noone 1089-2-0000 nontarget"])
    with pytest.raises(ConfigError, match=r"enrolment speakers: 2 \(nobody, noone\)"):
        read_trials(enrolment, trial)
    write(enrolment, enrolls=[*GOLDEN["enrol_utt2spk"], "z"])
    with pytest.raises(ConfigError, match=r"enrolls: utterances: 1 \(z\)"):
        read_enrolment(enrolment)


def test_very_many_unknown_ids_are_counted_and_cut():
    pairs = [("s1", f"u{i}", False) for i in range(SHOWN_IDS + 7)]
    with pytest.raises(ConfigError, match=rf"{SHOWN_IDS + 7} \(.*, \.\.\.\)"):
        make_trials(pairs, {"s1": ("e",)}, {"other": "s2"})


@pytest.mark.parametrize(
    "line", ["1089 1089-2-0000", "1089 1089-2-0000 same", "1089 1089-2-0000 target 0.5"]
)
def test_malformed_lines_are_named(folders, line):
    enrolment, trial = folders
    write(trial, trials=[GOLDEN["trials"][0], line])
    with pytest.raises(ConfigError, match=r"trials, line 2: .* is not 'speaker utterance target'"):
        read_trials(enrolment, trial)


def test_missing_tables_are_named(folders):
    enrolment, trial = folders
    for path in (trial / "trials", trial / "utt2spk", enrolment / "enrolls"):
        content = path.read_text()
        path.unlink()
        with pytest.raises(ConfigError, match=f"{path.name}: there is no such table"):
            read_trials(enrolment, trial)
        path.write_text(content)


def test_labels_must_agree_with_speakers(folders):
    enrolment, trial = folders
    lines = [GOLDEN["trials"][0].replace(" target", " nontarget"), *GOLDEN["trials"][1:]]
    write(trial, trials=lines)
    with pytest.raises(ConfigError, match=r"labels of 1 \(1089 1089-2-0000\) contradict"):
        read_trials(enrolment, trial)
    write(trial, trials=[*lines, GOLDEN["trials"][0]])
    with pytest.raises(ConfigError, match="target and non-target at once"):
        read_trials(enrolment, trial)


def test_sexes_are_read(tmp_path):
    write(tmp_path, spk2gender=table(SEXES))
    assert read_sexes(tmp_path) == SEXES
    write(tmp_path, spk2gender=["s1 x"])
    with pytest.raises(ConfigError, match="'x' of speaker 's1'"):
        read_sexes(tmp_path)


# Lists.


def test_an_utterance_cannot_be_on_both_sides():
    with pytest.raises(ConfigError, match=r"the utterances 1 \(u\) are enrolled and tried"):
        make_trials([("s1", "u", True)], {"s1": ("u",)}, {"u": "s1"})


def test_empty_lists_and_speakers_are_refused():
    with pytest.raises(ConfigError, match="the list is empty"):
        make_trials([], {"s1": ("e",)}, {"u": "s1"})
    with pytest.raises(ConfigError, match=r"no utterance of the speakers 1 \(s1\)"):
        make_trials([("s1", "u", True)], {"s1": ()}, {"u": "s1"})


def test_names_by_trial():
    trials = draw_trials(SPEAKERS, 2, seed=0)
    enrolled, tried = trials.speaker_names
    assert ((enrolled == tried) == trials.is_target).all()
    assert [f"{s} {u.split('-')[0]}" for s, u, *_ in map(str.split, pairs_of(trials))] == [
        f"{a} {b}" for a, b in zip(enrolled, tried, strict=True)
    ]


def test_split_by_sex_has_no_trial_across():
    trials = draw_trials(SPEAKERS, 2, seed=0)
    halves = by_sex(trials, SEXES)
    assert list(halves) == ["f", "m"]
    for sex, half in halves.items():
        speakers = {name for name in SEXES if SEXES[name] == sex}
        assert set(half.enrolment) == speakers
        assert {half.trial_speakers[u] for u in half.trial_speakers} == speakers
        expected = [
            line
            for line in pairs_of(trials)
            if {line.split()[0], line.split()[1].split("-")[0]} <= speakers
        ]
        assert pairs_of(half) == expected
    assert list(by_sex(trials, dict.fromkeys(SEXES, "m"))) == ["m"]
    with pytest.raises(ConfigError, match=r"1 \(s2\) not among"):
        by_sex(trials, {name: sex for name, sex in SEXES.items() if name != "s2"})
    with pytest.raises(ConfigError, match="neither 'f' nor 'm'"):
        by_sex(trials, {**SEXES, "s2": "x"})
    with pytest.raises(ConfigError, match="the list is empty"):
        trials.restricted_to({"s1", "elsewhere"} - {"s1"})


# Drawn lists.


def test_drawn_list_has_all_pairs():
    trials = draw_trials(SPEAKERS, 2, seed=0)
    assert all(len(names) == 2 for names in trials.enrolment.values())
    assert not set(trials.enrolment_utterances) & set(trials.trial_speakers)
    assert set(trials.enrolment_utterances) | set(trials.trial_speakers) == set(SPEAKERS)
    lines = pairs_of(trials)
    assert len(set(lines)) == len(lines) == 4 * 12
    assert trials.counts.targets == 12
    assert all((s == u.split("-")[0]) == (w == "target") for s, u, w in map(str.split, lines))


def test_draws_depend_on_seed_and_speaker_alone():
    trials = draw_trials(SPEAKERS, 2, seed=7)
    shuffled = dict(reversed(SPEAKERS.items()))
    assert pairs_of(draw_trials(shuffled, 2, seed=7)) == pairs_of(trials)
    fewer = {u: s for u, s in SPEAKERS.items() if s != "s2"}
    kept = draw_trials(fewer, 2, seed=7).enrolment
    assert all(trials.enrolment[name] == names for name, names in kept.items())
    drawn = {tuple(draw_trials(SPEAKERS, 2, seed=s).enrolment.items()) for s in range(8)}
    assert len(drawn) == 8
    # All utterances of a speaker get their turn.
    firsts = {draw_trials(SPEAKERS, 1, seed=s).enrolment["s1"] for s in range(60)}
    assert len(firsts) == 5


def test_speakers_that_are_too_short_are_all_listed():
    few = {**SPEAKERS, "t-0": "t", "v-0": "v", "v-1": "v"}
    with pytest.raises(ConfigError, match=r"the speakers 2 \(t, v\) have 2 utterances or fewer"):
        draw_trials(few, 2, seed=0)
    with pytest.raises(ConfigError, match="n_enrolment: 0 is too small"):
        draw_trials(SPEAKERS, 0, seed=0)


def test_arrays_are_compact():
    trials = draw_trials(SPEAKERS, 2, seed=0)
    assert trials.speaker_index.dtype == trials.utterance_index.dtype == np.int64
    assert trials.is_target.dtype == np.bool_
