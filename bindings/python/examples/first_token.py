"""Asks a model about pictures and prints what happens until the first token.

    first_token.py MODEL_FOLDER [PICTURE...] QUESTION
"""

import sys
from pathlib import Path

import rserve


def main(model: str, *rest: str) -> int:
    pictures, question = rest[:-1], rest[-1]
    parts: list[rserve.Part] = [rserve.Image(Path(path).read_bytes()) for path in pictures]
    with rserve.Engine(model) as engine:
        request = engine.submit([*parts, question], chat=True, number_images=True)
        for event in engine.events(request):
            if event.type == rserve.EventType.ITEM_ENCODED:
                print(f"picture {event.item}: encoded to {event.item_tokens} tokens")
            elif event.type == rserve.EventType.INPUT_RELEASED:
                print(f"picture {event.item}: read, its memory is free")
            elif event.type == rserve.EventType.FIRST_TOKEN:
                text = engine.decode([event.token])
                print(f'first token: "{text}" (id {event.token}) after {event.ttft_ns / 1e6:.1f} ms')
            elif event.terminal and event.status != rserve.Status.OK:
                print(f"{event.status.name}: {engine.detail(request).message}", file=sys.stderr)
                return 1
        engine.acknowledge(request)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
