"""The server as a process of its own, and requests for it, for the tests beside this file."""

import base64
import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path

SERVER, MODEL = sys.argv[1], Path(sys.argv[2])


def prompts(pictures: int, count: int) -> list[dict]:
    with open(MODEL / "eval" / "prompts.jsonl") as lines:
        found = [prompt for prompt in map(json.loads, lines) if len(prompt["pictures"]) == pictures]
    return found[:count]


def body_of(prompt: dict, **options) -> dict:
    parts = []
    for name in prompt["pictures"]:
        data = base64.b64encode((MODEL / "eval" / name).read_bytes()).decode()
        parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}})
    parts.append({"type": "text", "text": prompt["question"]})
    return {"model": "digits", "messages": [{"role": "user", "content": parts}], "max_tokens": 1, **options}


class Process:
    def __init__(self, *arguments: str):
        self.process = subprocess.Popen([SERVER, str(MODEL), "--port", "0", *arguments],
                                        stdout=subprocess.PIPE, text=True)  # fmt: skip
        line = self.process.stdout.readline()
        self.port = int(line.rsplit(":", 1)[1])

    def call(self, method: str, path: str, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection.request(method, path, data, headers or {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, response.headers, text

    def chat(self, body):
        status, headers, text = self.call("POST", "/v1/chat/completions", body)
        return status, headers, json.loads(text)

    def metric(self, name: str) -> int:
        for line in self.call("GET", "/metrics")[2].splitlines():
            if line.startswith(f"rserve_{name} "):
                return int(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=120)
        self.process.stdout.close()
        return code
