"""`t8-3`, `t8-4`, `t8-5` and other mixtures of two systems."""

import pytest
import signals
import torch
from golden.asr_tts_files import write_folder
from properties.systems import small_admixture, small_asr_tts, small_knn_vc

from voiceanon import ConfigError, load, system_info
from voiceanon.registry import system_config

RATE = 16_000
FIRST, SECOND = "vpc2024-t8-1", "vpc2024-t8-2"

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*RANDOM WEIGHTS:UserWarning"),
    pytest.mark.usefixtures("one_thread"),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VOICEANON_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def mixture():
    return load("t8-3", device="cpu", **small_admixture())


@pytest.fixture(scope="module")
def members(mixture):
    return {FIRST: mixture.first, SECOND: mixture.second}


def draws(system, count=1000):
    return [system.draw_target(torch.Generator().manual_seed(seed), None) for seed in range(count)]


@pytest.mark.parametrize("p", [0.0, 0.2, 0.325, 0.4, 1.0])
def test_p_is_the_probability_of_the_first(p):
    system = load("t8-5", device="cpu", **{**small_admixture(), "p": p})
    share = [target["system"] for target in draws(system)].count(FIRST) / 1000
    assert share == pytest.approx(p, abs=0.04)
    assert share == p or 0 < p < 1


@pytest.mark.parametrize(("name", "p"), [("t8-3", 0.2), ("t8-4", 0.325), ("t8-5", 0.4)])
def test_the_published_probabilities(name, p):
    """Of T8-1: mixing the published recalls with these weights gives the published ones."""
    config = system_config(name)
    assert (config.first, config.second, config.p) == ("t8-1", "t8-2", p)

    def recall(name):
        published = system_info(name).published
        return next(r.value for r in published if r.condition == "IEMOCAP test")

    expected = p * recall("t8-1") + (1 - p) * recall("t8-2")
    assert recall(name) == pytest.approx(expected, abs=1.0)


def test_targets_are_those_of_the_members(mixture, members):
    for target in draws(mixture, 50):
        member = members[target["system"]]
        assert member.parse_target(target["target"]) == target["target"]
    names = {target["target"]["speaker"] for target in draws(mixture, 50)}
    assert len(names) > 5


def test_an_utterance_is_what_its_system_alone_makes_of_it(mixture, members):
    wav = signals.speech(1.5)
    target = {"speaker": "speaker 2"}
    result, report = mixture.anonymize(
        wav, seed=1, target={"system": "t8-2", "target": target}, return_report=True
    )
    expected, alone = members[SECOND].anonymize(wav, seed=1, target=target, return_report=True)
    assert torch.equal(result, expected)
    assert report.gain_db == alone.gain_db != 0.0  # T8-2 sets the loudness
    assert report.target == {"system": SECOND, "target": target}
    target = {"speaker": "voice 7"}
    _, report = mixture.anonymize(
        wav, seed=1, target={"system": FIRST, "target": target}, return_report=True
    )
    assert report.gain_db == 0.0
    draw = [torch.Generator().manual_seed(3) for _ in range(2)]
    batch, lengths = wav[None], torch.tensor([len(wav)])
    with torch.inference_mode():
        mixed, count = mixture.convert(
            batch, lengths, [{"system": FIRST, "target": target}], draw[:1]
        )
        expected, alone = members[FIRST].convert(batch, lengths, [target], draw[1:])
    assert torch.equal(count, alone)
    assert torch.equal(mixed, expected)


def test_a_batch_equals_single_runs_in_any_order(mixture):
    waves = [signals.speech(s, seed=i) for i, s in enumerate((0.3, 2.2, 1.0, 0.7, 1.4, 0.5))]
    keys = [f"utt-{i}" for i in range(6)]
    alone, reports = [], []
    for wav, key in zip(waves, keys, strict=True):
        result, report = mixture.anonymize(wav, seed=3, key=key, return_report=True)
        alone.append(result)
        reports.append(report)
    assert {report.target["system"] for report in reports} == {FIRST, SECOND}
    for order in (range(6), [3, 0, 5, 1, 4, 2]):
        together = mixture.anonymize_batch(
            [waves[i] for i in order], seed=3, keys=[keys[i] for i in order]
        )
        for i, result in zip(order, together, strict=True):
            assert result.shape == alone[i].shape
            assert float((result - alone[i]).abs().max()) <= 1e-4


def test_who_keeps_the_length_keeps_it(mixture):
    wav = signals.speech(1.3)
    kept = mixture.anonymize(
        wav, seed=1, target={"system": SECOND, "target": {"speaker": "speaker 0"}}
    )
    assert kept.shape == wav.shape
    assert not mixture.info.keeps_length


def test_long_recordings_are_cut_as_the_system_alone_cuts_them(mixture, members):
    """The mixture takes 300 s at once, T8-2 only 30 s."""
    wav = signals.speech(35.0)
    target = {"speaker": "speaker 1"}
    result, report = mixture.anonymize(
        wav, seed=1, target={"system": SECOND, "target": target}, return_report=True
    )
    expected, alone = members[SECOND].anonymize(wav, seed=1, target=target, return_report=True)
    assert (report.chunks, alone.chunks) == (1, 2)
    assert result.shape == expected.shape
    near = (result - expected).abs() <= 1e-4 * expected.abs().max()
    assert float(near.float().mean()) >= 0.999


def test_pieces_of_a_long_recording_draw_apart():
    """A system that draws for each piece, and takes short pieces only."""
    from properties import systems

    from voiceanon.systems.admixture import Admixture, AdmixtureConfig

    codes, filtered = systems.Codes(), systems.PassThrough(sample_rate=24_000)
    codes.info = systems.dataclasses.replace(codes.info, chunk_seconds=0.5)
    mixture = Admixture(AdmixtureConfig(first="test-pass", second="test-codes"),
                        system_info("admixture"))  # fmt: skip
    mixture.use_members({"first": filtered, "second": codes})
    assert mixture.info.keeps_length
    assert mixture.sample_rate == 24_000
    assert mixture.hop_samples == 240
    wav = signals.constant(0.1, 3.0, 24_000)
    target = {"system": "test-codes", "target": {"colour": 0.0}}
    batch, lengths = wav[None], torch.tensor([len(wav)])
    results = []
    for seed in (1, 1, 2):
        draw = torch.Generator().manual_seed(seed)
        with torch.inference_mode():
            results.append(mixture.convert(batch, lengths, [target], [draw])[0][0])
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert results[0].shape == wav.shape
    pieces = results[0].unfold(0, 9600, 12_000)
    assert float((pieces[1] - pieces[2]).abs().max()) > 0.01


def test_facts_are_those_of_both(mixture, members):
    info = mixture.info
    assert info.id == "vpc2024-t8-3"
    assert (info.min_seconds, info.discrete, info.training_rate) == (0.025, True, RATE)
    assert (info.chunk_seconds, info.overlap_seconds) == (300.0, 0.0)
    keys = {file.key for file in info.weights}
    assert {"WavLM-Large.pt", "whisper-medium.en/model.safetensors"} <= keys
    assert f"{SECOND}/pool" in mixture.weight_digests
    assert f"{FIRST}/vits-vctk/config.json" in mixture.weight_digests
    assert any("RANDOM WEIGHTS" in note for note in info.notes)
    assert f"{FIRST}: synthesizer" in info.guesses
    assert mixture.config.first_options["whisper"]["width"] == 16


def test_any_pair():
    pair = load("admixture", device="cpu", first="b2", second="t8-2", p=0.5,
                second_options={n: v for n, v in small_knn_vc().items()
                                if n not in ("weights", "pool")},
                weights="random", pool=small_knn_vc()["pool"])  # fmt: skip
    assert pair.info.keeps_length
    assert (pair.info.chunk_seconds, pair.info.overlap_seconds) == (30.0, 1.0)
    wav = signals.speech(1.0)
    seen = set()
    for seed in range(8):
        result, report = pair.anonymize(wav, seed=seed, return_report=True)
        assert result.shape == wav.shape
        seen.add(report.target["system"])
    assert seen == {"vpc2024-b2", SECOND}
    made = pair.make_pool({"a": signals.speech(1.0)})
    assert made.names == ("a",)


def test_a_folder_for_each_member_or_one_for_both(tmp_path):
    write_folder(tmp_path / "t8-1")
    options = {"first": "b2", "second": "t8-1", "device": "cpu"}
    apart = load("admixture", weights=tmp_path, **options)
    together = load("admixture", weights=tmp_path / "t8-1", **options)
    assert apart.weight_digests == together.weight_digests
    assert f"{FIRST}/vits-vctk/pytorch_model.bin" in apart.weight_digests
    assert apart.second.config.voice.width == 32


def test_saved_and_loaded(mixture, tmp_path):
    mixture.save_pretrained(tmp_path / "mine")
    names = {str(p.relative_to(tmp_path / "mine")) for p in (tmp_path / "mine").rglob("*.*")}
    assert names == {
        "config.json", "first/config.json", "first/model.safetensors", "second/config.json",
        "second/model.safetensors", "second/pool.safetensors",
    }  # fmt: skip
    again = load(tmp_path / "mine", device="cpu")
    assert again.info.id == mixture.info.id
    assert again.config.p == 0.5
    for key in ("a", "b", "c", "d"):
        results = [
            each.anonymize(signals.speech(0.8), seed=1, key=key) for each in (mixture, again)
        ]
        assert torch.equal(*results)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": -0.1}, "p: -0.1"),
        ({"p": 1.5}, "p: 1.5"),
        ({"first": "t8-2", "second": "knn-vc"}, "is the first system, too"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    small = small_knn_vc()
    pool = small.pop("pool")
    weights = small.pop("weights")
    given = {"first": "b2", "second": "t8-2", **options}
    if given["first"] == "t8-2":
        given["first_options"] = small
    with pytest.raises(ConfigError, match=message):
        load("admixture", device="cpu", weights=weights, pool=pool, second_options=small, **given)


def test_other_rates_are_refused():
    from properties import systems

    from voiceanon.systems.admixture import Admixture, AdmixtureConfig

    mixture = Admixture(AdmixtureConfig(), system_info("admixture"))
    with pytest.raises(ConfigError, match="test-codes works at 24000 Hz, test-pass at 16000 Hz"):
        mixture.use_members({"first": systems.PassThrough(), "second": systems.Codes()})


@pytest.mark.parametrize(
    "target",
    [3, "t8-1", {"speaker": "voice 1"}, {"system": "b5", "target": {}}, {"system": "t8-1"},
     {"system": "t8-1", "target": {"speaker": "nobody"}}],
)  # fmt: skip
def test_targets_that_do_not_fit_are_refused(mixture, target):
    with pytest.raises(ConfigError, match="target: "):
        mixture.parse_target(target)


def test_a_missing_pool_is_said_at_once():
    options = small_admixture()
    options.pop("pool")
    mixture = load("t8-3", device="cpu", **options)
    for seed in range(4):
        with pytest.raises(ConfigError, match="voiceanon pool build"):
            mixture.anonymize(signals.speech(0.5), seed=seed)


def test_members_without_pools_take_none():
    options = small_asr_tts()
    weights = options.pop("weights")
    with pytest.raises(ConfigError, match="no target speakers"):
        load("admixture", device="cpu", first="b2", second="t8-1", second_options=options,
             weights=weights, pool={"a": signals.speech(1.0)})  # fmt: skip
