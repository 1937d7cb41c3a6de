"""A floor: nginx, which forwards bytes, if this machine has it."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tools.bench.processes import Bench, Server, end

_START_SECONDS: Final = 10.0
_SETTINGS: Final = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_max_body_size 64m;
    client_body_buffer_size 2m;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000;
    upstream bench {{ server {upstream}; keepalive 512; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            rewrite ^ /v1/chat/completions break;
            proxy_pass http://bench;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


@contextmanager
def nginx(bench: Bench) -> Iterator[Server]:
    """Run nginx in one process, on the measured core.

    Raises:
        RuntimeError: it is not on PATH, or does not start.
    """
    program = shutil.which("nginx")
    if program is None:
        raise RuntimeError("not on PATH")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    folder = bench.folder / "nginx"
    folder.mkdir()
    upstream = bench.address.removeprefix("http://").partition("/")[0]
    settings = folder / "nginx.conf"
    settings.write_text(
        _SETTINGS.format(folder=folder, upstream=upstream, port=port), encoding="utf-8"
    )
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [program, "-p", str(folder), "-c", str(settings)], stdout=log, stderr=log
        ) as child,
    ):
        try:
            bench.cores.pin(child.pid, measured=True)
            _wait(port)
            yield Server(child.pid, port, relays=True)
        finally:
            end(child)


def _wait(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError("it does not start")
