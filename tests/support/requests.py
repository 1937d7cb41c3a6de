"""Requests as real agents send them, and what becomes of them for an upstream of each dialect.

A case is a folder: `request.json` is the body, `case.json` says who sent it and where to, `as/<dialect>.json`
is the body that an upstream gets, and `as/<dialect>.losses` what it cannot express.  In their place
`as/<dialect>.refused` has the reason why no such upstream gets the request.
"""

from pathlib import Path
from typing import Any

import msgspec

from dragoman.errors import UntranslatableError
from dragoman.translate_requests import TranslatedRequest, translate_request
from dragoman.turn.request import Request

ROOT = Path(__file__).parent.parent / "corpus" / "requests"
# An upstream of each dialect that can say all that the dialect can.
PROFILES = {
    "chat": "generic",
    "anthropic": "anthropic",
    "responses": "openai",
    "gemini": "gemini-api",
}


class RequestCase:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.body = (folder / "request.json").read_bytes()
        self.facts: dict[str, Any] = msgspec.json.decode((folder / "case.json").read_bytes())

    def __str__(self) -> str:
        return self.folder.name

    @property
    def dialect(self) -> str:
        return self.facts["dialect"]

    def sent(self, target: str) -> TranslatedRequest:
        return translate_request(
            self.body, source=self.dialect, target=target, profile=PROFILES[target], model="m"
        )

    def becomes(self, target: str) -> dict[str, bytes]:
        """Return what is kept of a translation, by the ending of the file's name."""
        try:
            sent = self.sent(target)
        except UntranslatableError as error:
            return {"refused": f"{error}\n".encode()}
        body = msgspec.json.format(sent.body, indent=1) + b"\n"
        losses = b"".join(f"{one.code} {one.path}\n".encode() for one in sent.losses)
        return {"json": body, "losses": losses}

    def kept(self, target: str) -> dict[str, bytes]:
        """Return what the case expects of a translation."""
        files = sorted((self.folder / "as").glob(f"{target}.*"))
        return {one.suffix[1:]: one.read_bytes() for one in files}


def cases() -> list[RequestCase]:
    return [RequestCase(folder) for folder in sorted(ROOT.iterdir())]


def names_of(request: Request) -> set[str]:
    """Return the names of the tools that a client runs itself."""
    return {tool.name for tool in request.tools if not tool.server}
