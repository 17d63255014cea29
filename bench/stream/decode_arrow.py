#!/usr/bin/env python3
"""The baseline of `bench decode` for CSV: pyarrow's reader in one thread, from memory.

    decode_arrow.py FILE

FILE has payments of the demo's bots as CSV, with a header. For each line of its input, reads them again and again for
that many seconds, and prints the median of the processor seconds of one reading, the rows, and the library's version.
"""

import os
import statistics
import sys
import time

import pyarrow as pa
from pyarrow import csv

NUMBERS = ["amount", "times_usual", "hour", "hours_off", "since_last", "distance_km", "new_device", "fraud", "p_fraud"]
TEXTS = ["kind", "country", "channel"]
BLOCKS = [2 ** 16, 2 ** 18, 2 ** 20, 2 ** 22]


def read(text, block):
    types = {name: pa.float32() for name in NUMBERS} | {name: pa.string() for name in TEXTS}
    return csv.read_csv(
        pa.BufferReader(text), read_options=csv.ReadOptions(use_threads=False, block_size=block),
        convert_options=csv.ConvertOptions(column_types=types, include_columns=NUMBERS + TEXTS))


def seconds(text, block):
    begin = time.process_time()
    rows = read(text, block).num_rows
    return time.process_time() - begin, rows


def main():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with open(sys.argv[1], "rb") as file:
        text = pa.py_buffer(file.read())
    block = min(BLOCKS, key=lambda size: min(seconds(text, size) for _ in range(5)))
    for line in sys.stdin:
        end = time.perf_counter() + float(line)
        samples = []
        while time.perf_counter() < end or len(samples) < 5:
            samples.append(seconds(text, block))
        print(statistics.median(taken for taken, _ in samples), samples[0][1], f"pyarrow {pa.__version__}", flush=True)


if __name__ == "__main__":
    main()
