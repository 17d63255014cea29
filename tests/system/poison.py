"""Records of which some cannot be decoded, of every kind, with the reason that the dead letter must give."""

import json
import random
import struct
import subprocess

import leat

LARGEST = 2000


class Json:
    kinds = ["not JSON", "wrong type", "wrong parent", "missing field", "oversize", "invalid UTF-8"]
    fields = {"    amount: {type: number}": "    amount: {type: number, path: payment.amount}\n    shop: {type: id, below: 9, default: 0}"}

    def changes(self, _):
        """Changes to the counting job, so that it reads such records."""
        return {**self.fields, "  format: json": f"  format: json\n  max_record_bytes: {LARGEST}"}

    def good(self, i):
        event = {"payment": {"amount": i / 8, "note": "ñ" if i % 7 == 0 else "n"}, "fraud": i % 2, "other": [{"a": None}]}
        if i % 3 == 0:
            event["shop"] = i % 9
        return json.dumps(event, ensure_ascii=False).encode()

    def bad(self, i, kind):
        good = self.good(i)
        if kind == "not JSON":
            return good[:-1], "not a JSON object: "
        if kind == "wrong type":
            return b'{"payment":{"amount":"abc"},"fraud":0}', "payment.amount: 'abc' is not a number"
        if kind == "wrong parent":
            return b'{"payment":7,"fraud":0}', "payment: is a number, not an object"
        if kind == "missing field":
            return b'{"payment":{"id":3},"fraud":0}', "payment.amount: is missing"
        if kind == "oversize":
            return b'{"x":"' + b"x" * LARGEST + b'",' + good[1:], f"bytes, more than max_record_bytes {LARGEST}"
        return b'{"x":"\xff\xfe",' + good[1:], "not a JSON object: The input is not valid UTF-8"


class Protobuf:
    """Without line ends, so that files can have such records as lines."""

    kinds = ["truncated", "no such field", "wrong wire type", "missing field", "not finite", "oversize", "invalid UTF-8"]
    source = """syntax = "proto3";
    message Customer { string country = 2; }
    message Payment {
      optional double amount = 2;
      Customer customer = 3;
      uint32 shop = 4;
      bool fraud = 5;
      string note = 6;
    }"""
    fields = {"    amount: {type: number}": "    amount: {type: number}\n    shop: {type: id, below: 9}\n"
                                            "    country: {type: category, buckets: 4, path: customer.country, default: none}"}

    def __init__(self, framed=False):
        self.frame = b"\0\0\0\0\7\0" if framed else b""
        if framed:
            self.kinds = ["not framed", *self.kinds]

    def changes(self, folder):
        (folder / "payment.proto").write_text(self.source)
        subprocess.run(["protoc", "--include_imports", "--descriptor_set_out=payment.pb", "payment.proto"], cwd=folder, check=True)
        settings = {"descriptor": str(folder / "payment.pb"), "message": "Payment", "framing": "registry" if self.frame else "none"}
        return {**self.fields,
                "  format: json": f"  format: protobuf\n  protobuf: {json.dumps(settings)}\n  max_record_bytes: {LARGEST}"}

    def _amount(self, x):
        return b"\x11" + struct.pack("<d", x)

    def _customer(self, country):
        return bytes([0x1A, len(country) + 2, 0x12, len(country)]) + country

    def good(self, i):
        record = self.frame + b"\x32\2" + "ñ".encode()
        if i % 2:
            record += self._customer(["ES".encode(), "ñandú".encode()][i // 2 % 2]) + b"\x28\1"
        if i % 3 == 0:
            record += b"\x20" + bytes([i % 9])
        return record + self._amount(float(i % 100))

    def bad(self, i, kind):
        good = self.good(i)
        if kind == "not framed":
            return good[len(self.frame):], "begins with the byte 0x32; a record begins with a byte 0"
        if kind == "truncated":
            return good[:-1], "is not Protobuf: the record ends in a number"
        if kind == "no such field":
            return good + b"\x17\0", "is not Protobuf: there is no such field"
        if kind == "wrong wire type":
            return good[:-9] + b"\x10\5", "amount: is missing"
        if kind == "missing field":
            return good[:-9] + b"\x28\1", "amount: is missing"
        if kind == "not finite":
            return good[:-9] + self._amount(float("nan")), "amount: is not a number"
        if kind == "oversize":
            return good + b"\x32\xd0\x0f" + b"x" * LARGEST, f"bytes, more than max_record_bytes {LARGEST}"
        return good + self._customer(b"\xff\xfe"), "customer.country: is not UTF-8"


def records(form, count, more=(), seed=1):
    """`count` records, 1 % of them poisoned, and {offset: (kind, reason)} of these. `more`: kinds with their records and reasons."""
    rng = random.Random(seed)
    more = dict(more)
    kinds = [*form.kinds, *more]
    places = sorted(rng.sample(range(count), count // 100))
    bad = {place: kinds[i % len(kinds)] for i, place in enumerate(places)}
    made, reasons = [], {}
    for i in range(count):
        if i not in bad:
            made.append(form.good(i))
            continue
        record, reason = more[bad[i]] if bad[i] in more else form.bad(i, bad[i])
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
