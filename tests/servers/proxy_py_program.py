"""Serve proxy.py on any free port; runs in the servers' environment.

    proxy_py_program.py USER:PASSWORD

It prints `serving ADDRESS`, and ends with its standard input.
"""

import sys

from proxy import Proxy

options = ["--hostname", "127.0.0.1", "--port", "0", "--num-workers", "1", "--num-acceptors", "1"]
with Proxy([*options, "--basic-auth", sys.argv[1], "--log-level", "ERROR"]) as running:
    sys.stdout.write(f"serving http://127.0.0.1:{running.flags.port}\n")
    sys.stdout.flush()
    sys.stdin.read()
