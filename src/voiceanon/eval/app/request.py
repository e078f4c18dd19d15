"""What all measuring commands are asked, and the recordings that this leads to."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from voiceanon.cli.loading import load_system
from voiceanon.cli.progress import RunProgress
from voiceanon.errors import ConfigError
from voiceanon.eval.app.copies import (
    Subject,
    check_level,
    check_names,
    find_copies,
    make_copies,
)
from voiceanon.eval.app.data import Corpus, read_corpus
from voiceanon.eval.app.models import ModelOptions
from voiceanon.eval.app.options import COPIES_PANEL, DATA_PANEL, MODELS_PANEL
from voiceanon.eval.app.results import open_results
from voiceanon.types import Level

if TYPE_CHECKING:
    from voiceanon.anonymizer import Anonymizer
    from voiceanon.corpus import CorpusResult

CACHE = "cache"
"""Folder of embeddings, texts and predictions below that of the results."""

DEFAULT_LEVEL: Level = "utterance"
"""Of copies that are made: that of the VoicePrivacy Challenge 2024."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Options that all measuring commands share; the annotations are what the command line shows.

    Attributes:
        out: Folder for results.
        tables: More tables.
        leave_out: Patterns of recordings that are not used.
        clips: Pairs of recordings in the report.
        system: System, or its name.
        seed: Of the copies.
        level: What shares a voice.
        settings: Of the system.
        pool: Of the system.
        weights: Of the system.
        device: Of system and models.
        model_weights: Folder with the weights of the models.
        local_files_only: Never use the network.
    """

    out: Annotated[Path, typer.Option("--out", help="Folder for results, copies and caches.")]
    tables: Annotated[
        list[Path] | None,
        typer.Option(
            "--table",
            help="CSV file (columns utterance or path; speaker, sex, text, emotion) or Kaldi "
            "table; those in the folders are read anyway.",
            rich_help_panel=DATA_PANEL,
        ),
    ] = None
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            "--leave-out",
            help="Pattern such as 'pool/*' of recordings of ORIGINAL that are not used.",
            rich_help_panel=DATA_PANEL,
        ),
    ] = None
    clips: Annotated[
        int,
        typer.Option(
            "--clips",
            min=0,
            help="Pairs of recordings to put into the report, originals included.",
            rich_help_panel=DATA_PANEL,
        ),
    ] = 4
    system: Annotated[
        str | None,
        typer.Option(
            "--system",
            help="Makes the copies; with --anonymized, only names the system that made them.",
            rich_help_panel=COPIES_PANEL,
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Makes the copies repeatable.", rich_help_panel=COPIES_PANEL),
    ] = None
    level: Annotated[
        str | None,
        typer.Option(
            "--level",
            help=f"What shares a voice in the copies: {', '.join(get_args(Level))}.",
            rich_help_panel=COPIES_PANEL,
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="name=value, a setting of the system.", rich_help_panel=COPIES_PANEL
        ),
    ] = None
    pool: Annotated[
        Path | None,
        typer.Option("--pool", help="Target speakers of the system.", rich_help_panel=COPIES_PANEL),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights", help="Folder with the system's weights.", rich_help_panel=COPIES_PANEL
        ),
    ] = None
    device: Annotated[
        str,
        typer.Option(
            "--device", help="auto, cpu, cuda, cuda:N, mps.", rich_help_panel=MODELS_PANEL
        ),
    ] = "auto"
    model_weights: Annotated[
        Path | None,
        typer.Option(
            "--model-weights",
            help="Folder with the weights of attacker, recognizer and classifier.",
            rich_help_panel=MODELS_PANEL,
        ),
    ] = None
    local_files_only: Annotated[
        bool,
        typer.Option(
            "--local-files-only",
            help="Never fetch weights from the network.",
            rich_help_panel=MODELS_PANEL,
        ),
    ] = False

    @property
    def cache(self) -> Path:
        """Folder of caches."""
        return self.out / CACHE

    @property
    def models(self) -> ModelOptions:
        """Where models come from and run."""
        return ModelOptions(
            device=self.device,
            weights=self.model_weights,
            local_files_only=self.local_files_only,
        )

    def corpus(self, originals: Sequence[Path]) -> Corpus:
        """Finds originals; errors as in `read_corpus`."""
        check_names(originals)
        return read_corpus(
            originals, out=self.out, tables=self.tables or (), leave_out=self.leave_out or ()
        )

    def subject(self, corpus: Corpus, anonymized: Sequence[Path] | None) -> Subject:
        """Finds copies, or makes them.

        Args:
            corpus: Originals.
            anonymized: Folders of the copies.

        Raises:
            ConfigError: They do not match, there are none, or the folder of the results holds those
                of another system.
        """
        if anonymized:
            subject = find_copies(
                corpus, anonymized, out=self.out, system=self.system, level=self.level
            )
            open_results(self.out, subject.system, subject.level)
            return subject
        if self.system is None:
            raise ConfigError(
                "--anonymized: no folder with copies; name one for each ORIGINAL, or let --system "
                "make the copies."
            )
        return self._make(corpus, self.system)

    def _make(self, corpus: Corpus, system: str) -> Subject:
        level = check_level(self.level or DEFAULT_LEVEL)
        anon = load_system(
            system,
            self.settings,
            device=self.device,
            precision="float32",
            weights=self.weights,
            local_files_only=self.local_files_only,
            pool=self.pool,
        )
        # Before the long work.
        open_results(self.out, anon.info.id, level)

        def anonymize(
            anon: Anonymizer, src: Path, dst: Path, speakers: Mapping[str, str]
        ) -> CorpusResult:
            from voiceanon.corpus import anonymize_folder

            with RunProgress() as progress:
                return anonymize_folder(
                    anon,
                    src,
                    dst,
                    seed=self.seed,
                    level=level,
                    speakers=speakers,
                    on_plan=progress.on_plan,
                    on_result=progress.on_result,
                )

        return make_copies(corpus, anon, level=level, out=self.out, anonymize=anonymize)


def with_request(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the fields of `Request` as options, in place of its parameter ``request``."""
    hints = get_type_hints(Request, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty if field.name == "out" else field.default,
        )
        for field in fields(Request)
    ]
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.name != "request"]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        request = Request(**{field.name: values.pop(field.name) for field in fields(Request)})
        command(request=request, **values)

    parameters = [*(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own), *shared]
    # This is where typer looks for options.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
