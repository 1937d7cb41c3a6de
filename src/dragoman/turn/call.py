"""A tool call while it is put together: what is known of it, and what waits."""

from dragoman.limits import Limits
from dragoman.turn.arguments import Ending, JsonArguments
from dragoman.turn.events import NO_ARGUMENTS_YET, BlockKind, Flavor, OpaqueKind
from dragoman.turn.freeform import CustomInput, RawInput
from dragoman.turn.tools import ToolName


class Call:
    """One call.  `raw_input` says that its peer sends free text, not JSON."""

    def __init__(self, call_id: str, tool: ToolName, *, raw_input: bool, limits: Limits) -> None:
        self.call_id = call_id
        self.tool = tool
        self.kind = BlockKind.TOOL_CALL
        self.arguments: JsonArguments | CustomInput | RawInput = JsonArguments(limits=limits)
        if tool.flavor is Flavor.CUSTOM:
            self.kind = BlockKind.CUSTOM_CALL
            self.arguments = RawInput(limits=limits) if raw_input else CustomInput(limits=limits)
        self.open = False  # its block has been opened
        self.ended = False  # its peer said that it ended
        self.cut = False  # its peer said that it ended too early
        self.closed = False  # its block has been ended
        self.waiting: list[str] = []  # fragments that came before its block could open
        self.opaque: list[tuple[OpaqueKind, str]] = []
        self._probe = JsonArguments(limits=limits)  # has seen the first `_probed` that wait
        self._probed = 0

    @property
    def is_whole(self) -> bool:
        """Its arguments, waiting ones included, are complete JSON."""
        if self.open or self.closed:
            return self.closed or self.arguments.whole
        for fragment in self.waiting[self._probed :]:
            self._probe.feed(fragment)
        self._probed = len(self.waiting)
        return self._probe.whole

    def halved(self, ending: Ending) -> Ending:
        """Return its ending if nobody can say that it is whole.

        Clients take a call without any arguments for one that needs none and run it, so a call that
        was truncated before its first argument gets an opening bracket.
        """
        if self.kind is BlockKind.CUSTOM_CALL:
            return Ending(ending.text, whole=False, losses=ending.losses)
        return Ending(NO_ARGUMENTS_YET, whole=False, losses=(*ending.losses, "args_missing"))
