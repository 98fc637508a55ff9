"""Drives the server as its clients do: server_test.py SERVER MODEL_FOLDER.

No fixed port (the server says which one it got) and no sleeps: what has to be waited for is asked for.
"""

import json
import shutil
import socket
import subprocess
import sys
import threading
import unittest

from server_process import MODEL, Process, body_of, prompts

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class ServerTest(unittest.TestCase):
    def setUp(self):
        self.server = Process("--queue", "8")

    def tearDown(self):
        if self.server.process.poll() is None:
            self.assertEqual(self.server.stop(), 0)

    def test_answers_as_the_reference_does(self):
        for prompt in prompts(3, 3):
            status, headers, answer = self.server.chat(body_of(prompt))
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["choices"][0]["message"]["content"], prompt["reference_answer"])
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
            self.assertEqual(answer["usage"]["completion_tokens"], 1)
            self.assertEqual(answer["object"], "chat.completion")
            self.assertEqual(headers["X-Request-Id"], answer["id"])

    def test_streams_the_answer(self):
        prompt = prompts(2, 1)[0]
        status, headers, text = self.server.call(
            "POST", "/v1/chat/completions",
            body_of(prompt, stream=True, stream_options={"include_usage": True}))  # fmt: skip
        self.assertEqual(status, 200)
        self.assertIn("text/event-stream", headers["Content-Type"])
        pieces = [line[6:] for line in text.split("\n\n") if line]
        self.assertEqual(pieces[-1], "[DONE]")
        chunks = [json.loads(piece) for piece in pieces[:-1]]
        said = "".join(c["delta"].get("content", "") for chunk in chunks for c in chunk["choices"])
        self.assertEqual(said, prompt["reference_answer"])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 1)

    def test_serves_models_health_metrics_and_a_page(self):
        self.assertEqual(self.server.call("GET", "/health")[0], 200)
        models = json.loads(self.server.call("GET", "/v1/models")[2])
        self.assertEqual([model["id"] for model in models["data"]], [MODEL.name])
        self.server.chat(body_of(prompts(1, 1)[0]))
        metrics = self.server.call("GET", "/metrics")[2]
        for name in ("ttft_seconds_bucket", "media_seconds_count 1", "encode_seconds_sum", "queue_wait_seconds_count 1",
                     "open_requests 0", "cache_misses_total 1", "cache_hits_total 0", 'http_responses_total{code="200"}'):  # fmt: skip
            self.assertIn(f"rserve_{name}", metrics)
        self.assertIn("<title>rserve</title>", self.server.call("GET", "/")[2])
        self.assertEqual(len(json.loads(self.server.call("GET", "/recent")[2])["requests"]), 1)

    @unittest.skipUnless(BROWSER, "no chromium or chrome here")
    def test_the_page_draws_the_last_requests_in_a_browser(self):
        for prompt in prompts(4, 3):
            self.server.chat(body_of(prompt))
        page = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom",
             f"http://127.0.0.1:{self.server.port}/"],
            capture_output=True, text=True, check=True, timeout=120).stdout  # fmt: skip
        self.assertIn("0 open, 3 answered", page)
        self.assertIn(f'<span id="model">{MODEL.name}</span>', page)
        self.assertEqual(page.count('class="row"'), 3)
        self.assertEqual(page.count('class="bar encode"'), 3)
        self.assertEqual(page.count('class="bar prefill"'), 3)

    def test_bad_requests_are_told_what_is_wrong_with_them(self):
        good = body_of(prompts(1, 1)[0])
        image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        cases = [
            (b"{", 400, "JSON object"),
            (b"[]", 400, "JSON object"),
            ({}, 400, "messages"),
            ({**good, "n": 2}, 400, "one choice"),
            ({**good, "max_tokens": 0}, 400, "max_tokens"),
            ({**good, "temperature": "hot"}, 400, "temperature"),
            ({**good, "tools": [{"type": "function"}]}, 400, "tools"),
            ({"messages": [{"role": "user", "content": [image]}]}, 400, "not fetched"),
            ({"messages": [{"role": "user", "content": [broken]}]}, 400, "picture 0"),
            ({"messages": [{"role": "robot", "content": "hi"}]}, 400, "robot"),
            ({"messages": [{"role": "user", "content": "word " * 20000}]}, 413, "max_prompt_tokens"),
        ]
        ids = set()
        for body, code, words in cases:
            status, headers, answer = self.server.chat(body)
            self.assertEqual(status, code, answer)
            self.assertIn(words, answer["error"]["message"])
            ids.add(headers["X-Request-Id"])
        self.assertEqual(len(ids - {None}), len(cases))
        self.assertEqual(self.server.call("GET", "/nowhere")[0], 404)
        self.assertEqual(self.server.chat(good)[0], 200)

    def test_more_than_the_queue_holds_gets_429_and_nothing_is_lost(self):
        prompt = prompts(8, 1)[0]
        results, lock = [], threading.Lock()

        def send():
            for _ in range(5):
                status, headers, answer = self.server.chat(body_of(prompt))
                with lock:
                    results.append((status, headers.get("Retry-After"), answer))

        threads = [threading.Thread(target=send) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 120)
        self.assertEqual({status for status, _, _ in results} - {200, 429}, set())
        for status, retry, answer in results:
            if status == 429:
                self.assertIsNotNone(retry)
                self.assertIn("queue_requests", answer["error"]["message"])
            else:
                self.assertEqual(answer["choices"][0]["message"]["content"], prompt["reference_answer"])
        self.assertGreater(sum(status == 200 for status, _, _ in results), 0)
        self.assertEqual(self.server.metric("open_requests"), 0)

    def test_a_client_that_goes_away_frees_what_it_held(self):
        body = json.dumps(body_of(prompts(8, 1)[0])).encode()
        for _ in range(8):
            with socket.create_connection(("127.0.0.1", self.server.port)) as client:
                head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                client.sendall(head.encode() + body)
        ends = ("finished", "failed", "cancelled", "refused")
        while sum(self.server.metric(f"requests_{end}_total") for end in ends) < 8:
            pass
        self.assertEqual(self.server.metric("open_requests"), 0)
        self.assertEqual(self.server.chat(body_of(prompts(1, 1)[0]))[0], 200)

    def test_sigterm_answers_what_is_open_and_ends(self):
        prompt = prompts(8, 1)[0]
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(self.server.chat(body_of(prompt))[0]))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads[:1]:
            thread.join()  # at least one is through, the others are where they are
        code = self.server.stop()
        for thread in threads:
            thread.join()
        self.assertEqual(code, 0)
        self.assertEqual(len(answers), 4)
        self.assertEqual(set(answers) - {200, 503}, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
