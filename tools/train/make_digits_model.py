"""Makes the shipped digits model and its evaluation set from nothing.

    python make_digits_model.py --out ../../models/digits
"""

import argparse
import time
from functools import partial
from pathlib import Path

import torch

from digits_data import split_digits
from digits_eval import accuracy_table, answer_prompts, make_eval_set, write_prompts
from digits_model import make_model, save_model
from digits_tokenizer import save_tokenizer, train_tokenizer
from digits_train import check_vision_features, train_language, train_vision
from evaluate_reference import MODEL, SPLIT_SEED

EVAL_SEED = 7


def train_parts(model, tokenizer, splits, options, log):
    """The vision tower first, then the language model."""
    visual, seed, steps = model.model.visual, options.seed, options.vision_steps
    train_vision(visual, splits, steps, seed + 1, small=0.4, peak=1.5e-3, log=log)
    train_language(model, tokenizer, splits, options.steps, seed + 3, log=log)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=MODEL, help="checkpoint folder to write")
    parser.add_argument("--steps", type=int, default=1500, help="steps of the language model")
    parser.add_argument("--vision-steps", type=int, default=1600, help="steps of the vision tower")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and training data")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    log = partial(print, flush=True)
    started = time.time()
    options.out.mkdir(parents=True, exist_ok=True)

    tokenizer = train_tokenizer()
    save_tokenizer(tokenizer, options.out)
    splits = split_digits(SPLIT_SEED)
    model = make_model(tokenizer)
    check_vision_features(model.model.visual, options.seed)
    train_parts(model, tokenizer, splits, options, log)
    save_model(model, tokenizer, options.out)
    log(f"trained in {(time.time() - started) / 60:.1f} minutes")

    eval_folder = options.out / "eval"
    make_eval_set(eval_folder, splits["held_out"], EVAL_SEED)
    lines = answer_prompts(options.out, eval_folder)
    write_prompts(eval_folder, lines)
    log(accuracy_table(lines))


if __name__ == "__main__":
    main()
