"""The probe itself: it measures how long a server keeps its clients waiting."""

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.support.health_probe import idle_gap, probing


class Slow(BaseHTTPRequestHandler):
    """Answers at once, except for one answer that takes a second."""

    protocol_version = "HTTP/1.1"
    blocked = False

    def do_GET(self) -> None:
        if Slow.blocked:
            Slow.blocked = False
            time.sleep(1)
        body = b'{"status":"ok"}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def test_probe_reports_the_slowest_answer_alone() -> None:
    server = HTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        idle = idle_gap(url)
        with probing(url, os.getpid()) as probe:
            time.sleep(0.2)
            Slow.blocked = True
            time.sleep(0.2)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)

    assert 1 <= probe.worst < 60
    assert 0.5 < probe.worst_busy  # a server that sleeps serves no other client
    assert idle < probe.worst
    assert probe.asked > 1
