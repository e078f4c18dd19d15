"""From the facts of a system to verified local files: the one way in which weights are found.

A folder of the user's and the cache go through the same steps: find, fetch if allowed, verify,
unpack, verify what was unpacked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from voiceanon.errors import WeightsError
from voiceanon.hub import archives, fetch, verify
from voiceanon.hub.fetch import Token
from voiceanon.hub.paths import offline_reason, unpacked_folder
from voiceanon.hub.transfer import Progress
from voiceanon.types import SystemInfo, WeightFile

_COMMAND_HINT = (
    "Run 'voiceanon download {id} --to DIR' where there is a network, then load with weights=DIR."
)
_ADDRESS_HINT = "Fetch them where there is a network and put them into that folder."
_ARCHIVE_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


@dataclass(frozen=True)
class _Wish:
    """A published file, and what is wanted from it if it is an archive."""

    file: WeightFile
    members: tuple[str, ...]


def resolve(
    info: SystemInfo,
    *,
    weights: str | Path | None = None,
    local_files_only: bool = False,
    token: Token = None,
    names: Collection[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Gives verified local paths of a system's weights.

    Args:
        info: Facts of the system.
        weights: Folder with the published files under their published names, archives as they are
            or unpacked; the network is not used then. ``None`` for the cache, which is filled.
        local_files_only: Whether to do without the network.
        token: The Hub's access token.
        names: Keys of files, or of members of archives; ``None`` for all that are not optional.
        progress: Called after each block of a download.

    Returns:
        Path by `WeightFile.key`; for an archive of which members are wanted, path by member. One
        that may lie in several places goes by the first; one that may be missing has no entry then.

    Raises:
        WeightsError: A file is missing, damaged, or not the published one.
    """
    return resolve_files(
        info.weights,
        owner=info.id,
        hint=_COMMAND_HINT.format(id=info.id),
        weights=weights,
        local_files_only=local_files_only,
        token=token,
        names=names,
        progress=progress,
    )


def resolve_files(
    files: Sequence[WeightFile],
    *,
    owner: str,
    hint: str = _ADDRESS_HINT,
    weights: str | Path | None = None,
    local_files_only: bool = False,
    token: Token = None,
    names: Collection[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Does what `resolve` does for files that are not those of a system, such as a pool.

    Args:
        files: All files that belong together.
        owner: What they belong to, for messages.
        hint: What to do if a file is missing, for messages.
        weights: As in `resolve`.
        local_files_only: As in `resolve`.
        token: As in `resolve`.
        names: As in `resolve`.
        progress: As in `resolve`.

    Returns:
        As `resolve`.

    Raises:
        WeightsError: As in `resolve`.
    """
    wishes = _select(files, names, owner)
    folder = _checked_folder(weights, owner)
    found: dict[str, Path] = {}
    for wish in wishes:
        if folder is not None and (unpacked := _find_unpacked(wish, folder, files)):
            found |= unpacked
    missing = [wish.file for wish in wishes if not _is_found(wish, found)]
    local = {file.key: _find_file(file, folder, files) for file in missing}
    absent = [file for file in missing if local[file.key] is None]
    reason = _why_not_fetched(folder, local_files_only)
    if any(reason is not None or file.request is not None for file in absent):
        raise WeightsError("\n".join([*_missing(owner, absent, folder, files, reason), hint]))
    for wish in wishes:
        if _is_found(wish, found):
            continue
        path = local[wish.file.key]
        if path is None:
            path = fetch.fetch(wish.file, token=token, progress=progress)
        digest = verify.verify(path, wish.file)
        found |= _unpack(wish, path, digest) if wish.members else {wish.file.key: path}
    return found


def download(
    info: SystemInfo,
    folder: str | Path,
    *,
    token: Token = None,
    names: Collection[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Fills a folder that `resolve` then uses as ``weights``.

    Files that lie there already are checked and kept.

    Args:
        info: Facts of the system.
        folder: Made if need be. Archives are put there as they are.
        token: The Hub's access token.
        names: Keys of files; ``None`` for all that are not optional.
        progress: Called after each block of a download.

    Returns:
        Path by `WeightFile.key`.

    Raises:
        WeightsError: A file cannot be fetched, or something else came. One that is not public and
            not there is reported when all others are.
    """
    place = Path(folder).expanduser()
    paths = {}
    private = []
    for wish in _select(info.weights, names, info.id):
        target = place / wish.file.key
        if wish.file.request is not None and not target.is_file():
            private.append(wish.file)
            continue
        if not target.is_file():
            reason = offline_reason()
            if fetch.find(wish.file) is None and reason is not None:
                lines = _missing(info.id, [wish.file], None, info.weights, reason)
                raise WeightsError("\n".join(lines))
            fetch.fetch_to(wish.file, target, token=token, progress=progress)
        verify.verify(target, wish.file)
        paths[wish.file.key] = target
    if private:
        lines = _missing(info.id, private, place, info.weights, None)
        raise WeightsError("\n".join([*lines, f"All others are in {place}."]))
    return paths


def _select(files: Sequence[WeightFile], names: Collection[str] | None, owner: str) -> list[_Wish]:
    if names is None:
        return [_Wish(file, file.members) for file in files if not file.optional]
    known = {name for file in files for name in (file.key, *map(_member_key, file.members))}
    unknown = sorted(set(names) - known)
    if unknown:
        raise WeightsError(
            f"{owner}: there is no weight file {', '.join(unknown)}; known are "
            f"{', '.join(sorted(known)) or 'none'}."
        )
    wishes = []
    for file in files:
        members = tuple(member for member in file.members if _member_key(member) in names)
        if file.key in names:
            members = file.members
        if file.key in names or members:
            wishes.append(_Wish(file, members))
    return wishes


def _checked_folder(weights: str | Path | None, owner: str) -> Path | None:
    if weights is None:
        return None
    folder = Path(weights).expanduser()
    if not folder.is_dir():
        raise WeightsError(
            f"{owner}: weights={str(weights)!r} is not a folder; pass one that holds the published "
            f"files, such as 'voiceanon download {owner} --to DIR' makes."
        )
    return folder


def _is_found(wish: _Wish, found: dict[str, Path]) -> bool:
    due = [_member_key(member) for member in wish.members if not _may_be_missing(member)]
    return set(due or (wish.file.key,)) <= set(found)


def _places_of(member: str) -> list[str]:
    """Where a member may lie in its archive, best first."""
    return [place for place in member.split("|") if place]


def _member_key(member: str) -> str:
    return _places_of(member)[0]


def _may_be_missing(member: str) -> bool:
    return member.endswith("|")


def _find_file(file: WeightFile, folder: Path | None, files: Sequence[WeightFile]) -> Path | None:
    if folder is None:
        return fetch.find(file)
    return _first_file(_places(file, folder, files))


def _places(file: WeightFile, folder: Path, files: Sequence[WeightFile]) -> list[Path]:
    """Where a file may lie in a user's folder, best first."""
    places = [folder / file.key]
    if file.repository is not None:
        places.append(folder / file.repository.rpartition("/")[2] / file.name)
    names = [other.name for other in files]
    if names.count(file.name) == 1:
        places.append(folder / file.name)
    last = PurePosixPath(file.name).name
    if [PurePosixPath(name).name for name in names].count(last) == 1:
        places.append(folder / last)
    return list(dict.fromkeys(places))


def _find_unpacked(wish: _Wish, folder: Path, files: Sequence[WeightFile]) -> dict[str, Path]:
    """Verified members of an archive that lies unpacked, or nothing if one of them is missing."""
    found = {}
    for member in wish.members:
        path = _first_file(_member_places(wish.file, member, folder, files))
        if path is not None:
            found[_member_key(member)] = path
        elif not _may_be_missing(member):
            return {}
    for key, path in found.items():
        verify.verify(path, _member_file(wish.file, key))
    return found


def _member_places(
    file: WeightFile, member: str, folder: Path, files: Sequence[WeightFile]
) -> list[Path]:
    names = [PurePosixPath(name).name for name in _all_names(files)]
    places = []
    for inside in _places_of(member):
        places += [folder / inside, folder / _stem(file.name) / inside]
        last = PurePosixPath(inside).name
        if names.count(last) == 1:
            places += [folder / last, folder / _stem(file.name) / last]
    return list(dict.fromkeys(places))


def _all_names(files: Iterable[WeightFile]) -> list[str]:
    return [
        name
        for file in files
        for member in (file.members or (file.name,))
        for name in _places_of(member)
    ]


def _stem(name: str) -> str:
    """Name of the folder into which programs unpack an archive."""
    last = PurePosixPath(name).name
    endings = [ending for ending in _ARCHIVE_ENDINGS if last.lower().endswith(ending)]
    return last[: -len(max(endings, key=len))] if endings else last


def _first_file(places: Iterable[Path]) -> Path | None:
    return next((place for place in places if place.is_file()), None)


def _unpack(wish: _Wish, archive: Path, digest: str) -> dict[str, Path]:
    """Takes the members out of a verified archive, once."""
    found = {}
    for member in wish.members:
        inside = _place_in(archive, member)
        if inside is None:
            continue
        path = unpacked_folder(digest) / inside
        if not path.is_file():
            archives.extract(archive, inside, path)
        verify.verify(path, _member_file(wish.file, inside))
        found[_member_key(member)] = path
    return found


def _place_in(archive: Path, member: str) -> str | None:
    """Where a member lies in its archive; ``None`` for one that may be, and is, missing."""
    places = _places_of(member)
    if len(places) == 1 and not _may_be_missing(member):
        return places[0]
    names = archives.list_files(archive)
    for place in places:
        if place in names or sum(name.endswith(f"/{place}") for name in names) == 1:
            return place
    return None if _may_be_missing(member) else places[0]


def _member_file(file: WeightFile, member: str) -> WeightFile:
    """Passport of a member: no digest of its own is published."""
    return replace(
        file,
        name=member,
        address=f"{file.address}#{member}",
        size=None,
        sha256=verify.UNKNOWN,
        repository=None,
        folder=None,
        members=(),
        other_digest="not stated",
    )


def _why_not_fetched(folder: Path | None, local_files_only: bool) -> str | None:
    if folder is not None:
        return "weights= names a folder"
    return "local_files_only=True" if local_files_only else offline_reason()


def _missing(
    owner: str,
    absent: Sequence[WeightFile],
    folder: Path | None,
    files: Sequence[WeightFile],
    reason: str | None,
) -> list[str]:
    """Lines that say what is missing, where it was looked for and how to get it.

    Without a reason only files that are not public count: the others can be fetched.
    """
    if reason is None:
        absent = [file for file in absent if file.request is not None]
    count = "a weight file is" if len(absent) == 1 else f"{len(absent)} weight files are"
    why = "not public" if reason is None else f"the network is not used because {reason}"
    lines = [f"{owner}: {count} missing, and {why}."]
    for file in absent:
        looked = [fetch.searched(file)] if folder is None else _places(file, folder, files)
        places = ", ".join(map(str, looked))
        source = file.request or f"published at {file.address}"
        lines.append(f"  {file.key}: looked for in {places}; {source}")
    return lines
