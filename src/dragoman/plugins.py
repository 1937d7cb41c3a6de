"""What other installed packages offer to Dragoman: their entry points, loaded once, when they are first needed.

A package that cannot be loaded is reported by its name and affects no other package.  This module is not in
`toolcalls/`, its only user, because it looks at what is installed and catches every exception: the core does neither.
"""

from functools import cache

from msgspec import Struct


class Plugin(Struct, frozen=True):
    """One entry point of another package."""

    name: str
    package: str
    value: object = None  # the object that it refers to
    error: str = ""  # why it could not be loaded


@cache
def installed(group: str) -> tuple[Plugin, ...]:
    """Return the entry points of a group, loaded, in the order of their names."""
    # Imported here: it takes longer than most commands do, and few programs have plug-ins.
    from importlib.metadata import entry_points  # noqa: PLC0415

    found = []
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        package = entry.dist.name if entry.dist is not None else entry.value.partition(":")[0]
        try:
            found.append(Plugin(entry.name, package, entry.load()))
        except Exception as error:  # noqa: BLE001 -- a package may fail in any way while it is imported
            reason = f"{type(error).__name__}: {error}"
            found.append(Plugin(entry.name, package, error=reason))
    return tuple(found)
