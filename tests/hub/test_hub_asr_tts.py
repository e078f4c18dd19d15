"""`t8-1` from the Hub's layout on loopback: fetched, cached, used offline."""

import pytest
import signals
import torch
from golden.asr_tts_files import write_folder

from voiceanon import WeightsError, load, system_info

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def served(hub, small):
    """Both repositories, as their default files lie on the Hub."""
    for file in system_info("t8-1").weights:
        if not file.optional:
            data = (small / file.key).read_bytes()
            linked = not file.name.endswith(".json")
            hub.hub(file.repository, file.name, data, revision=file.revision, linked=linked)
    return hub


def test_the_hubs_files_are_fetched_cached_and_then_used_offline(served, small, no_sockets):
    first = load("t8-1", device="cpu")
    expected = load("t8-1", weights=small, device="cpu")
    assert first.config == expected.config
    assert first.weight_digests == expected.weight_digests
    wav = signals.speech(1.5)
    result = first.anonymize(wav, seed=1)
    assert torch.equal(result, expected.anonymize(wav, seed=1))
    tried = no_sockets()
    again = load("t8-1", device="cpu", local_files_only=True)
    assert torch.equal(again.anonymize(wav, seed=1), result)
    assert not tried


def test_a_missing_file_names_itself_and_the_command(small, tmp_path):
    (tmp_path / "whisper-medium.en").symlink_to(small / "whisper-medium.en")
    with pytest.raises(WeightsError, match=r"(?s)vits-vctk/.*voiceanon download") as caught:
        load("t8-1", weights=tmp_path, device="cpu")
    assert "https://huggingface.co/kakao-enterprise/vits-vctk/resolve/" in str(caught.value)


def test_a_file_that_runs_code_is_refused(small, tmp_path):
    class Code:
        def __reduce__(self):
            return print, ("code ran",)

    write_folder(tmp_path)
    torch.save({"model": Code()}, tmp_path / "vits-vctk" / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="could run code"):
        load("t8-1", weights=tmp_path, device="cpu")


def test_mixtures_list_the_files_of_their_members():
    members = {f.key: f for name in ("t8-1", "t8-2") for f in system_info(name).weights}
    for name in ("t8-3", "t8-4", "t8-5"):
        for file in system_info(name).weights:
            assert members[file.key] == file
