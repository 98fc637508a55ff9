#!/usr/bin/env python3
"""Puts the example server under more load than it can take, with ApacheBench, and says what came of it.

    scripts/server_load.py [--seconds 300] [--clients 64] [--queue 16]

Wants `ab` (Debian: apache2-utils) and a release build. Each client sends a chat with four pictures of
the shipped model's held-out set, over and over. At the end: answers by status code, time to first token,
and the growth of the server's memory over the second half of the run. Exit status 1 when a request got
anything but 200 or 429, one that was accepted was not answered, or memory grew by 1 MB a minute or more.
"""

import argparse
import base64
import http.client
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "digits"
SERVER = ROOT / "build" / "release" / "bin" / "example_server"


def body() -> bytes:
    with open(MODEL / "eval" / "prompts.jsonl") as lines:
        prompt = next(p for p in map(json.loads, lines) if len(p["pictures"]) == 4)
    parts = []
    for name in prompt["pictures"]:
        data = base64.b64encode((MODEL / "eval" / name).read_bytes()).decode()
        parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}})
    parts.append({"type": "text", "text": prompt["question"]})
    message = {"role": "user", "content": parts}
    return json.dumps({"model": "digits", "messages": [message], "max_tokens": 1}).encode()


def rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"process {pid} has no VmRSS")


def metrics(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    return connection.getresponse().read().decode()


def slope_kib_a_minute(samples: list[tuple[float, int]]) -> float:
    half = samples[len(samples) // 2 :]
    return statistics.linear_regression([t for t, _ in half], [kib for _, kib in half]).slope * 60


def watch(pid: int, samples: list[tuple[float, int]], ended: threading.Event) -> None:
    begin = time.monotonic()
    while not ended.wait(1.0):
        samples.append((time.monotonic() - begin, rss_kib(pid)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--queue", type=int, default=16)
    options = parser.parse_args()

    server = subprocess.Popen([SERVER, MODEL, "--port", "0", "--queue", str(options.queue), "--cache-mib", "0", "--kv-reuse", "0"],
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    samples: list[tuple[float, int]] = []
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(server.pid, samples, ended))
    watcher.start()
    with tempfile.NamedTemporaryFile(suffix=".json") as request:
        request.write(body())
        request.flush()
        load = subprocess.run(
            ["ab", "-q", "-l", "-k", "-t", str(options.seconds), "-n", "100000000", "-s", "120",
             "-c", str(options.clients), "-p", request.name, "-T", "application/json",
             f"http://127.0.0.1:{port}/v1/chat/completions"],
            capture_output=True, text=True, check=False)  # fmt: skip
    ended.set()
    watcher.join()
    text = metrics(port)
    server.send_signal(signal.SIGTERM)
    code = server.wait(timeout=120)

    print(load.stdout)
    print(load.stderr, file=sys.stderr)
    codes = {int(c): int(n) for c, n in re.findall(r'^rserve_http_responses_total\{code="(\d+)"\} (\d+)', text, re.M)}
    counts = {name: int(n) for name, n in re.findall(r"^rserve_requests_(\w+?)(?:_total)? (\d+)", text, re.M)}
    slope = slope_kib_a_minute(samples)
    print("responses by status:", codes)
    print("requests of the engine:", counts)
    print(f"resident memory: {samples[0][1]} KiB at first, {samples[len(samples) // 2][1]} half-way, "
          f"{samples[-1][1]} at the end; {slope:+.0f} KiB a minute over the second half")  # fmt: skip
    right = code == 0 and load.returncode == 0 and set(codes) <= {200, 429} and slope < 1024
    print("all as it should be" if right else f"NOT as it should be (server exit status {code})")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
