"""What every binding must do: submit, overlap events, cancel, bad input, shutdown in flight.

Run by ctest with RSERVE_LIBRARY, RSERVE_MODEL (the shipped digits model) and PYTHONPATH set.
"""

import array
import asyncio
import gc
import json
import os
import threading
import unittest
import weakref
import zlib
from pathlib import Path

import rserve
from rserve import EventType, Status

MODEL = Path(os.environ["RSERVE_MODEL"])


def prompts(pictures: int, count: int = 1) -> list[dict]:
    """Prompts of the evaluation set with so many pictures."""
    found = []
    with open(MODEL / "eval" / "prompts.jsonl") as lines:
        for line in lines:
            prompt = json.loads(line)
            if len(prompt["pictures"]) == pictures:
                found.append(prompt)
                if len(found) == count:
                    break
    return found


def parts_of(prompt: dict) -> list[rserve.Part]:
    files = [MODEL / "eval" / name for name in prompt["pictures"]]
    return [*(rserve.Image(file.read_bytes()) for file in files), prompt["question"]]


def png(width: int, height: int, rgb: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    rows = b"".join(b"\0" + rgb[y * width * 3 : (y + 1) * width * 3] for y in range(height))
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


class Grid(bytearray):
    """Bytes that a weak reference can watch."""


class ConformanceTest(unittest.TestCase):
    def engine(self, **options) -> rserve.Engine:
        options.setdefault("scheme", "rserve")  # whose workers do not depend on what is measured
        engine = rserve.Engine(str(MODEL), **options)
        self.addCleanup(engine.close)
        return engine

    def test_answers_as_the_reference_does_with_events_in_order(self):
        engine = self.engine(encode_batch_tokens=1)
        for prompt in prompts(4, 3):
            request = engine.submit(parts_of(prompt), chat=True, number_images=True, user_data=7)
            events = list(engine.events(request))
            kinds = [event.type for event in events]
            self.assertEqual(kinds[0], EventType.ACCEPTED)
            self.assertEqual(kinds[-1], EventType.FINISHED)
            self.assertEqual(kinds[-2], EventType.FIRST_TOKEN)
            self.assertEqual(sorted(e.item for e in events if e.type == EventType.ITEM_ENCODED), [0, 1, 2, 3])
            self.assertEqual(sorted(e.item for e in events if e.type == EventType.INPUT_RELEASED), [0, 1, 2, 3])
            self.assertEqual([event.terminal for event in events], [False] * (len(events) - 1) + [True])
            detail = engine.detail(request)
            self.assertEqual(engine.decode([detail.token]), prompt["reference_answer"])
            self.assertGreater(len(detail.tokens), 4)
            engine.acknowledge(request)
            with self.assertRaises(rserve.Error) as caught:
                engine.detail(request)
            self.assertEqual(caught.exception.status, Status.NOT_FOUND)

    def test_pixels_are_read_where_they_lie_and_then_let_go(self):
        width, height = 56, 60
        rgb = bytes((x * 7 + y * 3 + c * 50) % 256 for y in range(height) for x in range(width) for c in range(3))
        engine = self.engine()
        held = Grid(rgb)
        gone = weakref.ref(held)
        pixels = memoryview(held).cast("B", (height, width, 3))
        request = engine.submit([rserve.Pixels(pixels), "Which digit is in picture 1?"], chat=True, keep_logits=True)
        del held, pixels
        gc.collect()
        self.assertIsNotNone(gone(), "the engine still reads them")
        self.assertEqual(list(engine.events(request))[-1].type, EventType.FINISHED)
        gc.collect()
        self.assertIsNone(gone(), "the engine has let go")
        same = engine.submit([rserve.Image(png(width, height, rgb)), "Which digit is in picture 1?"], chat=True,
                             keep_logits=True)  # fmt: skip
        list(engine.events(same))
        self.assertEqual(engine.detail(request).logits, engine.detail(same).logits)

    def test_a_prompt_that_comes_again_reuses_its_kv_and_keeps_its_bits(self):
        engine = self.engine(kv_reuse=True, kv_block_tokens=4)

        def ask(salt: str = "") -> rserve.Detail:
            request = engine.submit(parts_of(prompts(4, 1)[0]), chat=True, keep_logits=True, cache_salt=salt)
            self.assertEqual(list(engine.events(request))[-1].type, EventType.FINISHED)
            return engine.detail(request)

        first, again, other = ask(), ask(), ask("another tenant")
        self.assertEqual((first.reused_tokens, other.reused_tokens), (0, 0))
        self.assertGreater(again.reused_tokens, 0)
        self.assertEqual(first.logits, again.logits)
        self.assertEqual(engine.stats()["reused_tokens"], again.reused_tokens)

    def test_frames_and_embeddings_are_taken_and_what_comes_again_is_cached(self):
        engine = self.engine(embedding_cache_bytes=1 << 20)

        def logits(part: rserve.Part, salt: str = "") -> list[float]:
            request = engine.submit([part, "?"], keep_logits=True, cache_salt=salt)
            self.assertEqual(list(engine.events(request))[-1].type, EventType.FINISHED)
            return engine.detail(request).logits

        video = memoryview(bytes(i * 7 % 251 for i in range(4 * 56 * 56))).cast("B", (4, 56, 56, 1))
        by_rate = logits(rserve.Frames(video, fps=1))
        self.assertEqual(logits(rserve.Frames(video, timestamps=[0, 1, 2, 3])), by_rate)
        self.assertNotEqual(logits(rserve.Frames(video, fps=20)), by_rate)
        stats = engine.stats()
        self.assertEqual((stats["cache_misses"], stats["cache_hits"]), (2, 4))
        logits(rserve.Frames(video, fps=1), salt="another tenant")
        self.assertEqual(engine.stats()["cache_misses"], 4)
        for faulty in (rserve.Frames(video), rserve.Frames(video, fps=1, timestamps=[0, 1, 2, 3])):
            with self.assertRaisesRegex(rserve.Error, "fps"):
                engine.submit([faulty])

        # Gray pixels are RGB pixels of equal channels; their own embeddings give their logits.
        gray = bytes(i * 11 % 253 for i in range(56 * 56))
        rgb = bytes(value for value in gray for _ in range(3))
        want = logits(rserve.Pixels(memoryview(gray).cast("B", (56, 56, 1))))
        self.assertEqual(logits(rserve.Pixels(memoryview(rgb).cast("B", (56, 56, 3)))), want)
        width = json.loads((MODEL / "config.json").read_text())["text_config"]["hidden_size"]
        zeros = memoryview(bytes(4 * width * 4)).cast("f", (4, width))
        supplied = logits(rserve.Embeddings(zeros, grid=(2, 2)))
        self.assertNotEqual(supplied, want)
        halves = memoryview(bytes(4 * width * 2)).cast("H", (4, width))
        self.assertEqual(logits(rserve.Embeddings(halves, grid=(2, 2), bfloat16=True)), supplied)
        with self.assertRaisesRegex(rserve.Error, "grid"):
            engine.submit([rserve.Embeddings(zeros, grid=(2, 3))])
        with self.assertRaisesRegex(ValueError, "float32"):
            engine.submit([rserve.Embeddings(halves, grid=(2, 2))])
        with self.assertRaisesRegex(ValueError, "channels"):
            engine.submit([rserve.Pixels(video)])

    def test_bad_input_names_value_and_limit_and_leaves_the_engine_serving(self):
        with self.assertRaises(rserve.Error) as caught:
            rserve.Engine("/nowhere/at/all")
        self.assertEqual(caught.exception.status, Status.NOT_FOUND)
        self.assertIn("/nowhere/at/all", caught.exception.message)
        with self.assertRaisesRegex(rserve.Error, "scheme"):
            rserve.Engine(str(MODEL), scheme="fastest")
        with self.assertRaisesRegex(TypeError, "token_budgets"):
            rserve.Engine(str(MODEL), token_budgets=1)
        engine = self.engine(max_prompt_tokens=100)
        for bad, words in (
            ([rserve.Image(b"not a picture")], "picture 0"),
            (["word " * 500], "max_prompt_tokens"),
            ([[10**6]], "1000000"),
            ([], "prompt is empty"),
        ):
            with self.subTest(words=words), self.assertRaisesRegex(rserve.Error, words):
                engine.submit(bad)
        with self.assertRaisesRegex(ValueError, "height, width, channels"):
            engine.submit([rserve.Pixels(bytes(12))])
        with self.assertRaisesRegex(TypeError, "Image"):
            engine.submit([b"bytes"])
        damaged = png(56, 56, bytes(56 * 56 * 3))[:-40]
        request = engine.submit([rserve.Image(damaged), "Which digit is in picture 1?"], chat=True)
        self.assertEqual(list(engine.events(request))[-1].type, EventType.FAILED)
        self.assertNotEqual(engine.detail(request).message, "")
        request = engine.submit(["Hello"], chat=True)
        self.assertEqual(list(engine.events(request))[-1].type, EventType.FINISHED)

    def test_cancel_and_timeout_end_a_request_once(self):
        engine = self.engine()
        request = engine.submit(parts_of(prompts(8)[0]), chat=True, number_images=True)
        engine.cancel(request)
        ends = [event for event in engine.events(request) if event.terminal]
        self.assertEqual(len(ends), 1)
        self.assertIn(ends[0].type, (EventType.CANCELLED, EventType.FINISHED))
        with self.assertRaises(rserve.Error):
            engine.cancel(request)
        late = engine.submit(parts_of(prompts(8)[0]), chat=True, number_images=True, timeout=1e-9)
        end = list(engine.events(late))[-1]
        self.assertEqual((end.type, end.status), (EventType.FAILED, Status.DEADLINE_EXCEEDED))

    def test_many_requests_from_many_threads_and_two_engines(self):
        engines = [self.engine(threads=1), self.engine(scheme="epd", threads=1)]
        wanted = prompts(2, 20)
        for engine in engines:
            submitted: dict[int, dict] = {}
            lock = threading.Lock()

            def send(mine, engine=engine, submitted=submitted, lock=lock):
                for prompt in mine:
                    number = engine.submit(parts_of(prompt), chat=True, number_images=True)
                    with lock:
                        submitted[number] = prompt

            threads = [threading.Thread(target=send, args=(wanted[i::4],)) for i in range(4)]
            for thread in threads:
                thread.start()
            tokens: dict[int, int] = {}
            ended = 0
            while ended < len(wanted):
                for event in engine.wait():
                    if event.type == EventType.FIRST_TOKEN:
                        tokens[event.request] = event.token
                    ended += event.terminal
            for thread in threads:
                thread.join()
            for number, prompt in submitted.items():
                self.assertEqual(engine.decode([tokens[number]]), prompt["reference_answer"])
            self.assertEqual(engine.stats()["finished"], len(wanted))

    def test_closing_with_requests_in_flight_gives_pixels_back(self):
        engine = rserve.Engine(str(MODEL))
        held = [Grid(bytes(112 * 112 * 3)) for _ in range(20)]
        gone = [weakref.ref(grid) for grid in held]
        for grid in held:
            view = memoryview(grid).cast("B", (112, 112, 3))
            engine.submit([rserve.Pixels(view), "Which digit is in picture 1?"], chat=True)
        del held, grid, view
        engine.close()
        engine.close()
        gc.collect()
        self.assertEqual([ref for ref in gone if ref() is not None], [])

    def test_asyncio_awaits_cancels_and_closes(self):
        async def scenario():
            async with rserve.AsyncEngine(str(MODEL)) as engine:
                wanted = prompts(3, 6)
                requests = [
                    await engine.submit(parts_of(prompt), chat=True, number_images=True) for prompt in wanted
                ]
                tokens = await asyncio.gather(*(request.first_token() for request in requests))
                for prompt, event in zip(wanted, tokens):
                    self.assertEqual(engine.decode([event.token]), prompt["reference_answer"])
                failed = await engine.submit(["Hello"], timeout=1e-9)
                with self.assertRaisesRegex(RuntimeError, "DEADLINE_EXCEEDED"):
                    await failed.first_token()
                open_request = await engine.submit(parts_of(wanted[0]), chat=True)
                waiter = asyncio.ensure_future(open_request.first_token())
                await asyncio.sleep(0)
                waiter.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiter
                return await engine.submit(parts_of(wanted[0]), chat=True)

        last = asyncio.run(scenario())  # closed with it in flight
        self.assertFalse(last._queue.empty())

    def test_tokens_may_be_any_sequence_of_numbers(self):
        engine = self.engine()
        for tokens in ([5, 6, 7], (5, 6, 7), array.array("i", [5, 6, 7]), range(5, 8)):
            request = engine.submit([tokens])
            list(engine.events(request))
            self.assertEqual(engine.detail(request).tokens, [5, 6, 7])


if __name__ == "__main__":
    unittest.main(verbosity=2)
