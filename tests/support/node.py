"""Node and the vendors' SDKs for it, if this machine has them: `make node-sdks` fetches them."""

import os
import shutil
from pathlib import Path

PACKAGES = ("openai", "@anthropic-ai/sdk")
VARIABLE = "DRAGOMAN_NODE_MODULES"


def folder() -> Path:
    """Return the folder in whose `node_modules` the packages are looked for."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "dragoman" / "node"


def missing() -> str:
    """Say what is missing; nothing, if the SDKs can be run."""
    if shutil.which("node") is None:
        return "there is no `node`"
    for package in PACKAGES:
        if not (folder() / "node_modules" / package).is_dir():
            return f"there is no `{package}`; `make node-sdks` fetches it"
    return ""
