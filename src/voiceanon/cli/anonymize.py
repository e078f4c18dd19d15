"""``voiceanon anonymize``: a file, a folder, a list or a Kaldi folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from voiceanon.cli.console import plain_warnings, say
from voiceanon.cli.loading import (
    Arithmetic,
    LocalFilesOnly,
    Settings,
    Speakers,
    Weights,
    load_system,
)
from voiceanon.cli.options import read_seed, read_sexes, read_speakers
from voiceanon.errors import AudioError, ConfigError, ConversionError
from voiceanon.types import Level, Loudness

if TYPE_CHECKING:
    from voiceanon.anonymizer import Anonymizer
    from voiceanon.corpus import CorpusResult

EXIT_FAILED = 1

Source = Annotated[
    Path, typer.Argument(help="Audio file, folder, list of paths (.txt), or Kaldi folder.")
]
Destination = Annotated[
    Path, typer.Argument(help="Output folder; or an audio file, if SRC is one.")
]
System = Annotated[str, typer.Option("--system", help="Id or alias; see 'voiceanon systems'.")]
Number = Annotated[
    int | None, typer.Option("--seed", help="Makes voices repeatable; the default draws them.")
]
SecretFile = Annotated[
    Path | None, typer.Option("--secret-file", help="File with a secret, instead of --seed.")
]
SharedBy = Annotated[
    str, typer.Option("--level", help=f"What shares a voice: {', '.join(get_args(Level))}.")
]
LevelStep = Annotated[
    str, typer.Option("--loudness", help=f"Level step: {', '.join(get_args(Loudness))}.")
]
MixChannels = Annotated[bool, typer.Option("--mix-channels", help="Average channels into one.")]
Workers = Annotated[int, typer.Option("--workers", help="Number of processes.")]
Devices = Annotated[
    list[str] | None,
    typer.Option("--device", help="auto, cpu, cuda, cuda:N, mps; several get a process each."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="wav, flac, ogg; the default keeps the source's if it can."),
]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Leave out what an earlier run has done.")
]
Pool = Annotated[
    Path | None,
    typer.Option("--pool", help="Target speakers, a file of 'voiceanon pool build'."),
]
Sexes = Annotated[
    Path | None,
    typer.Option(
        "--sexes", help="File with lines 'speaker sex' (f or m), for systems that choose by it."
    ),
]


def anonymize(
    src: Source,
    dst: Destination,
    system: System = "b2",
    seed: Number = None,
    secret_file: SecretFile = None,
    level: SharedBy = "utterance",
    loudness: LevelStep = "published",
    mix_channels: MixChannels = False,
    workers: Workers = 1,
    device: Devices = None,
    precision: Arithmetic = "float32",
    file_format: Format = None,
    resume: Resume = True,
    weights: Weights = None,
    local_files_only: LocalFilesOnly = False,
    pool: Pool = None,
    settings: Settings = None,
    speakers: Speakers = None,
    sexes: Sexes = None,
) -> None:
    """Anonymize SRC into DST. Originals are never changed."""
    from voiceanon.corpus.sources import is_audio

    devices = device or ["auto"]
    common: dict[str, Any] = {
        "seed": read_seed(seed, secret_file),
        "level": level,
        "loudness": loudness,
        "mix_channels": mix_channels,
    }
    speaker_of = read_speakers(speakers)
    anon = load_system(
        system,
        settings,
        # With several devices, this process only hands work out.
        device=devices[0] if len(devices) == 1 else "cpu",
        precision=precision,
        weights=weights,
        local_files_only=local_files_only,
        pool=pool,
        source_sexes=read_sexes(sexes),
    )
    if is_audio(src) and is_audio(dst) and not dst.is_dir():
        if file_format is not None:
            raise ConfigError(f"--format: the ending of {dst} says it already; leave it out.")
        speaker = (speaker_of or {}).get(src.stem)
        good = _anonymize_file(anon, src, dst, {**common, "key": src.stem, "speaker": speaker})
    else:
        several = devices if len(devices) > 1 else None
        common |= {"workers": workers, "devices": several, "resume": resume}
        good = _anonymize_corpus(
            anon, src, dst, {**common, "speakers": speaker_of, "file_format": file_format}
        )
    if not good:
        raise typer.Exit(EXIT_FAILED)


def _anonymize_file(anon: Anonymizer, src: Path, dst: Path, options: dict[str, Any]) -> bool:
    """Says what became of one file; tells whether it is there."""
    from voiceanon.audio import io

    if not src.is_file():
        raise ConfigError(f"SRC: there is no file {src}.")
    io.check_writable(dst)
    with plain_warnings():
        try:
            report = anon.anonymize_file(src, dst, **options)
        except (AudioError, ConversionError) as error:
            say(f"failed: {type(error).__name__}: {error}", "red")
            return False
    say(f"{dst}: {report.samples / report.sample_rate:.2f} s of audio, {report.system}")
    return True


def _anonymize_corpus(anon: Anonymizer, src: Path, dst: Path, options: dict[str, Any]) -> bool:
    """Runs a corpus with progress and a summary; tells whether all of it is there."""
    from voiceanon.cli.progress import RunProgress
    from voiceanon.corpus import anonymize_folder

    with RunProgress() as progress:
        result = anonymize_folder(
            anon,
            src,
            dst,
            on_plan=progress.on_plan,
            on_result=progress.on_result,
            **options,
        )
    _sum_up(result, dst)
    return not result.failed


def _sum_up(result: CorpusResult, dst: Path) -> None:
    for failed in result.failed:
        say(f"failed: {failed.source or failed.key}: {failed.reason}", "red")
    warned = sum(bool(each.warnings) for each in result.done)
    if warned:
        say(f"{warned} files with warnings; they stand in {dst / 'report.jsonl'}", "yellow")
    say(
        f"{len(result.done)} done, {len(result.failed)} failed, {len(result.skipped)} done "
        f"earlier, {result.not_audio} other files left alone; {result.seconds:.1f} s of audio in "
        f"{result.elapsed:.1f} s ({result.speed:.1f}x real time)"
    )
