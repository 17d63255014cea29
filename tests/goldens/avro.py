#!/usr/bin/env python3
"""Generates avro.json: records written by fastavro, and the rows that a job makes of what fastavro reads back.

    python3 -m venv /tmp/fastavro && /tmp/fastavro/bin/pip install fastavro
    /tmp/fastavro/bin/python tests/goldens/avro.py > tests/goldens/avro.json

A case is a writer's schema, the `fields:` of a job, records in hex, and for each record its features and labels, or the
reason of its dead letter.
"""

import datetime
import decimal
import io
import json
import random
import struct

import fastavro

RECORDS = 12
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Dead(Exception):
    pass


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def number(value, unit):
    """The number in the unit of its logical type."""
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(microseconds=1) // unit
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    if isinstance(value, datetime.time):
        return (((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond) // unit
    return float(value)


def find(record, path):
    for key in path.split("."):
        if record is None:
            return None
        record = record[key]
    return record


def features(name, field, record):
    value = find(record, field.get("path", name))
    if value is None:
        if "default" not in field:
            raise Dead(f"{field.get('path', name)}: is null")
        value = field["default"]
    if field["type"] == "category":
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if field.get("role") == "label":
            return [field["values"].index(text)]
        return [float(text == v) for v in field["values"]]
    if "length" in field:
        return [*value, *[field.get("pad", 0)] * (field["length"] - len(value))]
    return [f32(number(value, field.get("unit", 1)))]


def row(fields, record):
    parts = {"feature": [], "label": []}
    for name, field in fields.items():
        parts[field.get("role", "feature")] += features(name, field, record)
    return {"features": parts["feature"], "labels": parts["label"] or [0]}


def case(schema, fields, make):
    rng = random.Random(json.dumps(schema))
    parsed = fastavro.parse_schema(schema)
    records, rows = [], []
    for i in range(RECORDS):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, make(rng, i))
        records.append(out.getvalue().hex())
        out.seek(0)
        read = fastavro.schemaless_reader(out, parsed)
        try:
            rows.append(row(fields, read))
        except Dead as dead:
            rows.append({"dead": str(dead)})
    # The unit is for this script alone. As text, because the order of the fields is that of the row.
    job = {name: {k: v for k, v in field.items() if k != "unit"} for name, field in fields.items()}
    return {"schema": schema, "fields": json.dumps(job), "records": records, "rows": rows}


def record(name, /, **fields):
    return {"type": "record", "name": name, "fields": [{"name": k, "type": v} for k, v in fields.items()]}


def primitives():
    edges = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -2**31, 12345678]
    long_edges = [0, -1, 2**35, -2**42, 2**49 - 1, 2**56, -2**56, 2**62, 2**63 - 1, -2**63, 10**12, 255]
    schema = record("P", i="int", l="long", f="float", d="double", b="boolean", n="null")
    fields = {name: {"type": "number"} for name in "dblfi"}
    return case(schema, fields, lambda rng, i: {
        "i": edges[i], "l": long_edges[i], "f": rng.gauss(0, 1e6), "d": rng.gauss(0, 1e-6), "b": i % 3 == 0, "n": None})


def logical():
    schema = record(
        "L", money={"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2},
        rate={"type": "fixed", "name": "Rate", "size": 6, "logicalType": "decimal", "precision": 10, "scale": 7},
        whole={"type": "bytes", "logicalType": "decimal", "precision": 9}, day={"type": "int", "logicalType": "date"},
        at_ms={"type": "int", "logicalType": "time-millis"}, at_us={"type": "long", "logicalType": "time-micros"},
        stamp_ms={"type": "long", "logicalType": "timestamp-millis"},
        stamp_us={"type": "long", "logicalType": "timestamp-micros"}, uid={"type": "string", "logicalType": "uuid"})
    fields = {name: {"type": "number"} for name in ["money", "rate", "whole", "day", "at_us", "stamp_us"]}
    fields |= {name: {"type": "number", "unit": 1000} for name in ["at_ms", "stamp_ms"]}

    def make(rng, i):
        stamp = EPOCH + datetime.timedelta(milliseconds=rng.randrange(-10**12, 10**12))
        digits = [1, 3, 6, 15, 20, 28][i % 6]
        return {"money": decimal.Decimal(rng.randrange(-10**digits, 10**digits)).scaleb(-2, decimal.Context(prec=40)),
                "rate": decimal.Decimal(rng.randrange(-10**10 + 1, 10**10)).scaleb(-7), "whole": decimal.Decimal(rng.randrange(-999, 999)),
                "day": stamp.date(), "at_ms": stamp.time(), "at_us": stamp.time(), "stamp_ms": stamp, "stamp_us": stamp,
                "uid": f"{i:032x}"}

    return case(schema, fields, make)


def nested():
    address = record("Address", zip="string", country=["null", "string"], geo=["null", record("Geo", lat="double", lon="double")])
    schema = record("Nested", id="long", customer=["null", record("Customer", age=["int", "null"], name="string", address=address)],
                    amount=["null", "double"], mixed=["null", "int", "string", "double"], score=["float", "null"])
    fields = {
        "score": {"type": "number", "default": 0.5},
        "country": {"type": "category", "values": ["ES", "MX"], "path": "customer.address.country", "default": "MX"},
        "lon": {"type": "number", "path": "customer.address.geo.lon", "default": -1},
        "age": {"type": "number", "path": "customer.age", "default": 40},
        "amount": {"type": "number"}}

    def make(rng, i):
        geo = None if i % 3 == 0 else {"lat": rng.random(), "lon": rng.random()}
        address = {"zip": "z" * rng.randrange(20), "country": rng.choice([None, "ES", "MX", "US"]), "geo": geo}
        customer = None if i == 5 else {"age": rng.choice([None, 30, 55]), "name": "ñandú", "address": address}
        return {"id": i, "customer": customer, "amount": None if i in (3, 7) else rng.random(),
                "mixed": rng.choice([None, 3, "three", 3.5]), "score": None if i % 2 else rng.random()}

    return case(schema, fields, make)


def skipped():
    tree = record("Tree", value="int", left=["null", "Tree"], right=["null", "Tree"])
    item = record("Item", sku="string", tags={"type": "array", "items": "string"}, size=["null", "long"])
    schema = record("Skipped", a="double", tree=tree, labels={"type": "map", "values": "string"},
                    items={"type": "array", "items": item}, deep={"type": "map", "values": {"type": "array", "items": ["null", "Item", "double"]}},
                    key={"type": "fixed", "name": "Key", "size": 16}, flags={"type": "array", "items": "boolean"},
                    grid={"type": "array", "items": {"type": "array", "items": "float"}}, blob="bytes",
                    nulls={"type": "array", "items": "null"}, z="double")
    fields = {name: {"type": "number"} for name in "az"}

    def make(rng, i):
        def branch(depth):
            return None if depth == 0 or rng.random() < 0.3 else {"value": rng.randrange(-99, 99), "left": branch(depth - 1), "right": branch(depth - 1)}

        def item():
            return {"sku": "s" * rng.randrange(70), "tags": ["t"] * rng.randrange(4), "size": rng.choice([None, 2**40])}

        return {"a": rng.random(), "tree": {"value": i, "left": branch(4), "right": branch(4)},
                "labels": {f"k{k}": "v" * k for k in range(i % 4)}, "items": [item() for _ in range(i % 5)],
                "deep": {f"d{k}": [rng.choice([None, 1.5, item()]) for _ in range(k)] for k in range(i % 3)},
                "key": bytes(range(16)), "flags": [True] * i, "grid": [[0.5] * k for k in range(i % 4)],
                "blob": bytes(i), "nulls": [None] * i, "z": rng.random()}

    return case(schema, fields, make)


def categories():
    schema = record("C", kind={"type": "enum", "name": "Kind", "symbols": ["CASH", "CARD", "WIRE"]}, city="string", code="int",
                    big="long", yes="boolean", again="Kind", maybe=["null", "Kind"])
    fields = {
        "kind": {"type": "category", "values": ["WIRE", "CASH"]}, "city": {"type": "category", "values": ["Málaga", "León", "Oaxaca de Juárez", "x"]},
        "code": {"type": "category", "values": ["7", "-300"]}, "big": {"type": "category", "values": ["9007199254740993", "0"]},
        "yes": {"type": "category", "values": ["true", "false"]}, "maybe": {"type": "category", "values": ["CARD"], "default": "CARD"},
        "again": {"type": "category", "values": ["CARD", "WIRE", "CASH"], "role": "label"}}
    return case(schema, fields, lambda rng, i: {
        "kind": rng.choice(["CASH", "CARD", "WIRE"]), "city": rng.choice(["Málaga", "León", "Oaxaca de Juárez", "Oaxaca de", "x", ""]),
        "code": rng.choice([7, -300, 70]), "big": rng.choice([9007199254740993, 9007199254740992, 0]), "yes": i % 2 == 0,
        "again": rng.choice(["CASH", "CARD", "WIRE"]), "maybe": rng.choice([None, "CASH", "CARD"])})


def lists():
    schema = record("Lists", bought={"type": "array", "items": "int"}, seen=["null", {"type": "array", "items": ["null", "long"]}], one="long")
    fields = {"bought": {"type": "id", "below": 1000, "length": 5, "pad": 7}, "one": {"type": "id", "below": 10},
              "seen": {"type": "id", "below": 300, "length": 3, "default": [1, 2]}}
    return case(schema, fields, lambda rng, i: {
        "bought": [rng.randrange(1000) for _ in range(i % 6)], "one": rng.randrange(10),
        "seen": None if i % 4 == 0 else [rng.randrange(300) for _ in range(i % 4)]})


def names():
    inner = {"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "x", "type": "float"}]}
    schema = {"type": "record", "name": "shop.Order", "fields": [
        {"name": "from", "type": inner}, {"name": "to", "type": "geo.Point"},
        {"name": "via", "type": {"type": "array", "items": "geo.Point"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "last", "type": "shop.State"}, {"name": "next", "type": ["null", "Order"]}]}
    fields = {"to": {"type": "number", "path": "to.x"}, "last": {"type": "category", "values": ["DONE"]},
              "next": {"type": "number", "path": "next.next.from.x", "default": -2}}

    def make(rng, depth):
        return {"from": {"x": rng.random()}, "to": {"x": rng.random()}, "via": [{"x": 1}] * 3, "state": "NEW",
                "last": rng.choice(["NEW", "DONE"]), "next": make(rng, depth - 1) if depth > 0 else None}

    return case(schema, fields, lambda rng, i: make(rng, i % 4))


def main():
    cases = [primitives(), logical(), nested(), skipped(), categories(), lists(), names()]
    print("[")
    print(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
    print("]")


if __name__ == "__main__":
    main()
