"""`b3` from a release of three archives and Silero's file: fetched, cached, offline, refused."""

import shutil
import zipfile

import pytest
import signals
import torch
import yaml
from golden.gan_files import (
    ARCHIVES,
    NAMES,
    contents,
    filled,
    recognizer_entries,
    recognizer_settings,
    table,
    unpin_vad,
    write,
    write_espnet,
)

from voiceanon import WeightsError, load, system_info
from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
from voiceanon.components.asr.branchformer.recognizer import PhoneRecognizer
from voiceanon.systems.gan_fastspeech2_files import artificial_tokens, read_archive

RELEASE = "/DigitalPhonetics/speaker-anonymization/releases/download/v2.0/"
RECOGNIZER = "asr/asr_branchformer_tts-phn_en.zip"
WAV = signals.speech(0.5)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def any_detector(monkeypatch):
    unpin_vad(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def copied(folder, tmp_path):
    """A folder whose files a test may change; the archives are unpacked."""
    return write(tmp_path, unpacked=True)


def test_archives_are_fetched_verified_cached_and_then_used_offline(
    serve_release, server, folder, no_sockets
):
    serve_release("b3", RELEASE, folder)
    first = load("b3", device="cpu")
    assert sorted(server.paths()) == sorted(
        RELEASE + name for name in (*ARCHIVES, "silero_vad.onnx")
    )
    expected = load("b3", weights=folder, device="cpu").anonymize(WAV, seed=1)
    assert torch.equal(first.anonymize(WAV, seed=1), expected)
    tried = no_sockets()
    again = load("b3", device="cpu")
    assert torch.equal(again.anonymize(WAV, seed=1), expected)
    assert again.weight_digests == first.weight_digests
    assert not tried


def test_variants_do_not_fetch_the_generator(serve_release, server, folder):
    serve_release("t30-1", RELEASE, folder)
    load("t30-1", device="cpu")
    assert not any("anonymization.zip" in path for path in server.paths())


def test_variants_list_the_same_files():
    first, *others = (system_info(name).weights for name in NAMES)
    assert all(other == first for other in others)


def test_the_detector_is_pinned(monkeypatch):
    monkeypatch.undo()
    (file,) = (file for file in system_info("b3").weights if file.name == "silero_vad.onnx")
    assert (file.size, file.sha256[:8]) == (1_807_522, "a35ebf52")


def test_a_missing_file_names_itself_and_the_command(tmp_path):
    with pytest.raises(WeightsError, match="voiceanon download vpc2024-b3") as caught:
        load("b3", weights=tmp_path, device="cpu")
    for name in ARCHIVES:
        assert f"https://github.com{RELEASE}{name}" in str(caught.value)
    assert "https://github.com/snakers4/silero-vad/raw/v4.0/files/silero_vad.onnx" in str(
        caught.value
    )


class Code:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return print, ("code ran",)


@pytest.mark.parametrize(
    "place",
    ["tts/Aligner/aligner.pt", "anonymization/gan_style-embed/style-embed_wgan.pt"],
)
def test_a_file_that_runs_code_is_refused(copied, place, capsys):
    torch.save({"asr_model": {}, "more": Code()}, copied / place)
    with pytest.raises(WeightsError, match="could run code"):
        load("b3", weights=copied, device="cpu")
    assert "code ran" not in capsys.readouterr().out


# The archive in the archive.


def rewritten(copied, change):
    """The recogniser's archive with its members changed."""
    path = copied / RECOGNIZER
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return copied


CODE = b"!!python/object/apply:os.system ['echo code ran']"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("meta.yaml"), r"expected a file 'meta\.yaml' inside"),
        (lambda m: m.update({"meta.yaml": b"files: 3"}), "names no model"),
        (lambda m: m.update({"meta.yaml": b"["}), "cannot be read as YAML"),
        (lambda m: m.update({"meta.yaml": b"- 1"}), "found a list"),
        (lambda m: m.update({"meta.yaml": b"\xff\xfe\x00"}), "cannot be read as YAML"),
        (lambda m: m.update({"meta.yaml": b"a: 2001-99-99"}), "cannot be read as YAML"),
        (lambda m: m.update({"meta.yaml": b"a: !!timestamp x"}), "cannot be read as YAML"),
        (lambda m: m.update({"meta.yaml": b"a: " + 9999 * b"["}), "cannot be read as YAML"),
        (lambda m: m.update({"exp/asr_train/config.yaml": CODE}), "cannot be read as YAML"),
        (lambda m: m.pop("exp/asr_train/config.yaml"), "expected a file 'exp/asr_train"),
        (lambda m: m.update({"exp/asr_train/config.yaml": b"encoder: conformer"}), "encoder"),
        (lambda m: m.update({"exp/asr_train/valid.acc.ave_10best.pth": b"PK"}), "holds more than"),
    ],
)
def test_broken_archives_of_the_recogniser_are_refused(copied, change, message):
    with pytest.raises(WeightsError, match=message) as caught:
        load("b3", weights=rewritten(copied, change), device="cpu")
    # Not only the place in the cache where its parts lie.
    if "yaml" in message.lower() or "list" in message:
        assert str(caught.value).startswith(str(copied / RECOGNIZER))


def test_paths_in_the_archive_do_not_decide_where_files_go(copied, tmp_path):
    meta = {
        "files": {"asr_model_file": "../../outside.pth"},
        "yaml_files": {"asr_train_config": "exp/asr_train/config.yaml"},
    }

    def change(members):
        members["../../outside.pth"] = members.pop("exp/asr_train/valid.acc.ave_10best.pth")
        members["meta.yaml"] = yaml.safe_dump(meta).encode()

    with pytest.raises(WeightsError, match="leads out of its folder"):
        load("b3", weights=rewritten(copied, change), device="cpu")
    assert not list(tmp_path.parent.rglob("outside.pth"))


def test_the_other_encoder_is_told_by_the_settings(copied):
    """The Hub's model for the same purpose is an E-Branchformer."""
    encoder = {"output_size": 32, "attention_heads": 4, "cgmlp_linear_units": 64,
               "cgmlp_conv_kernel": 31, "num_blocks": 2, "linear_units": 48,
               "merge_conv_kernel": 31, "use_ffn": True, "macaron_ffn": True}  # fmt: skip
    settings = recognizer_settings(encoder="e_branchformer", encoder_conf=encoder)
    state = recognizer_entries()
    config = PhoneRecognizerConfig.from_published(settings)
    with torch.device("meta"):
        shapes = PhoneRecognizer(config, settings["token_list"]).state_dict()
    missing = {name: tuple(t.shape) for name, t in shapes.items() if name not in state}
    state = {name: {**state, **filled(missing)}[name] for name in shapes}
    write_espnet(copied / RECOGNIZER, settings, state)
    system = load("b3", weights=copied, device="cpu")
    assert system.config.recognizer.encoder == "e_branchformer"
    assert system.anonymize(WAV, seed=1).isfinite().all()


def test_the_archive_is_unpacked_once(copied):
    path = copied / RECOGNIZER
    first = read_archive(path)
    before = first.file.stat().st_mtime_ns
    again = read_archive(path)
    assert again.file.stat().st_mtime_ns == before
    assert first.settings == again.settings


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_files_of_the_published_shapes_load_strictly(tmp_path):
    """All entries of the published tables, in the sizes of the releases; 0.8 GB."""
    write(tmp_path, unpacked=True)
    tables = {
        "tts/Aligner/aligner.pt": ("aligner", "asr_model"),
        "tts/FastSpeech2_Multi/prosody_cloning.pt": ("fastspeech2_prosody_cloning", "model"),
        "tts/HiFiGAN_combined/best.pt": ("hifigan_best", "generator"),
    }
    for place, (name, key) in tables.items():
        torch.save({**contents()[place], key: filled(table(name))}, tmp_path / place)
    encoder = {"output_size": 512, "attention_heads": 8, "cgmlp_linear_units": 3072,
               "num_blocks": 18}  # fmt: skip
    decoder = {"attention_heads": 8, "linear_units": 2048, "num_blocks": 6}
    settings = recognizer_settings(
        token_list=list(artificial_tokens(100)), encoder_conf=encoder, decoder_conf=decoder
    )
    entries = filled(table("asr_branchformer_recipe"))
    write_espnet(tmp_path / RECOGNIZER, settings, entries)
    system = load("b3", weights=tmp_path, device="cpu")
    shutil.rmtree(tmp_path / "tts")
    counts = [
        sum(p.numel() for p in part.parameters())
        for part in (system.recognizer, system.aligner, system.acoustic)
    ]
    assert counts == [109_348_040, 7_624_849, 46_813_839]
    sizes, default = system.config.recognizer, PhoneRecognizerConfig()
    assert (sizes.width, sizes.blocks, sizes.vocabulary) == (
        default.width, default.blocks, default.vocabulary,
    )  # fmt: skip
    loaded = system.state_dict()
    for name in ("encoder.encoders.17.merge_proj.weight", "ctc.ctc_lo.bias", "normalize.std"):
        assert torch.equal(loaded[f"recognizer.{name}"], entries[name])
    assert system.anonymize(WAV, seed=1).isfinite().all()
