"""A real server in a process of its own: explain, leave in the middle, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

PATIENCE = 120
"""Seconds after which the test gives up; none is spent where all is well."""
SLOW = {
    "model": "sentiment",
    "text": "good " * 250,
    "methods": ["attention_flow", "integrated_gradients", "occlusion", "smooth_grad"],
    "targets": "all",
}


class Server:
    def __init__(self) -> None:
        command = [sys.executable, "-m", "whence", "serve", "sentiment", "--port", "0", "--no-open"]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        line = self.process.stdout.readline()
        assert "whence is at" in line, line + self.process.stderr.read()
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", line)[1])

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def post(self, path, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def begin(self, body) -> socket.socket:
        """Send a request and do not wait for the answer."""
        data = json.dumps(body).encode()
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        head = f"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        opened.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return opened

    def until(self, **wanted):
        while True:
            health = self.get("/api/health")
            if all(health[k] == v for k, v in wanted.items()):
                return health


@pytest.fixture
def server():
    started = Server()
    yield started
    if started.process.poll() is None:
        started.process.kill()
    started.process.communicate()


def test_explain_leave_and_interrupt(server):
    answer = server.post("/api/explain", {"model": "sentiment", "text": "a gem"})
    assert answer["prediction"]["labels"][0] == "positive"

    client = server.begin(SLOW)
    server.until(running=1)
    client.close()
    health = server.until(cancelled=1, running=0)
    assert health["done"] == 1

    client = server.begin(SLOW)  # Ctrl-C in the middle of an explanation
    server.until(running=1)
    server.process.send_signal(signal.SIGINT)
    out, err = server.process.communicate(timeout=PATIENCE)
    assert server.process.returncode == 0
    assert "Traceback" not in out + err
    assert b"ending" in client.recv(65536)  # its client is told
    client.close()
