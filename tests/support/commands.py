"""`dragoman` in this process, which spares every test the imports of a new one."""

from typing import NamedTuple

from click.testing import CliRunner

from dragoman.cli.main import main


class Ran(NamedTuple):
    code: int
    out: bytes
    err: bytes


def run(*arguments: str, data: bytes | str = b"") -> Ran:
    """Run a command with this standard input."""
    done = CliRunner(catch_exceptions=False).invoke(main, arguments, input=data)
    return Ran(done.exit_code, done.stdout_bytes, done.stderr_bytes)
