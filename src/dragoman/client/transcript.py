"""A tool loop as a value: the conversation so far and its cost, to be stored and resumed."""

from typing import Final

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.dialects.encoding import encode
from dragoman.errors import MalformedError
from dragoman.turn.request import Request, Tool, ToolResultPart

_VERSION: Final = 1
_NULL: Final = Raw(b"null")


class Transcript(Struct, frozen=True, kw_only=True):
    """The state of a `ToolLoop`, which `ToolLoop.resume` continues.

    Attributes:
        request: The conversation so far, with all turns.
        turns: Answers of the model.
        calls: Tool calls so far.
        tokens: Tokens of all requests and answers.
        seconds: Seconds since the first request.
        given: Results of the calls at the end of the conversation, while some are missing.
        broken: By id, why one of these calls must not be run: it was truncated, or is not valid JSON.
    """

    request: Request
    turns: int = 0
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    given: tuple[ToolResultPart, ...] = ()
    broken: dict[str, str] = {}

    def encode(self) -> bytes:
        """Return the transcript as JSON, for `decode`.  It contains the whole conversation, in the clear."""
        request = self.request
        bare = structs.replace(
            request,
            tools=tuple(structs.replace(one, schema=None, raw=None) for one in request.tools),
            sampling=structs.replace(request.sampling, logit_bias=None),
            format=structs.replace(request.format, schema=None),
            metadata=None,
        )
        return encode(
            _Written(
                version=_VERSION,
                spent=_Spent(self.turns, self.calls, self.tokens, self.seconds),
                request=bare,
                given=self.given,
                broken=self.broken,
                schemas=tuple(one.schema or _NULL for one in request.tools),
                definitions=tuple(one.raw or _NULL for one in request.tools),
                logit_bias=request.sampling.logit_bias or _NULL,
                format_schema=request.format.schema or _NULL,
                metadata=request.metadata or _NULL,
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> "Transcript":
        """Read the bytes of `encode`.

        Args:
            data: What `encode` returned, of this version of the format.

        Raises:
            MalformedError: the bytes are not a transcript.
        """
        try:
            if (version := msgspec.json.decode(data, type=_Version).version) != _VERSION:
                raise MalformedError(f"a transcript of version {version}, not {_VERSION}")
            found = _WRITTEN.decode(data)
        except (ValueError, RecursionError) as error:
            raise MalformedError(f"not a transcript: {error}") from error
        bare, spent = found.request, found.spent
        if not len(bare.tools) == len(found.schemas) == len(found.definitions):
            raise MalformedError("not a transcript: tools without their schemas")
        request = structs.replace(
            bare,
            tools=tuple(map(_tool, bare.tools, found.schemas, found.definitions)),
            sampling=structs.replace(bare.sampling, logit_bias=_raw(found.logit_bias)),
            format=structs.replace(bare.format, schema=_raw(found.format_schema)),
            metadata=_raw(found.metadata),
        )
        return cls(
            request=request,
            turns=spent.turns,
            calls=spent.calls,
            tokens=spent.tokens,
            seconds=spent.seconds,
            given=found.given,
            broken=found.broken,
        )


# --- the format ---
# Raw JSON is stored beside the request: inside it, a decoder cannot tell `null` from absence.


class _Version(Struct):
    version: int


class _Spent(Struct, frozen=True):
    turns: int
    calls: int
    tokens: int
    seconds: float


class _Written(Struct, frozen=True, kw_only=True):
    version: int
    spent: _Spent
    request: Request
    given: tuple[ToolResultPart, ...]
    broken: dict[str, str]
    schemas: tuple[Raw, ...]
    definitions: tuple[Raw, ...]
    logit_bias: Raw
    format_schema: Raw
    metadata: Raw


_WRITTEN: Final = msgspec.json.Decoder(_Written)


def _raw(value: Raw) -> Raw | None:
    return None if bytes(value) == b"null" else Raw(bytes(value))


def _tool(tool: Tool, schema: Raw, definition: Raw) -> Tool:
    return structs.replace(tool, schema=_raw(schema), raw=_raw(definition))
