"""A question to an upstream, free of any dialect: a small conversation and a few wishes.

Questions are values: two checks that ask the same thing share one request.
"""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

EmptyContent: TypeAlias = Literal["null", "empty", "omit"]
LimitField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]

TEXT_TOKENS: Final = 512  # reasoning models spend most of it on thoughts
CALL_TOKENS: Final = 1024
SMALL_TOKENS: Final = 16  # the least that every vendor takes


class Say(Struct, frozen=True):
    """A message of text, with an image if there is one."""

    role: Literal["system", "developer", "user", "assistant"]
    text: str
    image: str = ""  # a PNG, in base64
    parts: bool = False  # the content is a list of parts, however short


class Call(Struct, frozen=True):
    id: str
    name: str
    arguments: str  # JSON text


class Called(Struct, frozen=True):
    """An assistant's turn that made calls."""

    calls: tuple[Call, ...]
    reasoning: str = ""


class Result(Struct, frozen=True):
    """What a tool returned."""

    id: str
    text: str


class Tool(Struct, frozen=True):
    name: str
    says: str
    schema: str  # JSON text


class Question(Struct, frozen=True, kw_only=True):
    said: tuple[Say | Called | Result, ...]
    tools: tuple[Tool, ...] = ()
    choice: str = ""  # `auto`, `required`, `none`, or a tool's name; empty: nothing is said
    parallel: bool | None = None
    stream: bool = True
    usage: bool = True  # Chat: token counts are asked for
    limit: int = TEXT_TOKENS  # of output tokens
    limit_field: LimitField | None = None  # Chat: None: the one that is known to be taken
    empty_content: EmptyContent | None = None  # Chat: beside calls; None: what is known to be taken
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    reason: bool = False  # reasoning is asked for
    model: str = ""  # instead of the one that is probed
    spoilt: bool = False  # the conversation is not of the dialect


class Habits(Struct, frozen=True):
    """What an upstream was seen to take, so that other questions do not fail for it."""

    limit_field: LimitField = "max_tokens"
    empty_content: EmptyContent = "null"
    stream_options: bool = True
    reasoning: str = ""  # what every assistant's turn with calls must carry
