"""Makes the golden files of the CPU backend: tiny random checkpoints and what the reference gives.

    python tools/golden/make_backend_goldens.py [--out tests/data/backend]

Versions: tools/golden/requirements.txt. Each case becomes a folder with config.json, the weights as
a checkpoint has them, and golden/model.safetensors, which holds, all as F32, for each prompt i:
    p<i>.token_ids [L], p<i>.positions [3, L], p<i>.grids [images, 3],
    p<i>.embeddings [rows, hidden], p<i>.logits [vocab] of the last token.
Patches are not stored: `patches` below and the test build the same numbers from a formula.
The reference runs in float32 on the CPU with weights rounded to the type they are stored in.
"""

import argparse
import json
import pathlib
import shutil

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

IMAGE, VIDEO, START, END = 5, 6, 3, 4
VOCAB = 64
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

# A prompt is a list of text lengths and image grids (h, w in patches); MARK around an image adds the
# start and end tokens. Without it images can be adjacent, first or last.
MARK = "mark"

CASES = {
    "gqa2_tied": dict(
        dtype="float32", tied=True, seed=1,
        vision=dict(depth=2, hidden=24, inter=44, heads=2, patch=4, window=16, full=[1]),
        text=dict(hidden=48, inter=50, layers=2, heads=4, kv=2, sections=[2, 2, 2]),
        prompts=[[3, (MARK, 6, 10), 4, (MARK, 4, 4), 5], [7], [(MARK, 2, 2), 2]],
    ),
    "gqa7_bf16": dict(
        dtype="bfloat16", tied=False, seed=2,
        vision=dict(depth=3, hidden=40, inter=50, heads=2, patch=4, window=32, full=[0, 2]),
        text=dict(hidden=56, inter=85, layers=2, heads=7, kv=1, sections=[2, 1, 1]),
        prompts=[[2, (MARK, 10, 14), (MARK, 8, 8), 3], [1], [17]],
    ),
    "mha_f16": dict(
        dtype="float16", tied=False, seed=3,
        vision=dict(depth=2, hidden=32, inter=131, heads=4, patch=2, window=16, full=[]),
        text=dict(hidden=64, inter=121, layers=2, heads=4, kv=4, sections=[4, 2, 2]),
        prompts=[[(MARK, 12, 6), 9], [4, (MARK, 2, 18)], [33]],
    ),
    "old_names": dict(
        dtype="bfloat16", tied=False, seed=4, names="published",
        vision=dict(depth=2, hidden=32, inter=60, heads=1, patch=4, window=16, full=[0]),
        text=dict(hidden=64, inter=96, layers=2, heads=8, kv=2, sections=[2, 1, 1]),
        prompts=[[2, (MARK, 8, 6), 1, (MARK, 6, 4), 2, (MARK, 4, 10), 2], [5]],
    ),
    "sharded": dict(
        dtype="float32", tied=False, seed=5, shards="48KB",
        vision=dict(depth=2, hidden=24, inter=36, heads=1, patch=4, window=24, full=[1]),
        text=dict(hidden=40, inter=52, layers=4, heads=2, kv=1, sections=[4, 3, 3]),
        prompts=[[3, (MARK, 14, 6), 3], [2, (MARK, 6, 6), (MARK, 6, 6), 1]],
    ),
    # Images that touch each other and both ends of the prompt.
    "adjacent": dict(
        dtype="float16", tied=True, seed=6, names="modules",
        vision=dict(depth=4, hidden=16, inter=100, heads=2, patch=4, window=16, full=[1, 3]),
        text=dict(hidden=36, inter=40, layers=2, heads=3, kv=3, sections=[2, 2, 2]),
        prompts=[[("", 4, 6), ("", 6, 4), 5, ("", 2, 6)], [("", 8, 8)], [2, ("", 4, 4), ("", 2, 2)]],
    ),
    # The published patch, window and merge sizes; odd widths.
    "patch14": dict(
        dtype="bfloat16", tied=True, seed=7,
        vision=dict(depth=2, hidden=20, inter=38, heads=1, patch=14, window=112, full=[1]),
        text=dict(hidden=44, inter=100, layers=2, heads=2, kv=1, sections=[5, 3, 3]),
        prompts=[[4, (MARK, 18, 10), 6], [130]],
    ),
}


def patches(rows, dim, seed):
    """Values in [-2, 2): a hash of the element's index, exact in float32."""
    index = np.arange(rows * dim, dtype=np.uint64) + np.uint64(seed * 1000003)
    mixed = (index * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)
    mixed ^= mixed >> np.uint64(15)
    mixed = (mixed * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    unit = (mixed >> np.uint64(8)).astype(np.float32) / np.float32(1 << 24)
    return torch.from_numpy((unit * 4 - 2).astype(np.float32).reshape(rows, dim))


def make_config(case):
    v, t = case["vision"], case["text"]
    return Qwen2_5_VLConfig(
        vision_config=dict(
            depth=v["depth"], hidden_size=v["hidden"], intermediate_size=v["inter"],
            num_heads=v["heads"], patch_size=v["patch"], window_size=v["window"],
            fullatt_block_indexes=v["full"], out_hidden_size=t["hidden"], in_channels=3,
            temporal_patch_size=2, spatial_merge_size=2, tokens_per_second=2,
        ),
        text_config=dict(
            vocab_size=VOCAB, hidden_size=t["hidden"], intermediate_size=t["inter"],
            num_hidden_layers=t["layers"], num_attention_heads=t["heads"],
            num_key_value_heads=t["kv"], rms_norm_eps=1e-6, max_position_embeddings=1024,
            bos_token_id=0, eos_token_id=1, tie_word_embeddings=case["tied"],
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0,
                                 mrope_section=t["sections"]),
        ),
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START,
        vision_end_token_id=END, tie_word_embeddings=case["tied"],
    )


def make_model(case):
    """Every tensor random, so that each one matters: norms around 1, biases not 0."""
    torch.manual_seed(case["seed"])
    model = Qwen2_5_VLForConditionalGeneration._from_config(
        make_config(case), attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "ln_q" in name:
                parameter.copy_(1 + 0.3 * torch.randn_like(parameter))
            elif parameter.dim() == 1:
                parameter.copy_(0.3 * torch.randn_like(parameter))
            elif "embed_tokens" in name:
                parameter.copy_(torch.randn_like(parameter))
            else:
                fan_in = parameter[0].numel()
                parameter.copy_(torch.randn_like(parameter) * (1.5 / fan_in) ** 0.5)
            parameter.copy_(parameter.to(DTYPES[case["dtype"]]).float())
    return model


def make_prompt(parts, generator):
    ids, grids = [], []
    for part in parts:
        if isinstance(part, int):
            ids += torch.randint(7, VOCAB, (part,), generator=generator).tolist()
            continue
        mark, h, w = part
        grids.append((1, h, w))
        image = [IMAGE] * (h * w // 4)
        ids += [START] + image + [END] if mark == MARK else image
    return ids, grids


def merged_runs_positions(model, ids, grids):
    """get_rope_index sees a run of image tokens as one image; adjacent images are given one by one."""
    types = [1 if i == IMAGE else 0 for i in ids]
    return model.model.get_rope_index(
        torch.tensor([ids]), torch.tensor([types], dtype=torch.int32),
        image_grid_thw=torch.tensor(grids) if grids else None)[0][:, 0]


def positions_of(ids, grids):
    """M-RoPE of still images, also where two of them touch: text counts up on all three axes, an
    image spans its merged grid, and what follows begins at the largest position plus one."""
    out, start, i = [], 0, 0
    grids = list(grids)
    while i < len(ids):
        if ids[i] != IMAGE:
            out.append((start, start, start))
            start, i = start + 1, i + 1
            continue
        _, h, w = grids.pop(0)
        h, w = h // 2, w // 2
        out += [(start, start + y, start + x) for y in range(h) for x in range(w)]
        start, i = start + max(h, w), i + h * w
    return torch.tensor(out).T


def run(model, case, golden):
    generator = torch.Generator().manual_seed(100 + case["seed"])
    dim = 3 * 2 * case["vision"]["patch"] ** 2
    for index, parts in enumerate(case["prompts"]):
        ids, grids = make_prompt(parts, generator)
        positions = positions_of(ids, grids)
        if all(isinstance(p, int) or p[0] == MARK for p in parts):
            assert torch.equal(positions, merged_runs_positions(model, ids, grids))
        inputs = dict(input_ids=torch.tensor([ids]), position_ids=positions[:, None, :],
                      attention_mask=torch.ones(1, len(ids), dtype=torch.long))
        key = f"p{index}."
        with torch.no_grad():
            if grids:
                rows = sum(t * h * w for t, h, w in grids)
                inputs["pixel_values"] = patches(rows, dim, index)
                inputs["image_grid_thw"] = torch.tensor(grids)
                golden[key + "embeddings"] = model.model.visual(
                    inputs["pixel_values"], grid_thw=inputs["image_grid_thw"]).pooler_output
                golden[key + "grids"] = torch.tensor(grids).float()
            golden[key + "logits"] = model(**inputs).logits[0, -1]
        golden[key + "token_ids"] = torch.tensor(ids).float()
        golden[key + "positions"] = positions.float()


def flat_config(case, config):
    """config.json as the published checkpoints have it."""
    text, v = config.text_config, case["vision"]
    return {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
        "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1,
        "vision_start_token_id": START, "vision_end_token_id": END, "vision_token_id": 2,
        "image_token_id": IMAGE, "video_token_id": VIDEO, "hidden_act": "silu",
        "hidden_size": text.hidden_size, "initializer_range": 0.02,
        "intermediate_size": text.intermediate_size, "max_position_embeddings": 1024,
        "max_window_layers": text.num_hidden_layers,
        "num_attention_heads": text.num_attention_heads,
        "num_hidden_layers": text.num_hidden_layers,
        "num_key_value_heads": text.num_key_value_heads, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": case["tied"],
        "torch_dtype": case["dtype"], "use_cache": True, "use_sliding_window": False,
        "vision_config": {
            "depth": v["depth"], "hidden_act": "silu", "hidden_size": v["hidden"],
            "intermediate_size": v["inter"], "num_heads": v["heads"], "in_chans": 3,
            "out_hidden_size": text.hidden_size, "patch_size": v["patch"],
            "spatial_merge_size": 2, "spatial_patch_size": v["patch"],
            "window_size": v["window"], "fullatt_block_indexes": v["full"],
            "tokens_per_second": 2, "temporal_patch_size": 2,
        },
        "rope_scaling": {"type": "mrope", "mrope_section": case["text"]["sections"]},
        "vocab_size": VOCAB,
    }


def save(model, case, folder):
    """With save_pretrained, or by hand under the published checkpoints' names and flat config
    ("published") or under the names of the modules ("modules")."""
    dtype = DTYPES[case["dtype"]]
    if "names" not in case:
        model.to(dtype).save_pretrained(folder, max_shard_size=case.get("shards", "1GB"))
        (folder / "generation_config.json").unlink(missing_ok=True)
        return
    tensors = {}
    for name, tensor in model.state_dict().items():
        if case["tied"] and name == "lm_head.weight":
            continue
        if case["names"] == "published":
            name = name.replace("model.language_model.", "model.")
            name = name.replace("model.visual.", "visual.")
        tensors[name] = tensor.to(dtype).contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if case["names"] == "published":
        text = json.dumps(flat_config(case, model.config), indent=2) + "\n"
        (folder / "config.json").write_text(text)
    else:
        model.config.save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/data/backend"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, case in CASES.items():
        folder = args.out / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "golden").mkdir(parents=True)
        model = make_model(case)
        golden = {}
        run(model, case, golden)
        save(model, case, folder)
        save_file({k: v.float().contiguous() for k, v in golden.items()},
                  folder / "golden" / "model.safetensors")
        spread = max(golden[k].abs().max().item() for k in golden if k.endswith("logits"))
        size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
        print(f"{name}: {size // 1024} KiB, largest logit {spread:.1f}")


if __name__ == "__main__":
    main()
