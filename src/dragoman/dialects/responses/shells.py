"""Shell and patch tools: between the dialect's own items and plain arguments.

In the turn their calls have the arguments of a function, so that any model can make them; these are
the schemas, and the way from an item's `action` or `operation` to arguments and back.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.responses.schema import NULL
from dragoman.turn.events import Flavor


class Shell(Struct, frozen=True):
    """One built-in tool that the client runs."""

    flavor: Flavor
    call_type: str
    output_type: str
    id_prefix: str
    description: str
    schema: Raw


_LOCAL_SHELL_SCHEMA: Final = (
    b'{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}},'
    b'"workdir":{"type":"string"},"timeout_ms":{"type":"integer"},"env":{"type":"object",'
    b'"additionalProperties":{"type":"string"}}},"required":["command"]}'
)
_SHELL_SCHEMA: Final = (
    b'{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"}},'
    b'"timeout_ms":{"type":"integer"},"max_output_length":{"type":"integer"}},'
    b'"required":["commands"]}'
)
_PATCH_SCHEMA: Final = (
    b'{"type":"object","properties":{"operation":{"type":"object","properties":{"type":{"type":'
    b'"string","enum":["create_file","update_file","delete_file"]},"path":{"type":"string"},'
    b'"diff":{"type":"string"}},"required":["type","path"]}},"required":["operation"]}'
)

SHELLS: Final[dict[str, Shell]] = {
    "local_shell": Shell(
        Flavor.LOCAL_SHELL,
        "local_shell_call",
        "local_shell_call_output",
        "lsh_",
        "Run a command on the user's machine and return its output.",
        Raw(_LOCAL_SHELL_SCHEMA),
    ),
    "shell": Shell(
        Flavor.SHELL,
        "shell_call",
        "shell_call_output",
        "sh_",
        "Run shell commands and return their output.",
        Raw(_SHELL_SCHEMA),
    ),
    "apply_patch": Shell(
        Flavor.APPLY_PATCH,
        "apply_patch_call",
        "apply_patch_call_output",
        "apc_",
        "Create, update or delete a file; `diff` is a V4A diff of its content.",
        Raw(_PATCH_SCHEMA),
    ),
}
BY_FLAVOR: Final = {shell.flavor: shell for shell in SHELLS.values()}
NAME_BY_CALL: Final = {shell.call_type: name for name, shell in SHELLS.items()}

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_TEXTS: Final = msgspec.json.Decoder(list[str])


def arguments_of(flavor: Flavor, content: Raw) -> str:
    """Return the arguments that an item's `action` or `operation` says."""
    if flavor is Flavor.APPLY_PATCH:
        return f'{{"operation":{bytes(content).decode()}}}'
    if flavor is Flavor.SHELL:
        return bytes(content).decode()
    try:
        action = _OBJECT.decode(content)
    except (msgspec.DecodeError, UnicodeError):
        return bytes(content).decode()
    renamed = {("workdir" if key == "working_directory" else key): action[key] for key in action}
    kept = {key: value for key, value in renamed.items() if key != "type" and value != NULL}
    return msgspec.json.encode(kept).decode()


def content_of(flavor: Flavor, arguments: str) -> Raw | None:
    """Return the `action` or `operation` that arguments say, or None if they do not fit."""
    try:
        given = _OBJECT.decode(arguments)
        if flavor is Flavor.LOCAL_SHELL:
            _TEXTS.decode(given["command"])
            return _local_action(given)
        if flavor is Flavor.SHELL:
            _TEXTS.decode(given["commands"])
            return Raw(msgspec.json.encode(given))
        operation = given.get("operation")
        if operation is None:  # the operation itself, without the object around it
            operation = Raw(msgspec.json.encode(given))
        fields = _OBJECT.decode(operation)
    except (msgspec.DecodeError, UnicodeError, KeyError):
        return None
    return operation if {"type", "path"} <= fields.keys() else None


def _local_action(given: dict[str, Raw]) -> Raw:
    action: dict[str, Raw] = {"type": Raw(b'"exec"'), "command": given["command"]}
    for name in ("env", "timeout_ms", "working_directory", "user"):
        if name in given:
            action[name] = given[name]
    if "workdir" in given:
        action["working_directory"] = given["workdir"]
    action.setdefault("env", Raw(b"{}"))
    return Raw(msgspec.json.encode(action))
