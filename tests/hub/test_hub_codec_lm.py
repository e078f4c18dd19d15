"""`b4` from files of the published names and layouts: a folder, the Hub, the repository."""

import numpy as np
import pytest
import torch
from golden.codec_lm_files import (
    COMMIT,
    FOLDER,
    VOICES,
    codec_entries,
    hub_codec_name,
    original_bark,
    original_name,
    quantiser_entries,
    table,
    tied,
    write,
    write_prompts,
)
from golden.seeded_weights import seeded_state_dict

from voiceanon import WeightsError, load, system_info
from voiceanon.components.content.hubert import is_unused_entry
from voiceanon.systems.codec_lm_files import prompt_members, voice_digests

WAV = np.load(FOLDER / "chain.npz")["wave16k"][:4000]
ARCHIVE = f"/suno-ai/bark/archive/{COMMIT}.zip"
REPOSITORIES = {
    "facebook/hubert-base-ls960": ("hubert-base-ls960/", ("pytorch_model.bin", "config.json")),
    "GitMylo/bark-voice-cloning": ("", ("quantifier_hubert_base_ls960_14.pth",)),
    "suno/bark": ("bark/", ("pytorch_model.bin", "config.json")),
}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def served(hub, serve_release, folder):
    """All repositories on loopback."""
    for repository, (place, names) in REPOSITORIES.items():
        for name in names:
            data = (folder / f"{place}{name}").read_bytes()
            hub.hub(repository, name, data, linked=not name.endswith(".json"))
    for name in ("coarse_2.pt", "fine_2.pt"):
        hub.hub("suno/bark", name, (folder / name).read_bytes(), linked=True)
    serve_release("b4", "/suno-ai/bark/archive/", folder)
    return hub


def test_files_are_fetched_verified_cached_and_then_used_offline(served, folder, no_sockets):
    first = load("b4", device="cpu", voices=VOICES)
    asked = {*served.paths(), *served.paths("HEAD")}
    assert ARCHIVE in asked
    assert "/suno/bark/resolve/main/pytorch_model.bin" in asked
    assert not any("coarse_2.pt" in path or ".th" in path for path in asked)
    expected = load("b4", weights=folder, device="cpu", voices=VOICES).anonymize(WAV, seed=1)
    assert np.array_equal(first.anonymize(WAV, seed=1), expected)
    tried = no_sockets()
    again = load("b4", device="cpu", voices=VOICES)
    assert np.array_equal(again.anonymize(WAV, seed=1), expected)
    assert again.weight_digests == first.weight_digests
    assert not tried


def test_the_original_files_of_the_same_repositories(served, hub_cache, folder):
    """Prompts of the Hub are looked for beside Bark, in the snapshot that the cache holds."""
    options = {"device": "cpu", "voices": VOICES, "bark_file": "coarse_2.pt"}
    system = load("b4", **options)
    asked = {*served.paths(), *served.paths("HEAD")}
    assert "/suno/bark/resolve/main/fine_2.pt" in asked
    assert not any("suno/bark" in path and "pytorch_model.bin" in path for path in asked)
    (snapshot,) = hub_cache.glob("models--suno--bark/snapshots/*")
    with pytest.raises(WeightsError, match="prompt of voice en_speaker_0 is missing"):
        load("b4", prompt_files="npy", **options)
    (snapshot / "speaker_embeddings").symlink_to(folder / "bark" / "speaker_embeddings")
    again = load("b4", prompt_files="npy", **options)
    assert torch.equal(again.prompts.fine, system.prompts.fine)


@pytest.mark.parametrize("place", ["", f"bark-{COMMIT}/bark/assets/prompts/v2", COMMIT])
def test_prompts_may_lie_there_unpacked(folder, tmp_path, place):
    for path in folder.iterdir():
        if path.suffix != ".zip":
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    write_prompts(tmp_path / place)
    assert load("b4", weights=tmp_path, device="cpu", voices=VOICES).voices == VOICES


def test_a_missing_file_names_itself_and_the_command(folder, tmp_path):
    with pytest.raises(WeightsError, match="voiceanon download") as caught:
        load("b4", weights=tmp_path, device="cpu", voices=VOICES)
    for words in (
        "bark/pytorch_model.bin",
        "hubert-base-ls960/config.json",
        f"https://github.com{ARCHIVE}",
        "https://huggingface.co/suno/bark/resolve/main/pytorch_model.bin",
    ):
        assert words in str(caught.value)
    assert "coarse_2.pt" not in str(caught.value)


def test_a_file_that_runs_code_is_refused(folder, tmp_path):
    class Code:
        def __reduce__(self):
            return print, ("code ran",)

    for path in folder.iterdir():
        if path.name != "coarse_2.pt":
            (tmp_path / path.name).symlink_to(path)
    torch.save({"model": {}, "model_args": Code()}, tmp_path / "coarse_2.pt")
    with pytest.raises(WeightsError, match="could run code"):
        load("b4", weights=tmp_path, device="cpu", voices=VOICES, bark_file="coarse_2.pt")


def test_every_voice_has_its_prompt():
    members = prompt_members(system_info("b4"))
    assert set(members) == set(voice_digests())
    assert members["en_speaker_0"] == f"bark-{COMMIT}/bark/assets/prompts/v2/en_speaker_0.npz"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bark_file", ["bark/pytorch_model.bin", "coarse_2.pt"])
def test_files_of_the_published_shapes_load_strictly(tmp_path, bark_file):
    """All entries of the published tables; what is left out by name has no values here."""
    for name in ("hubert-base-ls960", "bark"):
        (tmp_path / name).mkdir()
    shapes = table("hubert_base_ls960_transformers")
    used = {name: shape for name, shape in shapes.items() if not is_unused_entry(name, layers=9)}
    assert (len(shapes), len(used)) == (211, 162)
    state = {name: torch.zeros(1) for name in shapes} | seeded_state_dict(used)
    torch.save(state, tmp_path / "hubert-base-ls960/pytorch_model.bin")
    (tmp_path / "hubert-base-ls960/config.json").write_text("{}")
    torch.save(quantiser_entries({}), tmp_path / "quantifier_hubert_base_ls960_14.pth")
    write_prompts(tmp_path)
    if bark_file == "coarse_2.pt":
        write_original(tmp_path)
    else:
        write_hub(tmp_path)
    system = load("b4", weights=tmp_path, device="cpu", voices=VOICES, bark_file=bark_file)
    counts = [sum(p.numel() for p in part.parameters()) for part in (system.coarse, system.fine)]
    assert counts == [327_861_248, 311_789_568]
    assert system.config.coarse.layers == system.config.fine.layers == 24
    hidden = torch.zeros(1, 12, 1024)
    with torch.inference_mode():
        assert system.coarse.whole(hidden, system.coarse.new_cache(1, 12)).isfinite().all()
        assert system.fine.whole(hidden).isfinite().all()


def write_original(folder):
    sizes = {"n_layer": 24, "n_head": 16, "n_embd": 1024, "block_size": 1024, "bias": False}
    for part, vocabulary in (("coarse", 12096), ("fine", 1056)):
        entries = seeded_state_dict(table(f"{part}_2"))
        data = original_bark(part, entries if part == "coarse" else tied(entries))
        data["model_args"] = {**sizes, "vocab_size": vocabulary}
        torch.save(data, folder / f"{part}_2.pt")
    torch.save(codec_entries(), folder / "encodec_24khz-d7cc33bc.th")


def write_hub(folder):
    codec = {hub_codec_name(name): value for name, value in codec_entries().items()}
    shapes = table("suno_bark_pytorch_model")
    assert len(shapes) == 806
    entries = {}
    for name, shape in shapes.items():
        part, rest = name.split(".", 1)
        if part == "codec_model":
            entries[name] = codec[rest]
        elif part == "semantic" or rest.endswith(".attn.bias"):
            entries[name] = torch.zeros(1)
        elif rest.startswith("lm_heads."):
            embedding = f"input_embeds_layers.{int(rest.split('.')[1]) + 1}.weight"
            entries[name] = entries[f"{part}.{embedding}"]
        else:
            (entries[name],) = seeded_state_dict({original_name(rest): shape}).values()
    torch.save(entries, folder / "bark/pytorch_model.bin")
    (folder / "bark/config.json").write_text("{}")
