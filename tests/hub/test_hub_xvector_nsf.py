"""`b1` and `b1-sidekit` from files of the published names, formats and layouts."""

import hashlib
import json
import zipfile
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from golden import xvector_nsf_files as files
from golden.seeded_weights import seeded_tensor
from hub_files import leftovers

from voiceanon import WeightsError, load, registry, system_info
from voiceanon.hub import verify
from voiceanon.systems import xvector_nsf_files as names

WAV = np.load(files.FOLDER / "features.npz")["wav"][8_000:14_000].astype(np.float32) / 32768
SMALL = {"device": "cpu", "missing_sex": "any", "candidates": 12, "averaged": 5}
ARCHIVE = "AACgcr5fUhagdIeo8VCG5pKNa"
GENERATOR = names.GENERATOR_FILES["kaldi"]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All files of both systems; the variant's two in their archive."""
    folder = files.write_small(tmp_path_factory.mktemp("b1"))
    files.write_sidekit(folder)
    with zipfile.ZipFile(folder / ARCHIVE, "w") as archive:
        for name in (names.SIDEKIT_POOL_FILE, names.GENERATOR_FILES["sidekit"]):
            archive.write(folder / name, name)
            (folder / name).unlink()
    return folder


def git_blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@pytest.fixture
def served(server, folder, monkeypatch):
    """Both systems, with what is public on loopback; Git's names are those of the small files."""
    known = dict(registry._built_in())
    for name in ("vpc2024-b1", "b1-sidekit"):
        info = known[name].info
        weights = []
        for file in info.weights:
            path = folder / file.key
            if path.is_file() and file.request is None:
                data = path.read_bytes()
                address = server.release(urlsplit(file.address).path, data)
                file = replace(file, address=address, size=len(data))
                if file.other_digest != "not stated":
                    file = replace(file, other_digest=f"git-blob:{git_blob(data)}")
            weights.append(file)
        known[name] = replace(known[name], info=replace(info, weights=tuple(weights)))
    monkeypatch.setattr(registry, "_built_in", lambda: known)
    return folder


def test_the_published_names_of_contents(tmp_path):
    """Git's names of three files are those of contents that are known."""
    by_key = {file.key: file for file in system_info("b1").weights}
    for key in names.CHUNK_FILES:
        path = tmp_path / "chunk"
        path.write_bytes(b"25\n")
        assert by_key[key].other_digest == f"git-blob:{git_blob(b'25' + bytes([10]))}"
        verify.check(path, by_key[key])
        path.write_bytes(b"26\n")
        with pytest.raises(WeightsError, match="expected git-blob:7273c0fa"):
            verify.check(path, by_key[key])
    digests = json.loads((files.FOLDER / "pool_selection_official_files.json").read_text())["files"]
    stated = {key.rpartition("/")[2]: file.other_digest for key, file in by_key.items()}
    for name, digest in digests.items():
        assert stated[name] == f"git-blob:{digest}"


def test_public_files_are_pinned_to_a_commit():
    commit = "da5f0fdced13f357caf0966e8664f09c89e90557"
    public = [file for file in system_info("b1").weights if file.request is None]
    assert len(public) == 13
    for file in public:
        start = f"https://raw.githubusercontent.com/ruckard/comprise_voice_transformation/{commit}/"
        assert file.address.startswith(start)
        assert file.address.endswith(f"/vpc/{file.key}")
        assert file.other_digest.startswith("git-blob:")


def test_the_file_that_is_not_public_is_asked_for_before_anything_is_fetched(served, server):
    with pytest.raises(WeightsError) as caught:
        load("b1", **SMALL)
    message = str(caught.value)
    assert "vpc2024-b1: a weight file is missing, and not public." in message
    for part in (GENERATOR, "organisers@lists.voiceprivacychallenge.org", "models.2022.tar.gz",
                 "weights=", "b1-sidekit"):  # fmt: skip
        assert part in message
    assert server.paths() == []


def test_a_download_fills_the_folder_up_to_that_file(served, server, tmp_path):
    from voiceanon.hub.resolve import download

    info = system_info("b1")
    with pytest.raises(WeightsError, match=r"(?s)not public.*trained_network_G\.pt.*All others"):
        download(info, tmp_path / "to")
    assert len(leftovers(tmp_path / "to")) == 13
    files.place(tmp_path / "to", GENERATOR).write_bytes((served / GENERATOR).read_bytes())
    count = len(server.paths())
    system = load("b1", weights=tmp_path / "to", **SMALL)
    assert len(server.paths()) == count
    expected = load("b1", weights=served, **SMALL).anonymize(WAV, seed=1)
    assert np.array_equal(system.anonymize(WAV, seed=1), expected)


def test_the_variant_is_fetched_verified_cached_and_then_used_offline(served, server, no_sockets):
    first = load("b1-sidekit", **SMALL)
    assert f"/sh/k0chwkfroqoo92t/{ARCHIVE}" in server.paths()
    assert len(server.paths()) == 14
    expected = first.anonymize(WAV, seed=1)
    tried = no_sockets()
    again = load("b1-sidekit", **SMALL)
    assert np.array_equal(again.anonymize(WAV, seed=1), expected)
    assert again.weight_digests == first.weight_digests
    assert not tried


def test_the_variants_archive_as_it_is_and_unpacked(served, tmp_path):
    expected = load("b1-sidekit", weights=served, **SMALL).anonymize(WAV, seed=1)
    for key in (*names.weight_keys("sidekit")[:-2],):
        files.place(tmp_path, key).write_bytes((served / key).read_bytes())
    with zipfile.ZipFile(served / ARCHIVE) as archive:
        archive.extractall(tmp_path)
    system = load("b1-sidekit", weights=tmp_path, **SMALL)
    assert np.array_equal(system.anonymize(WAV, seed=1), expected)


def test_a_web_page_in_place_of_the_archive(served, server):
    server.release(f"/sh/k0chwkfroqoo92t/{ARCHIVE}", b"<!DOCTYPE html><html>sign in</html>")
    with pytest.raises(WeightsError, match=rf"{ARCHIVE}.*(web page|bytes)"):
        load("b1-sidekit", **SMALL)


def test_another_content_than_gits_name_says(served, tmp_path):
    for key in names.weight_keys("kaldi"):
        files.place(tmp_path, key).write_bytes((served / key).read_bytes())
    path = tmp_path / names.LDA_FILE
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        WeightsError, match=r"transform\.mat: expected git-blob:[0-9a-f]{40}, found"
    ):
        load("b1", weights=tmp_path, **SMALL)


def test_a_checkpoint_that_runs_code_is_refused(served, tmp_path):
    class Code:
        def __reduce__(self):
            return print, ("code ran",)

    for key in names.weight_keys("kaldi"):
        files.place(tmp_path, key).write_bytes((served / key).read_bytes())
    torch.save({"state_dict": Code()}, tmp_path / GENERATOR)
    with pytest.raises(WeightsError, match="could run code"):
        load("b1", weights=tmp_path, **SMALL)


@pytest.mark.slow
def test_files_of_the_published_sizes_load_strictly(tmp_path, monkeypatch):
    """All entries of the published tables, under the published names, 85 MB."""
    files.unpin(monkeypatch)
    files.write_official(tmp_path)
    system = load("b1", weights=tmp_path, device="cpu", source_sex="f")
    config = system.config
    assert config.xvector.hidden == (512, 512, 512, 512, 1500)
    assert config.bottleneck.hidden == 1536
    assert (config.ivector.gaussians, config.ivector.ivector) == (512, 100)
    assert (config.generator.input_width, config.backend_width) == (769, 200)
    assert (config.min_chunk_frames, config.chunk_frames) == (25, 25)
    assert len(system.pool.names) == 1160
    state = system.state_dict()
    for entry, name in (
        ("tdnnf17.affine.weight", "networks.bottleneck.tdnnf17.affine.weight"),
        ("prefinal-l.weight", "networks.bottleneck.prefinal-l.weight"),
        ("tdnn6.affine.bias", "networks.xvector.tdnn6.affine.bias"),
        ("m_filter.l_har_blocks.4.l_convs.9.weight",) * 2,
    ):
        loaded = state[name if name in state else f"networks.vocoder.{name}"]
        assert np.array_equal(loaded.numpy(), seeded_tensor(entry, loaded.shape)), entry
    result = system.anonymize(WAV, seed=0)
    assert result.shape == WAV.shape
    assert abs(result).max() > 0


@pytest.mark.network
def test_the_public_back_end_and_pool_give_the_stored_scores():
    """Values that the original programs gave for these very files, and three sources."""
    from voiceanon.components.selection.pool_average import candidates
    from voiceanon.components.speaker.plda import Plda
    from voiceanon.hub.resolve import resolve
    from voiceanon.systems.xvector_nsf_config import XVectorNSFConfig
    from voiceanon.systems.xvector_nsf_targets import published_ranks

    keys = (names.PLDA_FILE, names.LDA_FILE, names.MEAN_FILE, names.POOL_FILE, names.SEXES_FILE)
    paths = resolve(system_info("b1"), names=keys)
    stored = json.loads((files.FOLDER / "pool_selection_official_files.json").read_text())
    pool = names.read_pool(paths, "kaldi")
    speakers = pool.names
    assert len(speakers) == stored["n_speakers"]
    assert list(speakers[:5]) == stored["pool_first_keys"]
    vectors = torch.cat([pool.features[name] for name in speakers])
    plda = Plda(**names.read_backend(paths))
    for name, expected in stored["sources"].items():
        scores = plda.prepare(vectors).scores(pool.features[name])
        for other, score in expected["numpy_scores"].items():
            assert float(scores[0, speakers.index(other)]) == pytest.approx(score, abs=1e-4)
        allowed = torch.tensor([pool.sex(other) == expected["gender"] for other in speakers])
        ranked = candidates(scores, allowed)[0]
        assert [speakers[place] for place in ranked[:5]] == [
            other for other, _ in expected["farthest5"]
        ]
        (ranks,) = published_ranks(XVectorNSFConfig(), "0", 1)
        chosen = ranked[ranks]
        assert [speakers[place] for place in chosen[:5]] == expected["seed0_first5_averaged"]
        mean = vectors[chosen].double().mean(0)
        assert mean[:8].tolist() == pytest.approx(expected["seed0_pseudo_first8"], abs=1e-8)
