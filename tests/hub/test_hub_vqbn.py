"""`b5` and `b6` from files of the published names and layouts: a folder and a release."""

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict
from golden.vqbn_files import FOLDER, TABLES, checkpoint, entry_shapes, write

from voiceanon import WeightsError, load, system_info
from voiceanon.components.content.bottleneck import config_from_entries, is_unused_entry

WAV = np.load(FOLDER / "inputs.npz")["det"]
RELEASES = "/deep-privacy/SA-toolkit/releases/download/"
OFFICIAL = {"b5": "hifigan_bn_tdnnf_wav2vec2_vq_48_v1", "b6": TABLES["b6_official"]}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: write(tmp_path_factory.mktemp(name), f"{name}_reduced") for name in ("b5", "b6")}


@pytest.mark.parametrize("name", ["b5", "b6"])
def test_a_release_is_fetched_verified_cached_and_then_used_offline(
    serve_release, server, folders, no_sockets, name
):
    info = serve_release(name, f"{RELEASES}{OFFICIAL[name]}/", folders[name])
    first = load(name, device="cpu")
    assert server.paths() == [f"{RELEASES}{OFFICIAL[name]}/final.pt"]
    expected = first.anonymize(WAV, seed=1)
    tried = no_sockets()
    again = load(name, device="cpu")
    assert np.array_equal(again.anonymize(WAV, seed=1), expected)
    assert again.weight_digests == first.weight_digests
    assert not tried
    assert info.weights[0].revision == OFFICIAL[name]


def test_files_of_one_name_keep_apart(serve_release, folders):
    """All releases call their file final.pt."""
    for name, folder in folders.items():
        serve_release(name, f"{RELEASES}{OFFICIAL[name]}/", folder)
    front_ends = [load(name, device="cpu").config.front_end for name in folders]
    assert front_ends == ["wav2vec2", "fbank"]


def test_variants_share_the_file_of_b5(serve_release, server, folders):
    for name in ("b5", "t12-5", "t12-6"):
        serve_release(name, f"{RELEASES}{OFFICIAL['b5']}/", folders["b5"])
        load(name, device="cpu")
    assert len(server.paths()) == 1


def test_a_missing_file_names_itself_and_the_command(tmp_path):
    with pytest.raises(WeightsError, match=r"(?s)final\.pt.*voiceanon download") as caught:
        load("b5", weights=tmp_path, device="cpu")
    address = f"https://github.com{RELEASES}{OFFICIAL['b5']}/final.pt"
    assert address in str(caught.value)


def test_a_file_that_runs_code_is_refused(tmp_path):
    class Code:
        def __reduce__(self):
            return print, ("code ran",)

    torch.save({"base_model_state_dict": {}, "base_model_params": Code()}, tmp_path / "final.pt")
    with pytest.raises(WeightsError, match="could run code"):
        load("b6", weights=tmp_path, device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["b5", "b6"])
def test_files_of_the_published_shapes_load_strictly(tmp_path, name):
    """All 785 and 427 entries of the published tables; 1.37 GB for B5."""
    shapes = entry_shapes(OFFICIAL[name])
    assert len(shapes) == {"b5": 785, "b6": 427}[name]
    prefix = "bn_extractor."
    inner = {n.removeprefix(prefix): s for n, s in shapes.items() if n.startswith(prefix)}
    config = config_from_entries(inner)
    used = {
        n: s
        for n, s in shapes.items()
        if not (n.startswith(prefix) and is_unused_entry(n.removeprefix(prefix), config))
    }
    state = {n: torch.zeros(s) for n, s in shapes.items()} | seeded_state_dict(used)
    torch.save(checkpoint(state, map(str, range(247))), tmp_path / "final.pt")
    del state
    system = load(name, weights=tmp_path, device="cpu")
    assert system.config.encoder == config
    assert len(system.speakers) == 247
    loaded = system.content.state_dict() | system.vocoder.state_dict()
    for entry in ("tdnn1.tdnn.linearA.weight", "tdnn1.bn.running_var", "ups.4.bias"):
        (published,) = [n for n in used if n.endswith(f".{entry}")]
        (expected,) = seeded_state_dict({published: used[published]}).values()
        assert torch.equal(loaded[entry], expected)
    result = system.anonymize(WAV, seed=0)
    assert result.shape == WAV.shape
    assert abs(result).max() > 0
    assert system_info(name).weights[0].key in system.weight_digests
