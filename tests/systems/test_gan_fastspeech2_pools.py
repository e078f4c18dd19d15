"""`t12-4` and `t30-1`: voices of a pool, by sex, by distance to the source, mixed."""

import dataclasses
import json
from pathlib import Path

import pytest
import signals
import torch
import torch.nn.functional as F
from golden.gan_files import unpin_vad, write

from voiceanon import ConfigError, load
from voiceanon.components.selection.kmeans import kmeans
from voiceanon.hub.pool import Pool, read_pool, write_pool
from voiceanon.systems.gan_fastspeech2_voices import CENTROID_SEED

SEXES = {"anna": "f", "bert": "m", "cleo": "f", "dirk": "m"}
STYLE_FILE = "tts/Embedding/embedding_function.pt"


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEANON_CACHE", str(tmp_path_factory.mktemp("cache")))
        unpin_vad(patch)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def pool():
    """Of 3, 1, 4 and 2 vectors."""
    generator = torch.Generator().manual_seed(5)
    counts = dict(zip(SEXES, (3, 1, 4, 2), strict=True))
    vectors = {n: torch.randn(c, 128, generator=generator) for n, c in counts.items()}
    return Pool(vectors, SEXES)


def build(name, folder, pool=None, **options):
    return load(name, weights=folder, device="cpu", pool=pool, **options)


@pytest.fixture(scope="module")
def farthest(folder, pool):
    return build("t30-1", folder, pool)


@pytest.fixture(scope="module")
def means(folder, pool):
    return build("t30-1", folder, pool, embedding="pool_farthest_mean", farthest=5, averaged=3)


def numbers(count):
    return [torch.Generator().manual_seed(number) for number in range(count)]


def one(wav):
    return wav[None], torch.tensor([len(wav)])


# T12-4.


def test_variants_do_without_the_gan(folder, pool):
    system = build("t12-4", folder, pool, source_sex="f")
    assert system.gan is None
    assert not any("anonymization" in key for key in system.weight_digests)
    assert system.config.prosody_range is None


def test_t12_4_takes_any_vector_of_the_other_sex(folder, pool):
    rows = {(name, row) for name in SEXES for row in range(len(pool.features[name]))}
    for source, wanted in (("f", "m"), ("m", "f")):
        system = build("t12-4", folder, pool, source_sex=source)
        drawn = [system.draw_target(g, None) for g in numbers(200)]
        expected = {row for row in rows if SEXES[row[0]] == wanted}
        assert {(target["speaker"], target["vector"]) for target in drawn} == expected
        _, report = system.anonymize(signals.speech(0.6), seed=1, return_report=True)
        assert SEXES[report.target["speaker"]] == wanted


def test_every_vector_is_as_likely(folder, pool):
    """Not every speaker: one with more reference speech is drawn more often."""
    system = build("t12-4", folder, pool, source_sex="m")
    drawn = [system.draw_target(g, None)["speaker"] for g in numbers(700)]
    assert drawn.count("cleo") / len(drawn) == pytest.approx(4 / 7, abs=0.06)


def test_the_sex_of_the_source_may_be_told_by_name(folder, pool):
    sexes = {"s1": "f", "s2": "m"}
    system = build("t12-4", folder, pool, source_sexes=sexes)
    for name, sex in sexes.items():
        _, report = system.anonymize(signals.speech(0.5), seed=2, speaker=name, return_report=True)
        assert SEXES[report.target["speaker"]] != sex
    both = build("t12-4", folder, pool, source_sexes={"s1": "f"}, source_sex="m")
    assert both.config.sex_of("s1") == "f"
    assert both.config.sex_of("s9") == both.config.sex_of(None) == "m"
    with pytest.raises(ConfigError, match=r"source_sex='f' or 'm'.*source_sexes"):
        system.anonymize(signals.speech(0.5))
    women = Pool({"a": torch.ones(1, 128)}, {"a": "f"})
    system = build("t12-4", folder, women, source_sex="f")
    with pytest.raises(ConfigError, match="no speaker of sex 'm'"):
        system.anonymize(signals.speech(0.5))


def test_the_vector_reaches_the_acoustic_model(folder, pool):
    system = build("t12-4", folder, pool, source_sex="f")
    seen = []
    system.acoustic.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[2]))
    targets = [{"speaker": "cleo", "vector": 2}, "bert", {"speaker": "dirk", "vector": 1}]
    system.anonymize_batch([signals.speech(0.5)] * 3, targets=targets)
    expected = [pool.features["cleo"][2], pool.features["bert"][0], pool.features["dirk"][1]]
    assert torch.equal(torch.cat(seen), torch.stack(expected))


# T30-1.


def centroids_of(pool):
    from voiceanon import seeding

    vectors = torch.cat([pool.features[name] for name in pool.names])
    secret = seeding.seed_secret(CENTROID_SEED)
    return kmeans(vectors, 500, seeding.generator(seeding.stream(secret, "centroids of a pool")))


def test_t30_1_takes_the_farthest_and_mixes_it(farthest, pool):
    wav = signals.speech(1.4, seed=3)
    (drawn,) = [farthest.draw_target(g, None) for g in numbers(1)]
    assert set(drawn) == {"sex", "window", "centroid", "dimensions"}
    assert (drawn["sex"], len(drawn["dimensions"])) == (None, 64)
    (target,) = farthest.settle_targets(*one(wav), [drawn])
    vector = farthest.source_vectors(*one(wav), torch.tensor([drawn["window"]]))
    rows = [(n, r) for n in pool.names for r in range(len(pool.features[n]))]
    vectors = torch.stack([pool.features[n][r] for n, r in rows])
    name, row = rows[int(F.cosine_similarity(vector, vectors).argmin())]
    assert (target["speaker"], target["vector"]) == (name, row)
    assert farthest.settle_targets(*one(wav), [target]) == [target]
    mixed = farthest.voices.vectors([target], torch.device("cpu"))[0]
    expected = pool.features[name][row].clone()
    centroid = centroids_of(pool)[drawn["centroid"]]
    expected[drawn["dimensions"]] = centroid[drawn["dimensions"]]
    assert torch.equal(mixed, expected)
    assert json.loads(json.dumps(target)) == target


def test_a_centroid_for_each_vector_at_most(farthest):
    drawn = [farthest.draw_target(g, None)["centroid"] for g in numbers(300)]
    assert set(drawn) == set(range(10))


def test_the_rule_by_sex_holds_for_the_farthest(folder, pool):
    system = build("t30-1", folder, pool, selection="same", source_sexes={"s": "f", "t": "m"})
    waves = [signals.speech(0.6, seed=i) for i in range(4)]
    speakers = ["s", "t", "t", "s"]
    _, reports = system.anonymize_batch(
        waves, seed=1, keys=list("abcd"), speakers=speakers, return_reports=True
    )
    found = [SEXES[report.target["speaker"]] for report in reports]
    assert found == ["f", "m", "m", "f"]


def test_the_mean_of_some_of_the_farthest(folder, pool):
    system = build(
        "t12-4", folder, pool, embedding="pool_farthest_mean", source_sex="f", selection="same",
        farthest=5, averaged=3,
    )  # fmt: skip
    wav = signals.speech(1.0)
    (drawn,) = [system.draw_target(g, None) for g in numbers(1)]
    assert drawn["sex"] == "f"
    assert len(set(drawn["ranks"])) == 3
    assert max(drawn["ranks"]) < 5
    (target,) = system.settle_targets(*one(wav), [drawn])
    vector = system.source_vectors(*one(wav), torch.tensor([drawn["window"]]))
    rows = [(n, r) for n in ("anna", "cleo") for r in range(len(pool.features[n]))]
    vectors = torch.stack([pool.features[n][r] for n, r in rows])
    order = F.cosine_similarity(vector, vectors).argsort().tolist()
    expected = [rows[order[rank]] for rank in drawn["ranks"]]
    assert [tuple(row) for row in target["vectors"]] == expected
    mean = system.voices.vectors([target], torch.device("cpu"))[0]
    assert torch.allclose(mean, torch.stack([pool.features[n][r] for n, r in expected]).mean(0))


@pytest.mark.parametrize("name", ["t12-4", "t30-1"])
def test_a_batch_equals_single_runs(folder, pool, name):
    system = build(name, folder, pool, source_sex="f")
    system.info = dataclasses.replace(system.info, cpu_batch_seconds=None)
    waves = [signals.speech(s, seed=i) for i, s in enumerate((0.9, 0.2, 1.6))]
    keys = list("abc")
    together, reports = system.anonymize_batch(waves, seed=3, keys=keys, return_reports=True)
    for wav, key, result, report in zip(waves, keys, together, reports, strict=True):
        alone, single = system.anonymize(wav, seed=3, key=key, return_report=True)
        assert report.target == single.target
        assert float((result - alone).abs().max()) <= 1e-4
        again = system.anonymize(wav, seed=3, key=key, target=report.target)
        assert torch.equal(again, alone)


@pytest.mark.parametrize(
    "target",
    ["nobody", 3, {"speaker": "anna", "vector": 3}, {"speaker": "anna"}, {"vector": 1},
     {"sex": None, "window": 2.0, "centroid": 0, "dimensions": []},
     {"sex": None, "window": 0.5, "centroid": 10, "dimensions": []},
     {"sex": None, "window": 0.5, "centroid": 0, "dimensions": [128]},
     {"sex": "x", "window": 0.5, "centroid": 0, "dimensions": []},
     {"sex": ["f"], "window": 0.5, "centroid": 0, "dimensions": []},
     {"sex": "f", "window": False, "centroid": 0, "dimensions": []},
     {"sex": "f", "window": 0.5, "centroid": 0, "dimensions": 7},
     {"speaker": "anna", "vector": True}, {"speaker": "anna", "vector": 1.0},
     {"speaker": ["anna"], "vector": 1}],
)  # fmt: skip
def test_what_is_no_voice_is_refused(farthest, target):
    with pytest.raises(ConfigError, match="target"):
        farthest.anonymize(signals.speech(0.5), target=target)


@pytest.mark.parametrize(
    "target",
    [{"vectors": []}, {"vectors": None}, {"vectors": 5}, {"vectors": "anna"}, {"vectors": ["anna"]},
     {"vectors": [["anna", 0], ["anna", 9]]}, {"vectors": [["anna"]]}, {"vectors": [5]},
     {"sex": None, "window": 0.5, "ranks": []}, {"sex": None, "window": 0.5, "ranks": [10]},
     {"sex": None, "window": 0.5, "ranks": None}, {"sex": {}, "window": 0.5, "ranks": [0]}],
)  # fmt: skip
def test_what_is_no_mean_voice_is_refused(means, target):
    with pytest.raises(ConfigError, match="target"):
        means.anonymize(signals.speech(0.5), target=target)


# Pools.


def test_a_pool_of_reference_speech(farthest, folder, tmp_path):
    """One vector for each recording, from the middle of its speech; channels are averaged."""
    waves = [signals.speech(s, seed=i) for i, s in enumerate((6.0, 0.8, 1.0))]
    stereo = torch.stack([waves[1], waves[1]])
    made = farthest.make_pool({"x": [waves[0], stereo], "y": waves[2]}, sexes={"x": "f"})
    assert {name: tuple(v.shape) for name, v in made.features.items()} == {
        "x": (2, 128), "y": (1, 128),
    }  # fmt: skip
    for vector, wav in zip([*made.features["x"], *made.features["y"]], waves, strict=True):
        (expected,) = farthest.source_vectors(*one(wav), torch.tensor([0.5]))
        assert float((vector - expected).abs().max()) <= 1e-5
    assert made.facts["embedding"] == farthest.weight_digests[STYLE_FILE]
    write_pool(tmp_path / "pool.safetensors", made)
    system = build("t30-1", folder, tmp_path / "pool.safetensors")
    assert system.pool.digest() == read_pool(tmp_path / "pool.safetensors").digest()
    assert system.anonymize(signals.speech(0.5), seed=1).isfinite().all()
    with pytest.raises(ConfigError, match=r"'z' has no recording of 0\.5 s"):
        farthest.make_pool({"z": signals.speech(0.3)})


def test_pools_that_do_not_fit_are_refused(folder):
    for pool, message in (
        (Pool({"a": torch.ones(2, 64)}), "64 values, those of vpc2024-t30-1 128"),
        (Pool({"a": torch.ones(2, 128)}, {}, {"embedding": "other"}), "made with embedding other"),
        (7, "expected a pool"),
    ):
        with pytest.raises(ConfigError, match=message):
            build("t30-1", folder, pool)


def test_without_a_pool_the_way_to_one_is_told(folder):
    system = build("t12-4", folder, source_sex="f")
    with pytest.raises(ConfigError, match=r"voiceanon pool build SRC .* --system vpc2024-t12-4"):
        system.anonymize(signals.speech(0.5))


def test_a_pool_is_saved_with_the_system(farthest, tmp_path):
    farthest.save_pretrained(tmp_path)
    assert (Path(tmp_path) / "pool.safetensors").is_file()
    again = load(tmp_path, device="cpu")
    assert again.config == farthest.config
    wav = signals.speech(0.7)
    assert torch.equal(again.anonymize(wav, seed=1), farthest.anonymize(wav, seed=1))


def test_pools_do_not_depend_on_the_default_type(folder):
    anon = build("t12-4", folder)
    speech = {"anna": [signals.speech(0.7), signals.speech(1.1, seed=2)]}
    expected = anon.make_pool(speech).features["anna"]
    torch.set_default_dtype(torch.float64)
    try:
        found = anon.make_pool(speech).features["anna"]
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
