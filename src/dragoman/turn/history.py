"""Brings the calls and results of a history into the order that every dialect takes.

After `normalize_history`: each call id is used once; the results of an assistant turn are in one user turn
directly after it, in call order, before that turn's other parts; every call has a result.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from dragoman.errors import MalformedError
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    ASSISTANT,
    USER,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
    joined_text,
)

NO_RESULT = "[no result]"


def normalize_history(
    turns: Sequence[Turn], losses: list[Loss], *, strict: bool = False, repair: bool = False
) -> list[Turn]:
    """Return the turns in order; what had to be changed is added to `losses`.

    Raises:
        MalformedError: a result answers no call (unless `repair`), or a call has no result (if `strict`).
    """
    if _is_orderly(turns):
        return list(turns)
    normalized: list[Turn] = []
    used: dict[str, int] = {}  # ids that calls have, and how often each was asked for again
    at, count = 0, len(turns)
    while at < count:
        turn = turns[at]
        at += 1
        if turn.role is not ASSISTANT:
            normalized.append(_without_results(turn, losses, repair=repair))
            continue
        calls = [part.id for part in turn.parts if type(part) is ToolCallPart]
        if not calls:
            normalized.append(turn)
            continue
        if at < count and _is_answered(calls, turns[at], used):
            for call_id in calls:
                used[call_id] = 0
            normalized.append(turn)
            normalized.append(turns[at])
            at += 1
            continue
        renamed, names = _rename(turn, used, losses)
        normalized.append(renamed)
        # Any turn before the next assistant turn may hold its results.
        following: list[Turn] = []
        while at < count and turns[at].role is not ASSISTANT:
            following.append(turns[at])
            at += 1
        results, rest = _collect(following, names, losses, repair=repair)
        ordered = _in_call_order(renamed, results, losses, strict=strict)
        normalized.append(Turn(USER, ordered, path=following[0].path if following else turn.path))
        normalized += rest
    return _joined(normalized)


def _is_orderly(turns: Sequence[Turn]) -> bool:
    """Return whether nothing is to be done: one call at a time, with a unique id, then its result.

    Fast check. False negatives are fine: the caller then takes the full path.
    """
    ids: list[str] = []
    waiting = ""  # the id of the call that has no result yet
    after = False  # results of calls came directly before
    for turn in turns:
        parts = turn.parts
        if turn.role is ASSISTANT:
            if waiting:
                return False
            for part in parts:
                if type(part) is ToolCallPart:
                    if waiting or not part.id:
                        return False
                    waiting = part.id
                    ids.append(waiting)
            after = False
        elif waiting:
            first = parts[0] if parts else None
            if type(first) is not ToolResultPart or first.call_id != waiting or turn.name:
                return False
            if len(parts) > 1 and _has_results(parts[1:]):
                return False
            after, waiting = True, ""
        elif after or _has_results(parts):
            return False
    return not waiting and len(set(ids)) == len(ids)


def _is_answered(calls: Sequence[str], after: Turn, used: Mapping[str, int]) -> bool:
    """Return whether the ids are unique and the next turn begins with the results in order."""
    parts, count = after.parts, len(calls)
    if after.role is not USER or after.name or len(parts) < count:
        return False
    for at, call_id in enumerate(calls):
        part = parts[at]
        if type(part) is not ToolResultPart or part.call_id != call_id or call_id in used:
            return False
    apart = count == 1 or len(set(calls)) == count
    return apart and (len(parts) == count or not _has_results(parts[count:]))


def _has_results(parts: Iterable[Part]) -> bool:
    for part in parts:  # noqa: SIM110 -- `any` costs a generator for every turn
        if type(part) is ToolResultPart:
            return True
    return False


def _rename(
    turn: Turn, used: dict[str, int], losses: list[Loss]
) -> tuple[Turn, dict[str, deque[str]]]:
    """Give each call a unique id; return the new ids, in call order, by the old ones."""
    names: dict[str, deque[str]] = {}
    parts: list[Part] = []
    renamed = False
    for part in turn.parts:
        if isinstance(part, ToolCallPart):
            fresh = part.id
            while fresh in used:
                used[part.id] += 1
                fresh = f"{part.id}_{used[part.id]}"
            used[fresh] = 0
            names.setdefault(part.id, deque()).append(fresh)
            if fresh != part.id:
                losses.append(Loss("call_id_renumbered", turn.path, f"{part.id} became {fresh}"))
                part = structs.replace(part, id=fresh)  # noqa: PLW2901
                renamed = True
        parts.append(part)
    return structs.replace(turn, parts=tuple(parts)) if renamed else turn, names


def _collect(
    following: Sequence[Turn], names: dict[str, deque[str]], losses: list[Loss], *, repair: bool
) -> tuple[dict[str, ToolResultPart], list[Turn]]:
    """Take the results of one assistant turn out of the turns that follow it.

    Where calls share an id, the first result goes to the first of them.
    """
    results: dict[str, ToolResultPart] = {}
    rest: list[Turn] = []
    for turn in following:
        others: list[Part] = []
        for part in turn.parts:
            if isinstance(part, ToolResultPart) and names.get(part.call_id):
                fresh = names[part.call_id].popleft()
                changed = fresh != part.call_id
                results[fresh] = structs.replace(part, call_id=fresh) if changed else part
            else:
                others.append(part)
        if others:
            left = structs.replace(turn, parts=tuple(others))
            rest.append(_without_results(left, losses, repair=repair))
    return results, rest


def _in_call_order(
    turn: Turn, results: dict[str, ToolResultPart], losses: list[Loss], *, strict: bool
) -> tuple[Part, ...]:
    ordered: list[Part] = []
    for part in turn.parts:
        if not isinstance(part, ToolCallPart):
            continue
        result = results.get(part.id)
        if result is None:
            if strict:
                raise MalformedError(f"tool call `{part.id}` has no result", path=turn.path)
            losses.append(Loss("tool_result_missing", turn.path, part.id))
            result = ToolResultPart(part.id, (TextPart(NO_RESULT),), True, part.flavor)
        ordered.append(result)
    return tuple(ordered)


def _without_results(turn: Turn, losses: list[Loss], *, repair: bool) -> Turn:
    """Refuse, or turn into text, results that answer no call."""
    if not _has_results(turn.parts):
        return turn
    parts: list[Part] = []
    for part in turn.parts:
        if not isinstance(part, ToolResultPart):
            parts.append(part)
            continue
        if not repair:
            reason = f"tool result for `{part.call_id}`, which no call before it has as its id"
            raise MalformedError(reason, path=turn.path, code="tool_result_orphaned")
        losses.append(Loss("tool_result_orphaned", turn.path, part.call_id))
        parts.append(TextPart(f"[result of tool call {part.call_id}]\n{joined_text(part.parts)}"))
        parts.extend(other for other in part.parts if not isinstance(other, TextPart))
    return structs.replace(turn, parts=tuple(parts))


def _joined(turns: Sequence[Turn]) -> list[Turn]:
    """Join a user turn to the results directly before it: they are one turn of the conversation."""
    runs: list[list[Turn]] = []
    for turn in turns:
        first = runs[-1][0] if runs else None
        if first is not None and first.role is turn.role is USER and _has_results(first.parts[:1]):
            runs[-1].append(turn)
        else:
            runs.append([turn])
    return [
        run[-1]
        if len(run) == 1
        else structs.replace(run[-1], parts=tuple(part for turn in run for part in turn.parts))
        for run in runs
    ]
