"""Release files over HTTP: resumed, checked, and only then named."""

import hashlib
import threading

import pytest
from hub_files import checkpoint, leftovers, passport, sha256
from hub_server import Served

from voiceanon.errors import WeightsError
from voiceanon.hub import fetch, transfer, verify
from voiceanon.hub.paths import release_path

PATH = "/owner/repo/releases/download/v1/model.pt"
DATA = bytes(range(256)) * 4096


@pytest.fixture
def file(server):
    return passport(server.release(PATH, DATA), DATA)


def ranges(server):
    return [asked.headers.get("Range") for asked in server.asked]


def test_a_file_comes_whole_and_under_its_address(server, file, own_cache):
    path = fetch.fetch(file)
    assert path.read_bytes() == DATA
    assert path.name == "model.pt"
    assert path.relative_to(own_cache).parts[-5:-1] == ("repo", "releases", "download", "v1")
    assert len(leftovers(own_cache)) == 1
    assert verify.known_digest(path, file) == sha256(DATA)


def test_requests_say_nothing_about_the_user(server, file):
    fetch.fetch(file)
    (asked,) = server.asked
    assert set(asked.headers) <= {"Host", "User-Agent", "Accept-Encoding", "Connection"}
    assert asked.headers["User-Agent"].startswith("voiceanon/")


def test_a_cut_transfer_goes_on_where_it_stopped(server, file):
    server.files[PATH].cuts = [1000, 2000]
    assert fetch.fetch(file).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=1000-", "bytes=3000-"]


def test_what_arrived_survives_until_the_next_call(server, file, own_cache):
    server.files[PATH].cuts = [500] * transfer.ATTEMPTS
    with pytest.raises(WeightsError, match=r"2000 bytes are kept: try again to go on"):
        fetch.fetch(file)
    assert not release_path(file).exists()
    assert fetch.find(file) is None
    assert fetch.fetch(file).read_bytes() == DATA
    assert ranges(server)[-1] == "bytes=2000-"
    assert leftovers(own_cache) == [str(release_path(file).relative_to(own_cache))]


def test_a_server_without_ranges_starts_anew(server, file):
    server.files[PATH].obeys_range = False
    server.files[PATH].cuts = [1000]
    assert fetch.fetch(file).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=1000-"]


def test_a_new_version_on_the_server_is_not_mixed_with_the_old(server):
    file = passport(server.release(PATH, DATA))
    server.files[PATH].cuts = [1000] * transfer.ATTEMPTS
    with pytest.raises(WeightsError):
        fetch.fetch(file)
    other = DATA[::-1]
    server.release(PATH, other)
    assert fetch.fetch(file).read_bytes() == other


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_version_nothing_is_resumed(server, file, etag):
    server.files[PATH].etag = etag
    server.files[PATH].cuts = [1000]
    assert fetch.fetch(file).read_bytes() == DATA
    assert ranges(server) == [None, None]


def test_a_server_that_does_not_say_the_length(server, file):
    server.files[PATH].states_length = False
    assert fetch.fetch(file).read_bytes() == DATA


def test_a_busy_server_is_asked_again(server, file):
    server.files[PATH].statuses = [503, 429]
    assert fetch.fetch(file).read_bytes() == DATA


def test_a_server_that_does_not_answer(server, file, own_cache):
    server.close()
    with pytest.raises(WeightsError, match=r"in 4 attempts \(.*refused.*\)\. Try again, or fetch"):
        fetch.fetch(file)
    assert leftovers(own_cache) == []


def test_a_part_that_the_server_does_not_know_is_dropped(server, file):
    server.files[PATH].cuts = [1000]
    server.files[PATH].statuses = [200, 416]
    assert fetch.fetch(file).read_bytes() == DATA


def test_a_missing_file_is_not_asked_for_again(server, own_cache):
    file = passport(server.address + "/gone/model.pt")
    with pytest.raises(
        WeightsError, match=r"model\.pt: http://.*/gone/model\.pt answered HTTP 404"
    ):
        fetch.fetch(file)
    assert len(server.asked) == 1
    assert leftovers(own_cache) == []


def test_another_size_is_refused_before_it_is_fetched(server, own_cache):
    file = passport(server.release(PATH, DATA), DATA[1:])
    with pytest.raises(WeightsError, match=f"expected {len(DATA) - 1} bytes, but .* {len(DATA)}"):
        fetch.fetch(file)
    assert leftovers(own_cache) == []


def test_one_wrong_byte_leaves_nothing(server, own_cache):
    wrong = DATA[:-1] + b"\0"
    file = passport(server.release(PATH, wrong), DATA)
    with pytest.raises(WeightsError) as caught:
        fetch.fetch(file)
    for part in (str(release_path(file)), sha256(DATA), sha256(wrong)):
        assert part in str(caught.value)
    assert leftovers(own_cache) == []


@pytest.mark.parametrize("known", [True, False])
def test_a_web_page_is_not_weights(server, own_cache, known):
    page = b"\n<!DOCTYPE html><html><body>Please log in</body></html>"
    file = passport(server.release(PATH, page, kind="text/html"))
    if known:
        file = passport(file.address, sha256=sha256(DATA))
    with pytest.raises(
        WeightsError, match=rf"{file.sha256}, found a web page of {len(page)} bytes"
    ):
        fetch.fetch(file)
    assert leftovers(own_cache) == []


def test_redirects_are_followed(server):
    target = server.release("/storage/blob", DATA)
    server.files[PATH] = Served(b"", redirect=target)
    file = passport(server.address + PATH, DATA)
    server.files["/storage/blob"].cuts = [1000]
    assert fetch.fetch(file).read_bytes() == DATA
    assert ranges(server) == [None, None, "bytes=1000-", "bytes=1000-"]


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/m.pt",
        "ftp://example.org/m.pt",
        "file:///m.pt",
        "http://127.0.0.1.nip.io/m",
    ],
)
def test_only_https_leaves_the_machine(server, address, own_cache):
    with pytest.raises(WeightsError, match="https only"):
        fetch.fetch(passport(address))
    server.files[PATH] = Served(b"", redirect=address)
    with pytest.raises(WeightsError, match=r"redirected from http://127|is not allowed"):
        fetch.fetch(passport(server.address + PATH))
    assert leftovers(own_cache) == []


def test_https_is_never_left():
    transfer.check_address("https://a/b", came_from="https://c/d")
    transfer.check_address("http://localhost:1/b", came_from="http://localhost:1/d")
    with pytest.raises(WeightsError, match="https only"):
        transfer.check_address("http://localhost/b", came_from="https://c/d")


def test_progress_is_reported_only_on_request(server, file):
    seen = []
    fetch.fetch(file, progress=lambda *args: seen.append(args))
    assert seen[-1] == ("model.pt", len(DATA), len(DATA))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_two_at_a_time_fetch_once(server, file):
    threads = [threading.Thread(target=fetch.fetch, args=(file,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert release_path(file).read_bytes() == DATA
    assert len(server.asked) == 1


def test_a_folder_that_cannot_be_written(server, file, own_cache):
    own_cache.write_text("a file where the cache should be")
    with pytest.raises(WeightsError, match="cannot be written"):
        fetch.fetch(file)


def test_addresses_become_places_of_their_own(server):
    one = passport("https://h.org/a/../../b/m.pt")
    two = passport("https://h.org/m.pt?download=1", name="m.pt")
    three = passport("https://h.org/m.pt?download=2", name="m.pt")
    places = {release_path(file) for file in (one, two, three)}
    assert len(places) == 3
    assert all(".." not in place.parts for place in places)


def test_other_digests_are_checked(server, own_cache):
    good = {
        "md5": hashlib.md5(DATA).hexdigest(),
        "git-blob": hashlib.sha1(b"blob %d\0" % len(DATA) + DATA).hexdigest(),
        "sha256-prefix": sha256(DATA)[:8],
    }
    address = server.release(PATH, DATA)
    for kind, digest in good.items():
        wrong = passport(address, other_digest=f"{kind}:{'0' * len(digest)}")
        with pytest.raises(WeightsError, match=rf"expected {kind}:0+, found {kind}:{digest}"):
            fetch.fetch(wrong)
        assert leftovers(own_cache) == []
        fetch.drop(fetch.fetch(passport(address, other_digest=f"{kind}:{digest}")))
    with pytest.raises(WeightsError, match="'crc' is unknown"):
        fetch.fetch(passport(address, other_digest="crc:00"))


def test_a_replaced_release_is_noticed(server, own_cache):
    file = passport(server.release(PATH, checkpoint()))
    fetch.drop(fetch.fetch(file))
    server.release(PATH, checkpoint(other=1))
    with pytest.raises(WeightsError, match="the file has changed"):
        fetch.fetch(file)
    assert leftovers(own_cache) == []
