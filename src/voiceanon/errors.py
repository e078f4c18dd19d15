"""The one family of errors.

Every message says what is wrong, the value found, what is allowed, and the way out.
"""


class VoiceanonError(Exception):
    """Base of everything that the library raises on purpose."""


class AudioError(VoiceanonError, ValueError):
    """Audio that cannot be anonymized as it is: not finite, wrong shape, unreadable file, ..."""


class ConfigError(VoiceanonError, ValueError):
    """An option, a device, a seed or a target that does not fit."""


class UnknownSystemError(VoiceanonError, ValueError):
    """A name that no registered system bears."""


class WeightsError(VoiceanonError):
    """Weights that are missing, damaged or do not fit the architecture."""


class MissingDependencyError(VoiceanonError, ImportError):
    """A package that this system or command needs is not installed."""


class ConversionError(VoiceanonError):
    """A system returned something that may not be handed on: wrong shape, or values not finite."""


class AudioWarning(UserWarning):
    """Audio was changed or is unusual in a way that the user should know."""
