"""Any LLM client, any model, and tool calls that do not break."""

from dragoman._version import __version__
from dragoman.check import Checker, Violation
from dragoman.errors import (
    ConfigError,
    DragomanError,
    IllegalOrder,
    Malformed,
    MisuseError,
    PeerError,
    ProtocolError,
    TooLarge,
    Truncated,
    Untranslatable,
)
from dragoman.exchange import Rendering
from dragoman.limits import Limits
from dragoman.opaque import Sealer
from dragoman.profiles import profile
from dragoman.profiles.profile import Profile
from dragoman.translate import (
    TranslatedBody,
    TranslatedRequest,
    Translator,
    decode_tools,
    refuse,
    translate_body,
    translate_error,
    translate_request,
)
from dragoman.turn.loss import Loss

__all__ = [
    # check
    "Checker",
    "Violation",
    # errors
    "ConfigError",
    "DragomanError",
    "IllegalOrder",
    "Malformed",
    "MisuseError",
    "PeerError",
    "ProtocolError",
    "TooLarge",
    "Truncated",
    "Untranslatable",
    # exchange
    "Rendering",
    # limits
    "Limits",
    # opaque
    "Sealer",
    # profiles
    "Profile",
    "profile",
    # translate
    "TranslatedBody",
    "TranslatedRequest",
    "Translator",
    "decode_tools",
    "refuse",
    "translate_body",
    "translate_error",
    "translate_request",
    # turn
    "Loss",
    # version
    "__version__",
]
