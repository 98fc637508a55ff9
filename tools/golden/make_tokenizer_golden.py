"""Trains the small tokenizer of tests/model and writes what the reference encodes with it.

    python3 tools/golden/make_tokenizer_golden.py tests/data/model

tokenizer.json has the layout of Qwen2's; gpt2_tokenizer.json is the same vocabulary with ByteLevel's
own regex, no normaliser, merges as strings and ignore_merges. digits_encodings.json is what
models/digits/tokenizer.json encodes. Needs the versions of tools/golden/requirements.txt.
"""

import copy
import json
import pathlib
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIALS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> "
    "<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "
    "<|image_pad|> <|video_pad|>"
).split()
PLAIN_ADDED = "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|>".split()

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind it at all.",
    "You are a helpful assistant. What is in this picture? Picture 1: Picture 2: system user",
    "for (int i = 0; i < count; ++i) {\n    total += values[i];\n}\n\n",
    "We'll see what they've done; I'm sure she'd say it's 1234567890 or 3.14159.",
    "Der Bär wünscht sich schöne Grüße. L'élève était déjà à l'école. El niño comió piñas.",
    "Быстрая коричневая лиса прыгает через ленивую собаку.",
    "敏捷的棕色狐狸跳过了懒狗。日本語のテキストも少し。한국어 문장도 조금 있습니다.",
    "שלום עולם, مرحبا بالعالم, नमस्ते दुनिया, สวัสดีชาวโลก",
    "😀 😃 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪",
]

TEXTS = SENTENCES + [
    "",
    " ",
    "\n",
    "\r\n",
    "a",
    "   \t  \n\n   \r\n \r x  ",
    "word" + " " * 50 + "word" + "\n" * 7 + "end" + " " * 3,
    "1" * 40 + " 12 123 1234 ٣٤٥ ½ Ⅷ",
    "it'S We'LL I'M don'T 'tis 'Re 'ſ x'K",
    "<|im_start|>user\nhi<|im_end|>\n",
    "<|im_start|><|im_start|> <|im_end|",
    "a<|image_pad|>b <|vision_start|> <|IM_START|> < |im_end|> <|im_start|",
    "<|im_start<|im_end|>|><tool_call>{\"a\": 1}</tool_call><|fim_prefix|>x",
    "<<|im_end|>><|endoftext|><|endoftext|>",
    "<|im_start<tool_call>",
    # Not in NFC: marks in the wrong order, decomposed Hangul, singletons, exclusions.
    "e\u0301 a\u0323\u0307 a\u0307\u0323 o\u0302\u0301 q\u0307\u0323",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8 \uac00\u11a8 \u1100\u1161\u11a8\u11a8 \u1161 \u11a8",
    "\u212b \u2126 \u212a \ufb1d \u0958 \u2adc \uf900 \U0002f800 \u0344 \u1f71",
    "\u0301start \u0327\u0301 x\u0334\u0301\u0327\u0315 a\u0300\u0300\u0300\u0315\u0300",
    "a\u0600\u0301 \u09c7\u09be \u0b47\u0b3e \u0bc6\u0bd7 \u0cc6\u0cc2\u0cd5 \u1025\u102e",
    "\U00011099\U000110ba \U0001d15e \U0001d1bf \u2260 =\u0338 <\u0338",
    "\x00\x01\x02\x1b[0m\x7f\x85\xa0\xad\u200b\u200c\u200d\u2028\u2029\ufeff\ufffd",
    "a\u180eb \u180e\u180e x\u1680y\u2003z\u3000w\u205f\u202f!",
    "\u202eRTL override\u202c mixed עברית english العربية 123",
    "\U0010ffff \ue000 \U000e0041\U000e007f \ufe0f",
    "👩🏽‍🚀👨‍👩‍👧‍👦🏴\U000e0067\U000e0062\U000e007f❤️‍🔥",
    "http://example.org/a?b=c&d=%20#frag \\n\\t C:\\dir\\file.txt",
    "!!!???...,,,;;;---___***\n\n!!!\n???\r\n",
    "tab\tseparated\tvalues\t\t\n\t\tindent",
    "zzyzx zzyzxa",
    "MixedCASE camelCase snake_case kebab-case ALLCAPS1 2x",
]

# unit x count, of which only a checksum of the ids is kept.
REPEATED = [
    ("a", 100000),
    ("ab", 30000),
    (" ", 50000),
    ("\n", 50000),
    (" \n", 20000),
    ("e\u0301", 20000),
    ("\u0301", 5000),
    ("0", 20000),
    ("!", 50000),
    ("<|im_start|>", 3000),
    ("<|im_start", 3000),
    ("The quick brown fox ", 3000),
    ("한", 20000),
]


def random_texts():
    rng = random.Random(3)
    pools = [
        "abcdefghijklmnopqrstuvwxyz",
        "  \t\r\n\x0b\x0c",
        "0123456789",
        "'stmdlrve",
        "<|>_imstartend",
        "éèüßñçåøæœ\u0301\u0300\u0308\u0323\u0327\u0328\u031b",
        "".join(chr(c) for c in range(0x1100, 0x1113)) + "".join(chr(c) for c in range(0x1161, 0x1176)),
        "가각힣글한\u11a8\u11ab",
        "的一是不了人我在有他",
        "שלוםعربى\u05b0\u05b1\u0651\u064b",
        "😀👍🏽\u200d\ufe0f",
        "\u00a0\u2003\u3000\u180e\u200b",
        "!\"#$%&()*+,-./:;=?@[]^`{}~",
    ]
    texts = []
    for _ in range(260):
        chosen = rng.sample(pools, rng.randint(1, 4))
        texts.append("".join(rng.choice(rng.choice(chosen)) for _ in range(rng.randint(1, 40))))
    return texts


def nfc_of_all():
    """A checksum of the NFC in four surroundings of Unicode 3's characters, and these as [first, last]."""
    ranges = []
    checksum = 0xCBF29CE484222325
    for c in range(0x30000):
        if unicodedata.ucd_3_2_0.category(chr(c)) in ("Cn", "Cs"):
            continue
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
        for before, after in (("", "\u0301"), ("e", "\u0323\u0301"), ("\u1100", ""), ("a\u0327", "\u11a8")):
            for byte in unicodedata.normalize("NFC", before + chr(c) + after).encode():
                checksum = (checksum ^ byte) * 0x100000001B3 % 2**64
    return [f"{checksum:016x}", *ranges]


def nfc_cases():
    """Random strings of characters that decompose, compose or reorder, with their NFC."""
    rng = random.Random(4)
    # Marks that every implementation's tables know: those of Unicode 3.
    marks = [chr(c) for c in range(0x300, 0x900) if unicodedata.ucd_3_2_0.combining(chr(c))]
    composed = [
        chr(c)
        for c in range(0xC0, 0x30000)
        if unicodedata.ucd_3_2_0.decomposition(chr(c))
        and not unicodedata.ucd_3_2_0.decomposition(chr(c)).startswith("<")
    ]
    cases = []
    for _ in range(1500):
        text = ""
        for _ in range(rng.randint(1, 8)):
            kind = rng.random()
            if kind < 0.3:
                text += rng.choice(composed)
            elif kind < 0.5:
                text += unicodedata.normalize("NFD", rng.choice(composed))
            elif kind < 0.6:
                text += unicodedata.normalize("NFD", chr(rng.randint(0xAC00, 0xD7A3)))
            elif kind < 0.7:
                text += rng.choice("aAeEoOuU \n")
            else:
                text += rng.choice(marks)
        cases.append([text, unicodedata.normalize("NFC", text)])
    return cases


def train():
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_PATTERN), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    runs = ["aaaa" * 8, "!!!!" * 4, " " * 16 + "x", "\n" * 8]
    tokenizer.train_from_iterator((SENTENCES + runs) * 4, trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in PLAIN_ADDED])
    return tokenizer


def fnv1a(ids):
    """FNV-1a over the ids as little-endian 32-bit words."""
    value = 0xCBF29CE484222325
    for word in ids:
        for byte in word.to_bytes(4, "little"):
            value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def encodings(tokenizer, texts=None, repeated=REPEATED):
    """Of each text as a template writes it and, where that differs, as a user does."""

    def both(text):
        tokenizer.encode_special_tokens = False
        template = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        user = tokenizer.encode(text, add_special_tokens=False).ids
        return template, user

    cases = []
    for text in TEXTS + random_texts() if texts is None else texts:
        template, user = both(text)
        case = {"text": text, "template": template}
        if user != template:
            case["user"] = user
        cases.append(case)
    for unit, count in repeated:
        template, user = both(unit * count)
        cases.append(
            {
                "unit": unit,
                "count": count,
                "template": [len(template), fnv1a(template)],
                "user": [len(user), fnv1a(user)],
            }
        )
    return cases


def write_json(path, value):
    body = ",\n".join(json.dumps(v, separators=(",", ":")) for v in value)
    path.write_text("[\n" + body + "\n]\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    tokenizer = train()
    qwen = json.loads(tokenizer.to_str())
    gpt2 = copy.deepcopy(qwen)
    gpt2["normalizer"] = None
    gpt2["pre_tokenizer"] = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
    }
    gpt2["model"]["merges"] = [" ".join(m) for m in gpt2["model"]["merges"]]
    gpt2["model"]["ignore_merges"] = True
    # A token that no merge gives, which ignore_merges must still find.
    for token in gpt2["added_tokens"]:
        token["id"] += 1
    gpt2["model"]["vocab"]["zzyzx"] = len(qwen["model"]["vocab"])
    for name, value in (("", qwen), ("gpt2_", gpt2)):
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        (folder / f"{name}tokenizer.json").write_text(text + "\n")
        cases = encodings(Tokenizer.from_str(text))
        write_json(folder / f"{name}encodings.json", cases)
    digits = pathlib.Path(__file__).parents[2] / "models/digits/tokenizer.json"
    cases = encodings(Tokenizer.from_file(str(digits)))
    write_json(folder / "digits_encodings.json", cases)
    write_json(folder / "nfc.json", nfc_cases())
    write_json(folder / "nfc_all.json", nfc_of_all())


if __name__ == "__main__":
    main()
