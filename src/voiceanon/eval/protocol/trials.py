"""Trial lists: which utterance is compared with which speaker, and whether they belong together.

The list is always that of the original data, whatever speech its ids stand for (specification
sheet of the evaluation, section 3.1): originals and anonymized copies bear the same ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.ids import check_known, listed
from voiceanon.eval.metrics.kinds import BoolArray, IntArray
from voiceanon.eval.protocol.measurement import TrialCounts


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialList:
    """Comparisons of trial utterances with enrolment speakers.

    The arrays have one entry per trial, in the order of the list. They are indices, so that a list
    of 10^8 trials takes 1.7 GB rather than many times that in names.

    Attributes:
        enrolment: Enrolment utterances of each enrolment speaker.
        trial_speakers: True speaker of each trial utterance.
        speaker_index: Position in ``enrolment``, int64 ``(n,)``.
        utterance_index: Position in ``trial_speakers``, int64 ``(n,)``.
        is_target: Whether the speakers are the same, bool ``(n,)``.
    """

    enrolment: Mapping[str, tuple[str, ...]]
    trial_speakers: Mapping[str, str]
    speaker_index: IntArray
    utterance_index: IntArray
    is_target: BoolArray

    def __post_init__(self) -> None:
        """Checks what every later step relies on.

        Raises:
            ConfigError: There is no trial, a speaker has no enrolment utterance, an utterance is on
                both sides, or a label contradicts the true speaker.
        """
        if not len(self.is_target):
            raise ConfigError("trials: the list is empty; at least one trial is due.")
        bare = [speaker for speaker, utterances in self.enrolment.items() if not utterances]
        if bare:
            raise ConfigError(
                f"enrolment: no utterance of the speakers {listed(bare)}; leave them out of the "
                "trials, or enrol them."
            )
        both = sorted(set(self.enrolment_utterances) & self.trial_speakers.keys())
        if both:
            raise ConfigError(
                f"trials: the utterances {listed(both)} are enrolled and tried as well, and would "
                "be compared with themselves; take them out of one side."
            )
        self._check_labels()

    def _check_labels(self) -> None:
        number = {speaker: i for i, speaker in enumerate(self.enrolment)}
        owner = np.array([number.get(name, -1) for name in self.trial_speakers.values()])
        wrong = np.flatnonzero(
            (owner[self.utterance_index] == self.speaker_index) != self.is_target
        )
        if len(wrong):
            speakers, utterances = tuple(self.enrolment), tuple(self.trial_speakers)
            pairs = [
                f"{speakers[self.speaker_index[i]]} {utterances[self.utterance_index[i]]}"
                for i in wrong.tolist()
            ]
            raise ConfigError(
                f"trials: the labels of {listed(pairs)} contradict the speakers of the utterances; "
                "correct the list or the speaker table."
            )

    @property
    def enrolment_utterances(self) -> tuple[str, ...]:
        """All enrolment utterances, speaker by speaker."""
        return tuple(name for names in self.enrolment.values() for name in names)

    @property
    def counts(self) -> TrialCounts:
        """What a number from these trials rests on."""
        targets = int(self.is_target.sum())
        return TrialCounts(
            targets=targets,
            nontargets=len(self.is_target) - targets,
            enrolment_speakers=len(self.enrolment),
            enrolment_utterances=len(self.enrolment_utterances),
            trial_speakers=len(set(self.trial_speakers.values())),
            trial_utterances=len(self.trial_speakers),
        )

    @property
    def speaker_names(self) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.str_]]:
        """Enrolment speaker and true speaker of each trial, texts ``(n,)`` each."""
        enrolled = np.array(list(self.enrolment))
        tried = np.array(list(self.trial_speakers.values()))
        return enrolled[self.speaker_index], tried[self.utterance_index]

    def restricted_to(self, speakers: Collection[str]) -> TrialList:
        """The trials whose two speakers are both among some speakers.

        Args:
            speakers: Names; others than those of the list do no harm.

        Raises:
            ConfigError: No trial is left.
        """
        enrolled = np.array([name in speakers for name in self.enrolment])
        tried = np.array([name in speakers for name in self.trial_speakers.values()])
        kept = enrolled[self.speaker_index] & tried[self.utterance_index]
        rows, columns = self.speaker_index[kept], self.utterance_index[kept]
        used_rows, speaker_index = np.unique(rows, return_inverse=True)
        used_columns, utterance_index = np.unique(columns, return_inverse=True)
        names, utterances = tuple(self.enrolment), tuple(self.trial_speakers)
        chosen = [utterances[i] for i in used_columns.tolist()]
        return TrialList(
            enrolment={names[i]: self.enrolment[names[i]] for i in used_rows.tolist()},
            trial_speakers={name: self.trial_speakers[name] for name in chosen},
            speaker_index=speaker_index.astype(np.int64),
            utterance_index=utterance_index.astype(np.int64),
            is_target=self.is_target[kept],
        )


def make_trials(
    pairs: Iterable[tuple[str, str, bool]],
    enrolment: Mapping[str, tuple[str, ...]],
    speakers: Mapping[str, str],
) -> TrialList:
    """Makes a list from named pairs.

    Args:
        pairs: Enrolment speaker, trial utterance, and whether they belong together. A pair that
            comes again counts once (as in the VoicePrivacy Challenge 2024).
        enrolment: Utterances by speaker; speakers without a trial are left out.
        speakers: Speaker of each trial utterance; utterances without a trial are left out.

    Raises:
        ConfigError: Ids are not known, a pair has both labels, or what `TrialList` refuses.
    """
    labels: dict[tuple[str, str], bool] = {}
    torn = []
    for speaker, utterance, is_target in pairs:
        if labels.setdefault((speaker, utterance), is_target) != is_target:
            torn.append(f"{speaker} {utterance}")
    if torn:
        raise ConfigError(
            f"trials: the pairs {listed(torn)} are target and non-target at once; keep one label."
        )
    way_out = "correct the trial list, or add them"
    check_known((s for s, _ in labels), enrolment, "trials: enrolment speakers", way_out)
    check_known((u for _, u in labels), speakers, "trials: trial utterances", way_out)
    # Dictionaries keep the order of first appearance.
    row_of = {name: i for i, name in enumerate(dict.fromkeys(s for s, _ in labels))}
    column_of = {name: i for i, name in enumerate(dict.fromkeys(u for _, u in labels))}
    return TrialList(
        enrolment={name: tuple(enrolment[name]) for name in row_of},
        trial_speakers={name: speakers[name] for name in column_of},
        speaker_index=np.array([row_of[s] for s, _ in labels], np.int64),
        utterance_index=np.array([column_of[u] for _, u in labels], np.int64),
        is_target=np.array(list(labels.values()), np.bool_),
    )


def by_sex(trials: TrialList, sexes: Mapping[str, str]) -> dict[Literal["f", "m"], TrialList]:
    """Splits a list as the VoicePrivacy Challenge does: one list per sex, no trial across them.

    Args:
        trials: Of both sexes.
        sexes: ``"f"`` or ``"m"`` of every speaker.

    Returns:
        One list for each sex of which there are trials.

    Raises:
        ConfigError: A speaker's sex is not known, or is another word.
    """
    present = {*trials.enrolment, *trials.trial_speakers.values()}
    check_known(present, sexes, "sexes: speakers of the trials", "name their sex")
    odd = sorted(name for name in present if sexes[name] not in ("f", "m"))
    if odd:
        raise ConfigError(f"sexes: those of {listed(odd)} are neither 'f' nor 'm'; correct them.")
    halves: dict[Literal["f", "m"], TrialList] = {}
    for sex in ("f", "m"):
        group = {name for name in present if sexes[name] == sex}
        if group & trials.enrolment.keys() and group & set(trials.trial_speakers.values()):
            halves[sex] = trials.restricted_to(group)
    return halves
