"""The official SDKs for Node through a running gateway.  Collected only where they are: see conftest."""

import json
import subprocess
from pathlib import Path

from tests.support.gateway import FIXED_PATHS, Stand
from tests.support.node import folder

PROGRAM = Path(__file__).parent / "loops.cjs"


def test_node_sdks_loop_over_a_tool_in_all_directions(gateway: Stand) -> None:
    done = subprocess.run(
        ["node", PROGRAM, gateway.url, folder()],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    ways = [
        f"{one} {other} {way}"
        for one in FIXED_PATHS
        for other in FIXED_PATHS
        for way in ("true", "false")
    ]

    assert (0, "") == (done.returncode, done.stderr)
    printed = json.loads(done.stdout)
    assert sorted(ways) == sorted(printed)
    assert [[["get_weather", ["city"]]] * 2] * 18 == [one["calls"] for one in printed.values()]
    assert all("sunny" in one["text"] for one in printed.values())
