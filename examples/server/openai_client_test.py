"""Drives the server with the openai package: openai_client_test.py SERVER MODEL_FOLDER.

Run by ctest where the configured Python has the package (pip install openai).
"""

import asyncio
import base64
import sys
import threading
import unittest

import openai
from server_process import MODEL, Process, body_of, prompts


class OpenAiClientTest(unittest.TestCase):
    def setUp(self):
        self.server = Process("--queue", "8")
        self.url = f"http://127.0.0.1:{self.server.port}/v1"
        self.client = openai.OpenAI(base_url=self.url, api_key="none", max_retries=0)

    def tearDown(self):
        self.client.close()
        self.assertEqual(self.server.stop(), 0)

    def ask(self, prompt: dict, **options):
        return self.client.chat.completions.create(**body_of(prompt, **options))

    def test_lists_the_model(self):
        self.assertEqual([model.id for model in self.client.models.list()], [MODEL.name])

    def test_chats_with_pictures(self):
        for pictures in (1, 2, 8):
            for prompt in prompts(pictures, 4):
                answer = self.ask(prompt)
                self.assertEqual(answer.choices[0].message.content, prompt["reference_answer"])
                self.assertEqual(answer.choices[0].finish_reason, "length")
                self.assertEqual(answer.usage.completion_tokens, 1)
                self.assertGreater(answer.usage.prompt_tokens, pictures)

    def test_a_conversation_that_goes_on_is_prefilled_where_it_is_new(self):
        body = body_of(prompts(4, 1)[0])
        first = self.client.chat.completions.create(**body)
        body["messages"] += [{"role": "assistant", "content": first.choices[0].message.content},
                             {"role": "user", "content": "Are you sure?"}]  # fmt: skip
        second = self.client.chat.completions.create(**body)
        self.assertEqual(first.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, first.usage.prompt_tokens // 2)
        self.assertEqual(self.server.metric("encoded_units_total"), 4)

    def test_chats_without_pictures(self):
        answer = self.client.chat.completions.create(
            model="digits", max_tokens=1, messages=[{"role": "system", "content": "Short answers."},
                                                    {"role": "user", "content": "Hello"}])  # fmt: skip
        self.assertEqual(answer.usage.completion_tokens, 1)

    def test_streams(self):
        prompt = prompts(4, 1)[0]
        with self.ask(prompt, stream=True, stream_options={"include_usage": True}) as stream:
            chunks = list(stream)
        said = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        self.assertEqual(said, prompt["reference_answer"])
        self.assertEqual(chunks[-1].usage.completion_tokens, 1)

    def test_a_stream_that_is_closed_early_frees_the_request(self):
        self.ask(prompts(8, 1)[0], stream=True).close()
        while self.server.metric("open_requests") > 0:
            pass
        self.assertTrue(self.ask(prompts(1, 1)[0]).choices)

    def test_errors_are_the_classes_that_clients_catch(self):
        prompt = prompts(1, 1)[0]
        with self.assertRaisesRegex(openai.BadRequestError, "temperature"):
            self.ask(prompt, temperature=-1)
        url = "data:image/png;base64," + base64.b64encode(b"not a picture").decode()
        image = {"type": "image_url", "image_url": {"url": url}}
        with self.assertRaisesRegex(openai.BadRequestError, "picture 0"):
            self.client.chat.completions.create(
                model="digits", max_tokens=1, messages=[{"role": "user", "content": [image]}])  # fmt: skip
        with self.assertRaises(openai.APIStatusError) as too_long:
            self.client.chat.completions.create(
                model="digits", max_tokens=1, messages=[{"role": "user", "content": "word " * 20000}])  # fmt: skip
        self.assertEqual(too_long.exception.status_code, 413)
        self.assertIn("max_prompt_tokens", too_long.exception.message)
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model="digits", input="x")
        self.assertIsNotNone(too_long.exception.request_id)

    def test_a_timeout_of_the_client_cancels(self):
        prompt = prompts(8, 1)[0]
        with self.assertRaises(openai.APITimeoutError):
            self.client.with_options(timeout=1e-3).chat.completions.create(**body_of(prompt))
        while self.server.metric("open_requests") > 0:
            pass
        self.assertEqual(self.ask(prompt).choices[0].message.content, prompt["reference_answer"])

    def test_refused_clients_come_back_by_themselves(self):
        prompt = prompts(8, 1)[0]
        client = openai.OpenAI(base_url=self.url, api_key="none", max_retries=100)
        answers, refused = [], []

        def send():
            for _ in range(3):
                answers.append(client.chat.completions.create(**body_of(prompt)).choices[0].message.content)

        def send_once():
            try:
                self.ask(prompt)
            except openai.RateLimitError as error:
                refused.append(error.response.headers["Retry-After"])

        threads = [threading.Thread(target=send) for _ in range(16)]
        threads += [threading.Thread(target=send_once) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
        self.assertEqual(answers, [prompt["reference_answer"]] * 48)
        self.assertTrue(all(int(seconds) >= 1 for seconds in refused))

    def test_the_asynchronous_client_has_several_under_way(self):
        async def run():
            async with openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=100) as client:
                return await asyncio.gather(
                    *(client.chat.completions.create(**body_of(prompt)) for prompt in asked))  # fmt: skip

        asked = prompts(2, 8)
        said = [answer.choices[0].message.content for answer in asyncio.run(run())]
        self.assertEqual(said, [prompt["reference_answer"] for prompt in asked])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
