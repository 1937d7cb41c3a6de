"""How much memory a process holds."""

from pathlib import Path


def resident_bytes(process: int) -> int:
    """Return what the system has given a process and not got back."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096
