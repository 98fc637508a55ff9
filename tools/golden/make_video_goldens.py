"""Makes tests/data/model/video.json: which frames of a video the reference samples, and the M-RoPE
positions of prompts with videos.

Usage: python tools/golden/make_video_goldens.py [OUT]

The positions are those that the model was trained with, as transformers 5.18 and later compute them inside
a video: time = arange(t) * (seconds_per_grid * tokens_per_second) in 32-bit floats, cut to integers; text
goes on after the largest position. Every video is checked against get_rope_index of the transformers that
is installed. The pinned 5.17.0 cuts seconds_per_grid before it multiplies: with it only videos whose
seconds_per_grid is whole are checked. With a later one (PYTHONPATH=... for this script alone) all are, and
their number is printed.
"""

import json
import pathlib
import random
import sys
import types

import torch
import transformers
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.video_utils import VideoMetadata


def sampling_cases():
    rng = random.Random(7)
    processor = Qwen2VLVideoProcessor()
    cases = []
    for _ in range(400):
        total = rng.choice([2, 3, 5, 8, 17, 100, 301, 999, 1800, 5400, 54321])
        fps = rng.choice([1, 2, 12.5, 23.976, 24, 25, 29.97, 30, 50, 60, rng.uniform(0.5, 120)])
        options = {"temporal_patch_size": rng.choice([1, 2, 4])}
        if rng.random() < 0.3:
            options["num_frames"] = rng.randint(1, total)
        else:
            options["fps"] = rng.choice([0.5, 1, 2, 2.5, 4, 30])
            options["min_frames"] = rng.choice([1, 4, 8])
            options["max_frames"] = rng.choice([16, 64, 768])
        metadata = VideoMetadata(total_num_frames=total, fps=fps, duration=total / fps)
        try:
            frames = processor.sample_frames(metadata, **options).tolist()
        except (ValueError, ZeroDivisionError):
            frames = None
        if frames is not None:
            # Where its quotients round up the reference names a frame behind the last one, which then fails.
            frames = [frame for frame in frames if frame < total]
        if frames is not None and len(frames) > 40:
            frames = frames[:20] + [len(frames)] + frames[-19:]
        cases.append({"total": total, "source_fps": fps, **options, "frames": frames})
    return cases


def trained_positions(parts, merge, tokens_per_second):
    lists, start = [], 0
    for part in parts:
        if part[0] == "text":
            lists.append(torch.arange(part[1]).view(1, -1).expand(3, -1) + start)
        else:
            t, h, w = part[1], part[2] // merge, part[3] // merge
            time = torch.arange(t).view(-1, 1).expand(-1, h * w)
            if part[0] == "video":
                time = (time * (torch.tensor(part[4], dtype=torch.float32) * tokens_per_second)).long()
            rows = torch.arange(h).view(1, -1, 1).expand(t, -1, w)
            columns = torch.arange(w).view(1, 1, -1).expand(t, h, -1)
            lists.append(torch.stack([time.flatten(), rows.flatten(), columns.flatten()]) + start)
        start = int(lists[-1].max()) + 1
    positions = torch.cat(lists, dim=1)
    return positions, start - positions.shape[1]


# Fractions of a second count, before they are multiplied.
FIXED = tuple(int(n) for n in transformers.__version__.split(".")[:2]) >= (5, 18)


def check_videos(parts, positions, config):
    """The videos' own positions against the installed reference, each relative to where it begins. How many
    were compared."""
    compared = 0
    model = types.SimpleNamespace(config=config)
    model.get_vision_position_ids = Qwen2_5_VLModel.get_vision_position_ids.__get__(model)
    at = 0
    for part in parts:
        size = part[1] if part[0] == "text" else part[1] * part[2] * part[3] // 4
        if part[0] == "video" and (FIXED or float(part[4]).is_integer()):
            reference, _ = Qwen2_5_VLModel.get_rope_index(
                model,
                torch.zeros(1, size, dtype=torch.long),
                torch.full((1, size), 2, dtype=torch.int32),
                video_grid_thw=torch.tensor([part[1:4]]),
                second_per_grid_ts=torch.tensor([part[4]]),
            )
            own = positions[:, at : at + size]
            assert (reference[:, 0] == own - own.min()).all(), part
            compared += 1
        at += size
    return compared


def position_cases():
    rng = random.Random(8)
    cases, compared = [], 0
    for _ in range(60):
        tokens_per_second = rng.choice([2, 4, 25])
        config = Qwen2_5_VLConfig()
        config.vision_config.tokens_per_second = tokens_per_second
        parts = []
        for _ in range(rng.randint(1, 5)):
            kind = rng.random()
            grid = [2 * rng.randint(1, 5), 2 * rng.randint(1, 5)]
            if kind < 0.4:
                parts.append(["text", rng.randint(1, 9)])
            elif kind < 0.6:
                parts.append(["image", 1, *grid])
            else:
                seconds = rng.choice([1.0, 2.0, 0.5, 1 / 15, 2 / 29.97, 1 / 3, 0.08, rng.uniform(0.01, 3)])
                parts.append(["video", rng.randint(1, 20), *grid, seconds])
        positions, delta = trained_positions(parts, 2, tokens_per_second)
        compared += check_videos(parts, positions, config)
        cases.append(
            {"tokens_per_second": tokens_per_second, "parts": parts, "positions": positions.tolist(), "delta": delta}
        )
    print(f"{compared} videos compared with transformers {transformers.__version__}")
    return cases


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests/data/model/video.json"
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    value = {"sampling": sampling_cases(), "positions": position_cases()}
    lines = [
        f'"{key}":[\n' + ",\n".join(json.dumps(v, separators=(",", ":")) for v in values) + "\n]"
        for key, values in value.items()
    ]
    out.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
