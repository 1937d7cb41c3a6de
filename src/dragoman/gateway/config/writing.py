"""A first file for a chosen vendor, with a word on everything that people change next."""

from dragoman.errors import ConfigError
from dragoman.gateway.config.mistakes import did_you_mean
from dragoman.gateway.config.settings import DEFAULT_HOST, DEFAULT_PORT
from dragoman.gateway.config.showing import toml_value
from dragoman.gateway.config.vendors import ALIASES, VENDORS, Vendor, find_vendor
from dragoman.turn.request import DialectName


def first_file(
    vendor_name: str, *, model: str = "", dialect: DialectName | None = None, base_url: str = ""
) -> str:
    """Return the text of a file that sends every request to one vendor.

    Raises:
        ConfigError: there is no such vendor, or it does not speak that dialect.
    """
    vendor = chosen_vendor(vendor_name)
    spoken = dialect or vendor.dialect
    address = base_url or _address(vendor, spoken)
    target = f"{vendor.name}/{model or vendor.model}"
    return _TEXT.format(
        host=toml_value(DEFAULT_HOST),
        port=DEFAULT_PORT,
        says=vendor.says,
        name=vendor.name,
        base_url=toml_value(address),
        dialect=toml_value(spoken),
        key=_key_lines(vendor),
        profile=toml_value(vendor.profile),
        target=toml_value([target]),
        first=toml_value(target),
        remark=_remark(target),
    )


def chosen_vendor(name: str) -> Vendor:
    """Return a vendor by its name.

    Raises:
        ConfigError: there is none of that name.
    """
    vendor = find_vendor(name)
    if vendor is None:
        near = did_you_mean(name, [*VENDORS, *ALIASES])
        raise ConfigError(f"no vendor `{name}`; {near or 'there are ' + ', '.join(VENDORS)}")
    return vendor


def _address(vendor: Vendor, dialect: DialectName) -> str:
    if dialect == vendor.dialect:
        return vendor.base_url
    if dialect not in vendor.others:
        known = ", ".join([vendor.dialect, *vendor.others])
        raise ConfigError(f"{vendor.name} is not known to speak `{dialect}`; it speaks {known}")
    return vendor.others[dialect] or vendor.base_url


def _key_lines(vendor: Vendor) -> str:
    variable = vendor.key_variable
    if not variable:
        return '# It asks for no key; if yours does: key = "env:NAME"'
    return (
        f"# The key is in this variable: export it, or write {variable}=… into a file `.env` here.\n"
        f'key = "env:{variable}"'
    )


def _remark(target: str) -> str:
    if target.endswith("/*"):
        return "# `*` keeps the name that the client asks for; name a model to have it for every client."
    return (
        "# The model as the upstream calls it.  More targets in the list are tried in their order."
    )


_TEXT = """\
# Settings of the Dragoman gateway.
# `dragoman config check` looks for mistakes, `dragoman config show --defaults` lists every key in force,
# `dragoman serve` starts the gateway.

[server]
host = {host}
port = {port}
# Who may use the gateway.  Without keys it serves this machine alone.
# keys = ["env:DRAGOMAN_KEY"]

# {says}.
[upstreams.{name}]
# What stands before `/chat/completions`, `/messages` or `/responses`.
base_url = {base_url}
dialect = {dialect}
{key}
# What the server can and cannot do.
profile = {profile}
# Tool calls that the model writes as text: `auto` knows the family by the model's name.
format = "auto"

# The first route that matches wins.
# [[routes]]
# match = {{ model = "claude-*haiku*" }}    # small tasks of Claude Code: name a cheaper model
# to = [{first}]

[[routes]]
match = {{ model = "*" }}
{remark}
to = {target}

# Names of your own for models.
# [aliases]
# "gpt-5" = "claude-sonnet-4-5"

# What agents should know of a model, by the name that they ask for.
# [models."claude-*"]
# context = 200000
# output = 32000

# [log]
# format = "json"    # `auto`: readable on a terminal, JSON elsewhere
# level = "info"
"""
