"""The items of tool calls: functions, custom tools, shells and patches."""

from dragoman.dialects.encoding import encode
from dragoman.dialects.responses.output import Output
from dragoman.dialects.responses.shells import BY_FLAVOR, content_of
from dragoman.turn.events import BlockKind, BlockStart, Flavor


class CallWriter:
    """Write one call."""

    def __init__(self, output: Output, start: BlockStart, call_id: str) -> None:
        self.call_id = call_id
        self.announced = False
        self.waits = False  # its item is not finished, for its status follows from what comes next
        self._output = output
        self._start = start
        self._custom = start.kind is BlockKind.CUSTOM_CALL
        # What a shell is to do is known at the end of the call only.
        self._shell = BY_FLAVOR.get(start.flavor)
        self._id = ""
        self._texts: list[str] = []

    def announce(self) -> bytes:
        """Add the call's item."""
        self.announced = True
        if self._shell is not None:
            return b""
        self._id = (
            self._output.new_id("ctc_", "custom_tool_call")
            if self._custom
            else self._output.new_id("fc_", "function_call")
        )
        return self._output.added(self._item("", "in_progress"))

    def arguments(self, text: str) -> bytes:
        """Add to the arguments, or to the free-form input."""
        self._texts.append(text)
        if self._shell is not None:
            return b""
        name = "custom_tool_call_input" if self._custom else "function_call_arguments"
        return self._event(f"response.{name}.delta", b'"delta":%b' % encode(text))

    def close(self, *, complete: bool) -> bytes:
        """End the call; one that was cut keeps its arguments as they are, and waits for `finish_item`.

        A client that reads done items runs free-form input whatever its status, so input that was cut
        is never done: only the response at the end has its item.
        """
        text = "".join(self._texts)
        out = b""
        if self._shell is not None:
            content = content_of(self._start.flavor, text) if complete else None
            if content is not None:
                return self._output.added(self._shell_item(content, "in_progress")) + (
                    self._output.done(self._shell_item(content, "completed"))
                )
            # It does not fit the tool's shape: told as a function's call, so that nothing is lost.
            self._shell = None
            self._texts = []
            out = self.announce() + self.arguments(text)
        if self._custom and not complete:
            self._output.left_open(self._item(text, "incomplete"))
            return out
        if self._custom:
            name, field = "response.custom_tool_call_input.done", b"input"
        else:
            name, field = "response.function_call_arguments.done", b"arguments"
        out += self._event(name, b'"%b":%b' % (field, encode(text)))
        self.waits = not complete
        return out if self.waits else out + self.finish_item("completed")

    def finish_item(self, status: str) -> bytes:
        """Finish the item of the call."""
        self.waits = False
        return self._output.done(self._item("".join(self._texts), status))

    def _event(self, name: str, fields: bytes) -> bytes:
        at = b'"item_id":"%b","output_index":%d' % (self._id.encode(), self._output.index)
        return self._output.event(name, b"%b,%b" % (at, fields))

    def _item(self, text: str, status: str) -> bytes:
        start = self._start
        item = {"id": self._id, "type": "custom_tool_call" if self._custom else "function_call"}
        if not self._custom or status == "incomplete":  # a custom call has one only if it was cut
            item["status"] = status
        item["call_id"] = self.call_id
        item["name"] = start.name
        if start.namespace:
            item["namespace"] = start.namespace
        item["input" if self._custom else "arguments"] = text
        return encode(item)

    def _shell_item(self, content: object, status: str) -> bytes:
        flavor = self._start.flavor
        shell = BY_FLAVOR[flavor]
        return encode(
            {
                "id": self._output.new_id(shell.id_prefix, shell.call_type),
                "type": shell.call_type,
                "status": status,
                "call_id": self.call_id,
                "operation" if flavor is Flavor.APPLY_PATCH else "action": content,
            }
        )
