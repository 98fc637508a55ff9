"""Runs the reference implementation (transformers, float32) over an evaluation set.

    python evaluate_reference.py                  # the shipped 500 prompts
    python evaluate_reference.py --write          # ... and store its answers in prompts.jsonl
    python evaluate_reference.py --fresh 8000     # new held-out prompts: 500 per kind and number
"""

import argparse
import tempfile
from pathlib import Path

import torch

from digits_data import split_digits
from digits_eval import accuracy_table, answer_prompts, make_eval_set, write_prompts

MODEL = Path(__file__).resolve().parents[2] / "models" / "digits"
SPLIT_SEED = 2024


def evaluate_fresh(model, prompts, seed):
    """Evaluates on newly drawn pictures of the held-out digits; nothing is kept."""
    held_out = split_digits(SPLIT_SEED)["held_out"]
    with tempfile.TemporaryDirectory() as folder:
        make_eval_set(Path(folder), held_out, seed, prompts, pictures=5 * len(held_out[1]))
        return answer_prompts(model, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=MODEL, help="checkpoint folder")
    parser.add_argument("--eval", type=Path, help="evaluation set; default: MODEL/eval")
    parser.add_argument("--write", action="store_true", help="store the answers in prompts.jsonl")
    parser.add_argument("--fresh", type=int, metavar="N", help="use N newly drawn prompts instead")
    parser.add_argument("--seed", type=int, default=1000, help="seed of --fresh")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.fresh:
        lines = evaluate_fresh(options.model, options.fresh, options.seed)
    else:
        folder = options.eval or options.model / "eval"
        lines = answer_prompts(options.model, folder)
        if options.write:
            write_prompts(folder, lines)
    print(accuracy_table(lines))


if __name__ == "__main__":
    main()
