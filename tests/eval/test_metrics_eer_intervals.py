"""Bootstrap over speakers: identity, coverage, the paired test, and its errors."""

import numpy as np
import pytest

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import (
    eer_difference,
    eer_interval,
    equal_error_rate,
    mean_eer_interval,
)


def trials(random, speakers=20, utterances=6, *, distance=2.0, spread=0.7):
    """All pairs of models and recordings; speakers differ in how far off their scores are."""
    models = np.repeat(np.arange(speakers), speakers * utterances)
    recordings = np.tile(np.repeat(np.arange(speakers), utterances), speakers)
    of_models, of_recordings = random.normal(0, spread, (2, speakers))
    scores = random.normal(size=len(models)) + of_models[models] / 2
    scores += of_recordings[recordings] / 2
    scores += np.where(models == recordings, distance + of_models[models], 0)
    return scores, models, recordings


def rate(scores, models, recordings):
    same = models == recordings
    return equal_error_rate(scores[same], scores[~same]).value


def test_value_is_the_rate_itself():
    for seed in range(20):
        scores, models, recordings = trials(np.random.RandomState(seed), 6, 2)
        scores = np.round(scores, 1)
        names = np.array([f"speaker-{index}" for index in range(6)])
        found = eer_interval(
            scores,
            names[models],
            names[recordings],
            generator=np.random.default_rng(0),
            replicates=3,
        )
        assert found.value == rate(scores, models, recordings)
        assert found.speaker_count == 6


def test_replicate_is_the_rate_of_the_drawn_speakers():
    """Trials written out as often as they are drawn give the same rate as weights do."""
    scores, models, recordings = trials(np.random.RandomState(1), 7, 2)
    found = eer_interval(
        scores, models, recordings, generator=np.random.RandomState(5), replicates=10
    )
    random = np.random.RandomState(5)
    for value in found.replicates:
        times = np.bincount(random.randint(0, 7, (7,)), minlength=7)
        weights = times[models] * np.where(models == recordings, 1, times[recordings])
        expected = rate(*(np.repeat(part, weights) for part in (scores, models, recordings)))
        assert value == pytest.approx(expected, abs=1e-15)


def test_interval_is_repeatable_and_holds_its_share():
    data = trials(np.random.RandomState(2))
    first, second = (
        eer_interval(*data, generator=np.random.default_rng(3), replicates=200, level=0.9)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.replicates, second.replicates)
    inside = (first.replicates >= first.low) & (first.replicates <= first.high)
    assert inside.mean() == pytest.approx(0.9, abs=0.01)
    assert first.low < first.value < first.high


def test_width_follows_how_much_speakers_differ():
    ratios = []
    for spread in (0.0, 1.5):
        data = trials(np.random.RandomState(4), spread=spread)
        found = eer_interval(*data, generator=np.random.default_rng(0), replicates=300)
        # Of 120 independent target trials, and so many non-targets that they add nothing: half of
        # an error in the misses shows in the equal error rate.
        independent = 1.96 * np.sqrt(found.value * (1 - found.value) / 120)
        ratios.append((found.high - found.low) / independent)
    assert ratios[0] == pytest.approx(1, abs=0.35)
    assert ratios[1] > 1.5


@pytest.mark.slow
def test_coverage():
    random = np.random.RandomState(6)
    truth = np.mean([rate(*trials(random, 60)) for _ in range(40)])
    hits = 0
    for seed in range(100):
        found = eer_interval(
            *trials(random, 30, 4), generator=np.random.default_rng(seed), replicates=200
        )
        hits += found.low <= truth <= found.high
    # 95 % is meant; a binomial count of 100 stays above 87 in 999 of 1000 cases.
    assert 88 <= hits <= 100


class TestDifference:
    def test_of_a_system_from_itself(self):
        scores, models, recordings = trials(np.random.RandomState(7))
        found = eer_difference(
            scores,
            3 * scores + 1,
            models,
            recordings,
            generator=np.random.default_rng(0),
            replicates=50,
        )
        # The scale of an attacker's scores does not matter, but for the rounding to float32.
        assert abs(found.value) < 1e-3
        assert found.p_value > 0.5

    def test_sees_what_two_intervals_do_not(self):
        random = np.random.RandomState(8)
        scores, models, recordings = trials(random)
        worse = scores - np.where(models == recordings, 0.4, 0)
        options = {"replicates": 200}
        found = eer_difference(
            worse, scores, models, recordings, generator=np.random.default_rng(0), **options
        )
        one, other = (
            eer_interval(x, models, recordings, generator=np.random.default_rng(0), **options)
            for x in (worse, scores)
        )
        assert one.low < other.high
        assert found.low > 0
        assert found.p_value == pytest.approx(2 / 201)
        np.testing.assert_allclose(found.replicates, one.replicates - other.replicates)
        assert found.value == pytest.approx(one.value - other.value)

    def test_sign_changes_with_the_order(self):
        random = np.random.RandomState(9)
        scores, models, recordings = trials(random, 8, 3)
        other = random.normal(size=len(scores))
        first, second = (
            eer_difference(
                *pair, models, recordings, generator=np.random.default_rng(0), replicates=50
            )
            for pair in ((scores, other), (other, scores))
        )
        assert first.value == -second.value
        assert first.low == pytest.approx(-second.high)
        assert first.p_value == second.p_value


def test_mean_of_lists():
    random = np.random.RandomState(10)
    generator = np.random.default_rng(0)
    lists = [
        eer_interval(*trials(random, distance=d), generator=generator, replicates=200)
        for d in (1.0, 2.0)
    ]
    found = mean_eer_interval(lists)
    assert found.value == pytest.approx((lists[0].value + lists[1].value) / 2)
    assert found.speaker_count == 40
    widths = [item.high - item.low for item in lists]
    # Independent errors partly cancel: about half the root of the sum of squares.
    assert found.high - found.low == pytest.approx(np.hypot(*widths) / 2, rel=0.25)
    with pytest.raises(ConfigError, match="0 intervals"):
        mean_eer_interval([])


GOOD = trials(np.random.RandomState(11), 6, 2)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (trials(np.random.RandomState(0), 4, 2), {}, "4 speakers; .* at least 5"),
        ((GOOD[0][:-1], *GOOD[1:]), {}, "71 scores for 72 trials"),
        ((*GOOD[:2], GOOD[2][:-1]), {}, "72 enrolment and 71 trial speakers"),
        ((GOOD[0], GOOD[1], GOOD[1]), {}, "72 of 72 have one speaker"),
        ((GOOD[0], GOOD[1], GOOD[2] + 10), {}, "0 of 72 have one speaker"),
        (GOOD, {"replicates": 0}, "replicates: 0"),
        (GOOD, {"level": 95}, "level: 95"),
        ((np.where(GOOD[0] > 2, np.nan, GOOD[0]), *GOOD[1:]), {}, "is nan"),
    ],
)
def test_refused(data, options, message):
    options = {"replicates": 5, **options}
    with pytest.raises(ConfigError, match=message):
        eer_interval(*data, generator=np.random.default_rng(0), **options)
