"""Which assistant turns of a history get their reasoning back, for every target dialect."""

from collections.abc import Sequence

from dragoman.profiles.profile import Profile
from dragoman.turn.request import USER, ToolResultPart, Turn


class ReplayPolicy:
    """Decide for every assistant turn of one history."""

    def __init__(self, turns: Sequence[Turn], profile: Profile) -> None:
        self._replay = profile.replay_reasoning
        self._current = -1  # the last turn that began a new question
        if self._replay == "current_turn":
            questions = (at for at, turn in enumerate(turns) if is_question(turn))
            self._current = max(questions, default=-1)

    def wants(self, at: int, *, calls: bool) -> bool:
        """Say whether turn `at` gets its reasoning back; `calls` says whether it calls tools."""
        match self._replay:
            case "never" | "auto":  # the front door has replaced `auto`, if it knew the model
                return False
            case "tool_turns":
                return calls
            case "current_turn":
                return at > self._current
            case "always":
                return True


def is_question(turn: Turn) -> bool:
    """Say whether a turn begins anew: results of tools, which come first, continue a chain."""
    first = turn.parts[0] if turn.parts else None
    return turn.role is USER and not isinstance(first, ToolResultPart)
