"""Decides which block of the answer each part of a Gemini answer belongs to.

Parts are appended: neighbouring texts are one text.  A call comes whole, but is only known to be whole when
something follows it: its closing bracket waits for the next part or for the finish reason, so that a call that may
be truncated never looks complete.  All arguments of a call without a signature wait: a signature that follows in a
separate part comes before them.  Arguments in pieces (`partialArgs`) are emitted as they arrive.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import compact, encode
from dragoman.dialects.framing import nameless_call
from dragoman.dialects.gemini.schema import (
    NO_RAW,
    SERVER_CALLS,
    SERVER_RESULTS,
    VENDOR,
    ClientPart,
    CodeResult,
    ExecutableCode,
    FunctionCall,
    LogprobsResult,
    McpCall,
    McpResult,
    Part,
    fields_of,
    given,
)
from dragoman.errors import MalformedError, TooLargeError
from dragoman.limits import Limits
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import BlockKind, Channel, OpaqueKind
from dragoman.turn.server_tools import (
    UNAVAILABLE,
    MadeImage,
    ServerCall,
    ServerKind,
    ServerResult,
)
from dragoman.wire.json_paths import PathWriter

TEXT_SIGNATURE: Final = "text"  # the `item_id` of a signature that came on a text part
_PART: Final = msgspec.json.Decoder(Part)
_PART_FIELDS: Final = frozenset(ClientPart.__struct_encode_fields__)
_EXECUTABLE: Final = msgspec.json.Decoder(ExecutableCode)
_CODE_RESULT: Final = msgspec.json.Decoder(CodeResult)
_SUCCEEDED: Final = frozenset({"OUTCOME_OK", 1})  # enums may come as numbers
_TEXT: Final = msgspec.json.Decoder(str)
_FIELDS: Final[msgspec.json.Decoder[dict[str, Raw]]] = msgspec.json.Decoder(dict[str, Raw])


def is_empty(part: Raw) -> bool:
    """Return whether a part has nothing to read: no payload, or an empty text."""
    return bytes(part).translate(None, b" \t\r\n") in (b"{}", b'{"text":""}')


def _only_signs(part: Part, raw: Raw) -> bool:
    """Return whether a part without text has nothing but a signature, which belongs to what came before."""
    alone = bool(part.thought_signature) and not part.payloads
    return alone and fields_of(raw).keys() <= _PART_FIELDS


def signature_data(signature: str) -> str:
    """Return a call's signature in the form in which the turn carries it, which is that of a Chat server."""
    return encode({"google": {"thought_signature": signature}}).decode()


class Blocks:
    """Read the parts of one answer into an assembler."""

    def __init__(
        self,
        assembler: Assembler,
        limits: Limits,
        names: Mapping[str, str],
        *,
        keep_text: bool = False,
        signs_calls: bool = False,
    ) -> None:
        """`names`: those of the turn by those at Google, where they differ.

        `signs_calls`: the first call of an answer may be signed in a part after it, and waits for that.
        """
        self.texts: list[str] = []  # of the open text block, with `keep_text`
        self._keep_text = keep_text
        self._signs_calls = signs_calls
        self._assembler = assembler
        self._limits = limits
        self._names = names
        self._count = 0  # of calls
        self._held = (
            ""  # what waits of the arguments of the last call: the closing bracket, or all of them
        )
        self._signed = True  # the last call has a signature
        self._after = ""  # what came last: "text", "thought", "call"
        self._partial: PartialCall | None = None
        self._code_id = ""  # of the code that ran last

    @property
    def held(self) -> bool:
        """A call waits for what comes next."""
        return bool(self._held) or (self._partial is not None and not self._partial.opened)

    @property
    def in_pieces(self) -> bool:
        """The last call has said that more of its arguments follows."""
        return self._partial is not None

    @property
    def inside(self) -> str:
        """What an answer that ends here is in the middle of."""
        return "a tool call" if self.held or self._partial is not None else ""

    @property
    def in_text(self) -> bool:
        return self._after == "text"

    def add(self, raw: Raw, logprobs: Raw = NO_RAW) -> None:
        """Read one part.

        Raises:
            MalformedError: it is not a part.
        """
        part = decode(_PART, bytes(raw))
        call = part.function_call
        if call is not None:
            self._call(call, part.thought_signature or "")
            return
        signature = part.thought_signature or ""
        if part.text is None and not _only_signs(part, raw):
            self._other(part, raw)  # with its signature
            return
        # Case: gemini/call_before_text.
        if part.text:
            self.end_call()
            if part.is_thought:
                self._assembler.reasoning(part.text, Channel.SUMMARY)
                self._after = "thought"
            else:
                self.add_text(part.text, records_of(logprobs))
        if signature:
            self._sign(signature)

    def add_text(self, text: str, records: Raw | None = None) -> None:
        """Read text of the answer."""
        self._assembler.text(text, records)
        if self._keep_text:
            if self._after != "text":
                self.texts = []
            self.texts.append(text)
        self._after = "text"

    def end_call(self, *, cut: bool = False) -> None:
        """End the last call, because something follows it; `cut`: nothing does, and it may lack its end."""
        if self._partial is not None:
            cut = self._end_partial(self._partial, cut=cut)
        if not self._held:
            return
        self.release()
        # Case: gemini/max_tokens_after_call.
        if cut:
            self._assembler.loss("input_uncertain", f"call {self._count}")
        else:
            self._assembler.args(self._count, self._held)
        self._held = ""
        self._assembler.end_call(self._count, cut=cut)

    def release(self) -> None:
        """Emit the arguments that wait, except their closing bracket."""
        if len(self._held) > 1:
            self._assembler.args(self._count, self._held[:-1])
            self._held = self._held[-1]

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, call: FunctionCall, signature: str) -> None:
        if self._partial is not None and self._partial.goes_on(call):
            self._piece(self._partial, call, signature)
            return
        self.end_call()
        # Test: test_a_call_without_a_name_is_a_failure.
        if not call.name:
            self._assembler.fault(nameless_call())
            return
        if len(call.name) > self._limits.max_tool_name_chars:
            raise TooLargeError("max_tool_name_chars", self._limits.max_tool_name_chars)
        # Cases: gemini/partial_arguments, gemini/partial_arguments_live.
        if PartialCall.begins(call):
            self._partial = PartialCall(call, self._limits)
            self._piece(self._partial, call, signature)
            return
        self._open(call.id or "", call.name, signature)
        text = self._arguments(call)
        if text.rstrip().endswith("}"):
            self._held = text.rstrip()
            if signature:
                self.release()
            return
        self._assembler.args(self._count, text)
        self._assembler.end_call(self._count)

    def _piece(self, partial: "PartialCall", call: FunctionCall, signature: str) -> None:
        """Read a piece of a call, and emit what it adds to the arguments."""
        try:
            partial.waiting += partial.read(call)
        finally:
            if not partial.opened and (signature or self._count or not self._signs_calls):
                partial.opened = True
                self._open(partial.id, partial.name, signature)
            elif signature and not self._signed:
                self._signed = True
                self._sign_call(signature)
            if partial.opened and partial.waiting:
                self._assembler.args(self._count, partial.waiting)
                partial.waiting = ""
        if not call.will_continue:
            self.end_call()

    def _end_partial(self, partial: "PartialCall", *, cut: bool) -> bool:
        """End a call whose arguments came in pieces; return whether some of them are lost."""
        self._partial = None
        if not partial.opened:
            self._open(partial.id, partial.name, "")
        try:
            # What a call is inside of when it is cut stays open; its last bracket is not emitted.
            self._held = partial.waiting + ("}" if cut else partial.writer.end())
        except MalformedError as error:
            self._assembler.loss("chunk_malformed", error.path, error.reason)
            self._held, partial.broken = partial.waiting + "}", True
        if partial.writer.repaired:
            # Case: gemini/partial_arguments_out_of_order.
            detail = "a field came in pieces that were not in order, and was written twice"
            self._assembler.loss("args_repaired", f"call {self._count}", detail)
        return partial.broken or cut

    def _open(self, call_id: str, name: str, signature: str) -> None:
        self._count += 1
        name = self._names.get(name, name)
        self._assembler.open_call(self._count, call_id=call_id, name=name)
        self._signed = bool(signature)
        self._after = "call"
        if signature:
            self._sign_call(signature)

    def _arguments(self, call: FunctionCall) -> str:
        """Return the arguments as text; servers that imitate Google send a string."""
        # Case: gemini/call_without_arguments.
        if not given(call.args):
            return "{}"
        raw = bytes(call.args)
        if raw[:1] == b'"':
            # Case: gemini/arguments_as_a_string.
            self._assembler.loss("args_as_text", f"call {self._count}")
            return decode(_TEXT, raw) or "{}"
        if b"\n" in raw or b"\r" in raw:
            raw = compact(raw)
        return raw.decode("utf-8", "replace")

    # --- signatures -------------------------------------------------------------------------------

    def _sign(self, signature: str) -> None:
        """Attach a signature to what it came with or after."""
        match self._after:
            case "call" if not self._signed:
                # Case: gemini/signature_behind_its_call.
                self._signed = True
                self._sign_call(signature)
                self.release()
            case "thought":
                # Case: gemini/signature_on_a_thought.
                self._assembler.opaque(OpaqueKind.SIGNATURE, signature)
            case _:
                # Case: gemini/signature_on_text.
                self.end_call()
                self._assembler.split()
                self._assembler.opaque(OpaqueKind.ENCRYPTED, signature, TEXT_SIGNATURE)
                self._assembler.split()
                self._after = ""

    def _sign_call(self, signature: str) -> None:
        data = signature_data(signature)
        self._assembler.call_opaque(self._count, OpaqueKind.TOOL_SIGNATURE, data)

    # --- other parts ------------------------------------------------------------------------------

    def _other(self, part: Part, raw: Raw) -> None:
        kind: BlockKind | None = None
        if any(given(getattr(part, name)) for name in SERVER_CALLS):
            kind = BlockKind.SERVER_CALL
        elif any(given(getattr(part, name)) for name in SERVER_RESULTS):
            kind = BlockKind.SERVER_RESULT
        elif part.inline_data is not None or part.file_data is not None:
            kind = BlockKind.OPAQUE
        if kind is not None:
            self.end_call()
            if not self._server(part, raw):
                self._assembler.whole_block(kind, VENDOR, raw)
            self._after = ""
        elif bytes(raw).strip(b" {}\r\n\t"):
            # Case: gemini/unknown_part.
            self._assembler.loss("part_unknown", "$.candidates[0].content.parts")

    def _server(self, part: Part, raw: Raw) -> bool:
        """Emit what other vendors' tools do too; return whether the part is that."""
        return self._code(part, raw) or self._mcp(part, raw) or self._image(part, raw)

    def _image(self, part: Part, raw: Raw) -> bool:
        """Emit an image that the model made; return whether the part is that."""
        blob = part.inline_data
        media_type = "" if blob is None else (blob.mime_type or "").lower()
        # An image among the thoughts is a draft and no answer.  Case: gemini/thought_image.
        if part.is_thought or blob is None or not blob.data or not media_type.startswith("image/"):
            return False
        # Case: gemini/image_answer.
        image = MadeImage(blob.data, media_type)
        call = self._assembler.server_call(ServerCall(ServerKind.IMAGE))
        result = ServerResult(ServerKind.IMAGE, image=image)
        self._assembler.server_result(result, call_id=call, vendor=VENDOR, raw=raw)
        return True

    def _mcp(self, part: Part, raw: Raw) -> bool:
        """Emit the call of an MCP server's tool, or its result; return whether the part is that."""
        read = read_mcp(part)
        if read is None:
            return False
        # Cases: gemini/mcp_call, gemini/mcp_result_without_call.
        call_id, server = read
        if isinstance(server, ServerCall):
            self._assembler.server_call(server, call_id=call_id, vendor=VENDOR, raw=raw)
        else:
            self._assembler.server_result(server, call_id=call_id, vendor=VENDOR, raw=raw)
        return True

    def _code(self, part: Part, raw: Raw) -> bool:
        """Emit code that Google ran, or what it printed; return whether the part is that."""
        try:
            # Case: gemini/code_execution.
            if given(part.executable_code):
                code = _EXECUTABLE.decode(part.executable_code)
                call = ServerCall(ServerKind.CODE, arguments=Raw(encode({"code": code.code})))
                self._code_id = self._assembler.server_call(
                    call, call_id=code.id or "", vendor=VENDOR, raw=raw
                )
                return True
            if given(part.code_execution_result):
                found = _CODE_RESULT.decode(part.code_execution_result)
                failed = 0 if found.outcome in _SUCCEEDED else 1
                result = ServerResult(ServerKind.CODE, output=found.output, return_code=failed)
                self._assembler.server_result(
                    result, call_id=found.id or self._code_id, vendor=VENDOR, raw=raw
                )
                return True
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        return False


_MCP_CALL: Final = msgspec.json.Decoder(McpCall)
_MCP_RESULT: Final = msgspec.json.Decoder(McpResult)


def read_mcp(part: Part) -> tuple[str, ServerCall | ServerResult] | None:
    """Return the id and the content of an MCP server's call or result; None if the part is something else."""
    try:
        call = _MCP_CALL.decode(part.tool_call) if given(part.tool_call) else None
        found = _MCP_RESULT.decode(part.tool_response) if given(part.tool_response) else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if call is not None and call.tool_type is UNSET:
        args = call.args
        asked = (args.arguments.copy(), args.name, args.server_name)
        return call.id, ServerCall(ServerKind.MCP, (), *asked)
    if found is not None and found.tool_type is UNSET:
        response = found.response
        error = UNAVAILABLE if response.error is not None else ""
        output = response.error or response.output or ""
        return found.id, ServerResult(ServerKind.MCP, output=output, error=error)
    return None


# --- partial arguments ------------------------------------------------------------------------------
# Vertex sends a call in pieces if a request asks for it: values with their paths.


class PartialCall:
    """A call whose arguments come as values with paths.

    Attributes:
        waiting: What was written of the arguments and is not emitted yet.
        opened: Its block is open, so that what is written is emitted at once.
        broken: A piece could not be read: the arguments lack something.
    """

    def __init__(self, call: FunctionCall, limits: Limits) -> None:
        self.id: str = call.id or ""
        self.name: str = call.name or ""
        self.writer: PathWriter = PathWriter(limits.max_tool_args_bytes)
        self.waiting: str = ""
        self.opened: bool = False
        self.broken: bool = False

    @staticmethod
    def begins(call: FunctionCall) -> bool:
        """Return whether more of a call's arguments than `args` may come."""
        return bool(call.will_continue or call.partial_args)

    def goes_on(self, call: FunctionCall) -> bool:
        """Return whether a part is the next piece of this call; some servers repeat its name and id."""
        # Test: test_name_and_id_may_be_repeated.
        same = call.name == self.name and bool(call.partial_args)
        return (not call.name or same) and (call.id or self.id) == self.id

    def read(self, call: FunctionCall) -> str:
        """Return what a piece adds to the text of the arguments.

        Raises:
            MalformedError: the path of a value is not one, or contradicts those before it.
            TooLargeError: the arguments pass their limit.
        """
        out: list[str] = []
        try:
            if given(call.args) and bytes(call.args)[:1] == b"{":
                for name, value in decode(_FIELDS, bytes(call.args)).items():
                    out.append(self.writer.add_field(name, bytes(value)))
            for one in call.partial_args or ():
                path = one.json_path or ""
                if one.string_value is not None:
                    out.append(self.writer.add_text(path, one.string_value))
                elif given(one.number_value):
                    out.append(self.writer.add(path, bytes(one.number_value)))
                elif one.bool_value is not None:
                    out.append(self.writer.add(path, b"true" if one.bool_value else b"false"))
                elif one.null_value:
                    out.append(self.writer.add(path, b"null"))
        except MalformedError:
            self.waiting += "".join(out)
            self.broken = True
            raise
        return "".join(out)


# --- token probabilities ----------------------------------------------------------------------------

_LOGPROBS: Final = msgspec.json.Decoder(LogprobsResult)


def records_of(raw: Raw) -> Raw | None:
    """Return token probabilities as the records of the turn; None if there are none."""
    if not given(raw):
        return None
    # Case: gemini/logprobs.
    found = decode(_LOGPROBS, bytes(raw))
    tops = [one.candidates or [] for one in found.top_candidates or ()]
    records: list[dict[str, object]] = []
    for at, chosen in enumerate(found.chosen_candidates or ()):
        record: dict[str, object] = {**_record(chosen.token, chosen.log_probability)}
        top = tops[at] if at < len(tops) else []
        record["top_logprobs"] = [_record(one.token, one.log_probability) for one in top]
        records.append(record)
    return Raw(encode(records)) if records else None


def _record(token: str | None, logprob: float | None) -> dict[str, object]:
    text = token or ""
    return {
        "token": text,
        "logprob": logprob or 0.0,
        "bytes": list(text.encode("utf-8", "replace")),
    }
