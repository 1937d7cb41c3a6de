"""Any LLM client, any model, and tool calls that do not break.

Names are loaded when they are first used, so that the command line starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman._version import __version__ as __version__
    from dragoman.checker.checker import Checker as Checker
    from dragoman.checker.checker import Verdict as Verdict
    from dragoman.checker.findings import Violation as Violation
    from dragoman.client.answer_stream import AnswerStream as AnswerStream
    from dragoman.client.client import Client as Client
    from dragoman.client.errors import ClientError as ClientError
    from dragoman.client.messages import answer_turn as answer_turn
    from dragoman.client.messages import assistant as assistant
    from dragoman.client.messages import request as request
    from dragoman.client.messages import result as result
    from dragoman.client.messages import system as system
    from dragoman.client.messages import tool as tool
    from dragoman.client.messages import user as user
    from dragoman.client.settings import Timeouts as Timeouts
    from dragoman.client.sync_client import SyncAnswerStream as SyncAnswerStream
    from dragoman.client.sync_client import SyncClient as SyncClient
    from dragoman.client.tool_calls import Step as Step
    from dragoman.client.tool_loop import LoopLimits as LoopLimits
    from dragoman.client.tool_loop import LoopStoppedError as LoopStoppedError
    from dragoman.client.tool_loop import ToolLoop as ToolLoop
    from dragoman.client.transcript import Transcript as Transcript
    from dragoman.context import Rendering as Rendering
    from dragoman.envelopes import Sealer as Sealer
    from dragoman.errors import ConfigError as ConfigError
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.errors import IllegalOrderError as IllegalOrderError
    from dragoman.errors import MalformedError as MalformedError
    from dragoman.errors import MisuseError as MisuseError
    from dragoman.errors import NotJsonError as NotJsonError
    from dragoman.errors import PeerError as PeerError
    from dragoman.errors import ProtocolError as ProtocolError
    from dragoman.errors import TooLargeError as TooLargeError
    from dragoman.errors import TruncatedError as TruncatedError
    from dragoman.errors import UntranslatableError as UntranslatableError
    from dragoman.limits import Limits as Limits
    from dragoman.profiles import profile as profile
    from dragoman.profiles.profile import Profile as Profile
    from dragoman.toolcalls.format import Format as Format
    from dragoman.toolcalls.own_formats import json_format as json_format
    from dragoman.toolcalls.own_formats import tags_format as tags_format
    from dragoman.toolcalls.parser import Parsed as Parsed
    from dragoman.toolcalls.parser import ToolCallParser as ToolCallParser
    from dragoman.translate import TranslatedBody as TranslatedBody
    from dragoman.translate import Translator as Translator
    from dragoman.translate import translate_body as translate_body
    from dragoman.translate import translate_error as translate_error
    from dragoman.translate_requests import TranslatedRequest as TranslatedRequest
    from dragoman.translate_requests import decode_tools as decode_tools
    from dragoman.translate_requests import error_response as error_response
    from dragoman.translate_requests import translate_request as translate_request
    from dragoman.transport import TLS as TLS
    from dragoman.turn.answer import Answer as Answer
    from dragoman.turn.answer import Block as Block
    from dragoman.turn.answer import ToolCall as ToolCall
    from dragoman.turn.events import ArgsDelta as ArgsDelta
    from dragoman.turn.events import BlockEnd as BlockEnd
    from dragoman.turn.events import BlockKind as BlockKind
    from dragoman.turn.events import BlockStart as BlockStart
    from dragoman.turn.events import Channel as Channel
    from dragoman.turn.events import Citation as Citation
    from dragoman.turn.events import Event as Event
    from dragoman.turn.events import Fault as Fault
    from dragoman.turn.events import FaultKind as FaultKind
    from dragoman.turn.events import Finish as Finish
    from dragoman.turn.events import FinishReason as FinishReason
    from dragoman.turn.events import Flavor as Flavor
    from dragoman.turn.events import InputDelta as InputDelta
    from dragoman.turn.events import Opaque as Opaque
    from dragoman.turn.events import OpaqueKind as OpaqueKind
    from dragoman.turn.events import Ping as Ping
    from dragoman.turn.events import ReasoningDelta as ReasoningDelta
    from dragoman.turn.events import RefusalDelta as RefusalDelta
    from dragoman.turn.events import Start as Start
    from dragoman.turn.events import TextDelta as TextDelta
    from dragoman.turn.events import Usage as Usage
    from dragoman.turn.losses import Loss as Loss
    from dragoman.turn.request import AudioPart as AudioPart
    from dragoman.turn.request import Base64Source as Base64Source
    from dragoman.turn.request import CacheHint as CacheHint
    from dragoman.turn.request import DialectName as DialectName
    from dragoman.turn.request import DocumentPart as DocumentPart
    from dragoman.turn.request import FileSource as FileSource
    from dragoman.turn.request import ImagePart as ImagePart
    from dragoman.turn.request import ReasoningSettings as ReasoningSettings
    from dragoman.turn.request import Request as Request
    from dragoman.turn.request import SearchResultPart as SearchResultPart
    from dragoman.turn.request import TextPart as TextPart
    from dragoman.turn.request import TextSource as TextSource
    from dragoman.turn.request import Tool as Tool
    from dragoman.turn.request import Turn as Turn
    from dragoman.turn.request import UrlSource as UrlSource

# Where each public name lives.
_HOMES = {
    "dragoman._version": ("__version__",),
    "dragoman.checker.checker": ("Checker", "Verdict"),
    "dragoman.checker.findings": ("Violation",),
    "dragoman.client.client": ("Client",),
    "dragoman.client.errors": ("ClientError",),
    "dragoman.client.tool_loop": ("LoopLimits", "LoopStoppedError", "ToolLoop"),
    "dragoman.client.messages": (
        "answer_turn",
        "request",
        "assistant",
        "result",
        "system",
        "tool",
        "user",
    ),
    "dragoman.client.settings": ("Timeouts",),
    "dragoman.client.tool_calls": ("Step",),
    "dragoman.client.answer_stream": ("AnswerStream",),
    "dragoman.client.sync_client": ("SyncAnswerStream", "SyncClient"),
    "dragoman.client.transcript": ("Transcript",),
    "dragoman.errors": (
        "ConfigError",
        "DragomanError",
        "IllegalOrderError",
        "MalformedError",
        "MisuseError",
        "NotJsonError",
        "PeerError",
        "ProtocolError",
        "TooLargeError",
        "TruncatedError",
        "UntranslatableError",
    ),
    "dragoman.context": ("Rendering",),
    "dragoman.limits": ("Limits",),
    "dragoman.envelopes": ("Sealer",),
    "dragoman.profiles": ("profile",),
    "dragoman.profiles.profile": ("Profile",),
    "dragoman.translate_requests": (
        "TranslatedRequest",
        "decode_tools",
        "error_response",
        "translate_request",
    ),
    "dragoman.toolcalls.format": ("Format",),
    "dragoman.toolcalls.own_formats": ("json_format", "tags_format"),
    "dragoman.toolcalls.parser": ("Parsed", "ToolCallParser"),
    "dragoman.translate": ("TranslatedBody", "Translator", "translate_body", "translate_error"),
    "dragoman.transport": ("TLS",),
    "dragoman.turn.events": (
        "ArgsDelta",
        "BlockEnd",
        "BlockKind",
        "BlockStart",
        "Channel",
        "Citation",
        "Event",
        "Fault",
        "FaultKind",
        "Finish",
        "FinishReason",
        "Flavor",
        "InputDelta",
        "Opaque",
        "OpaqueKind",
        "Ping",
        "ReasoningDelta",
        "RefusalDelta",
        "Start",
        "TextDelta",
        "Usage",
    ),
    "dragoman.turn.answer": ("Answer", "Block", "ToolCall"),
    "dragoman.turn.losses": ("Loss",),
    "dragoman.turn.request": (
        "AudioPart",
        "Base64Source",
        "CacheHint",
        "DialectName",
        "DocumentPart",
        "FileSource",
        "ImagePart",
        "ReasoningSettings",
        "Request",
        "SearchResultPart",
        "TextPart",
        "TextSource",
        "Tool",
        "Turn",
        "UrlSource",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 -- the table above is the list


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
