"""Voice anonymization: every published family behind one interface.

::

    from voiceanon import load

    y = load("b2").anonymize(wav)

Files and folders are the matter of `voiceanon.corpus`.
"""

from voiceanon._version import __version__
from voiceanon.anonymizer import Anonymizer
from voiceanon.errors import (
    AudioError,
    AudioWarning,
    ConfigError,
    ConversionError,
    MissingDependencyError,
    UnknownSystemError,
    VoiceanonError,
    WeightsError,
)
from voiceanon.registry import list_systems, load, register, system_info
from voiceanon.types import Report, SystemInfo

__all__ = [
    "Anonymizer",
    "AudioError",
    "AudioWarning",
    "ConfigError",
    "ConversionError",
    "MissingDependencyError",
    "Report",
    "SystemInfo",
    "UnknownSystemError",
    "VoiceanonError",
    "WeightsError",
    "__version__",
    "list_systems",
    "load",
    "register",
    "system_info",
]
