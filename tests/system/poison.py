"""Records of which some cannot be decoded, of every kind, with the reason that the dead letter must give."""

import json
import random

import leat

LARGEST = 2000
CHANGES = {
    "    amount: {type: number}": "    amount: {type: number, path: payment.amount}\n    shop: {type: id, below: 9, default: 0}",
    "  format: json": f"  format: json\n  max_record_bytes: {LARGEST}",
}


def good(i):
    event = {"payment": {"amount": i / 8, "note": "ñ" if i % 7 == 0 else "n"}, "fraud": i % 2, "other": [{"a": None}]}
    if i % 3 == 0:
        event["shop"] = i % 9
    return json.dumps(event, ensure_ascii=False).encode()


def _bad(i, kind):
    if kind == "not JSON":
        return good(i)[:-1], "not a JSON object: "
    if kind == "wrong type":
        return b'{"payment":{"amount":"abc"},"fraud":0}', "payment.amount: 'abc' is not a number"
    if kind == "wrong parent":
        return b'{"payment":7,"fraud":0}', "payment: is a number, not an object"
    if kind == "missing field":
        return b'{"payment":{"id":3},"fraud":0}', "payment.amount: is missing"
    if kind == "oversize":
        return b'{"x":"' + b"x" * LARGEST + b'",' + good(i)[1:], f"bytes, more than max_record_bytes {LARGEST}"
    if kind == "invalid UTF-8":
        return b'{"x":"\xff\xfe",' + good(i)[1:], "not a JSON object: The input is not valid UTF-8"
    return b"", "is empty"


KINDS = ["not JSON", "wrong type", "wrong parent", "missing field", "oversize", "invalid UTF-8"]


def records(count, kinds, seed=1):
    """`count` records, 1 % of them poisoned, and {offset: (kind, reason)} of these."""
    rng = random.Random(seed)
    places = sorted(rng.sample(range(count), count // 100))
    bad = {place: kinds[i % len(kinds)] for i, place in enumerate(places)}
    made, reasons = [], {}
    for i in range(count):
        if i not in bad:
            made.append(good(i))
            continue
        record, reason = _bad(i, bad[i])
        made.append(record)
        reasons[i] = (bad[i], reason)
    return made, reasons


def check(directory, result, count, reasons):
    """Every poisoned record of partition 0 is a dead letter with its reason, every other is counted once."""
    assert result["dead_letters"] == len(reasons), result
    kept = [json.loads(line) for f in (directory / "dead_letters").glob("*.jsonl") for line in f.read_text().splitlines()]
    assert {k["offset"] for k in kept} == set(reasons)
    for letter in kept:
        kind, reason = reasons[letter["offset"]]
        assert reason in letter["reason"], (kind, letter)
    assert {x for v in leat.tensors(directory).values() for x in v} == {float(count - len(reasons))}
