"""Where events come from: the `stream:` section of a job."""

import json
from collections.abc import Mapping
from pathlib import Path


class Stream:
    def __init__(self, settings):
        self.settings = {name: value for name, value in settings.items() if value is not None}

    def section(self):
        return self.settings

    def __repr__(self):
        return f"{type(self).__name__}({self.settings!r})"


class Kafka(Stream):
    """A topic of Kafka: `Kafka("broker-1:9092,broker-2:9092", "payments", start="latest")`.

    `client`: settings of librdkafka by their names, such as {"security.protocol": "SASL_SSL"}. Further settings are those
    of docs/jobs.md.
    """

    def __init__(self, brokers, topic, client=None, **settings):
        super().__init__({"topic": topic, "kafka": {"bootstrap.servers": brokers, **(client or {})}, **settings})


class Log(Stream):
    """A topic of the embedded log: `Log("payments", log="/var/lib/leat/log")`.

    It is written by another program, or by simulated customers: `bots={"events": 200000, "rate": 20000}`.
    """

    def __init__(self, topic, log=None, live=None, **settings):
        super().__init__({"topic": topic, "log": None if log is None else str(Path(log).resolve()),
                          "live": live if live is not None or "bots" in settings else True, **settings})


class Files(Stream):
    """Files with one event a line, or idx files: `Files("a.csv", "b.csv", epochs=3)`.

    `format`: csv, json, idx or text; default: by the first file's name. `partitions`, `header` and further settings of
    `files:` are as in docs/jobs.md.
    """

    _FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".ndjson": "json", ".txt": "text"}

    def __init__(self, *paths, format=None, epochs=None, **files):
        if not paths:
            raise TypeError("Files needs a path")
        paths = [str(Path(path).resolve()) for path in paths]
        if format is None:
            name = Path(paths[0].removesuffix(".gz"))
            format = self._FORMATS.get(name.suffix.lower()) or ("idx" if "idx" in name.name else None)
            if format is None:
                raise ValueError(f"the format of {paths[0]} is not known; pass format='csv', 'json', 'idx' or 'text'")
        super().__init__({"epochs": epochs, "files": {"format": format, "paths": paths, **files}})


class Events(Stream):
    """Any iterable of dicts (or of JSON texts), which is published to a log of the job while the job runs.

    A DataFrame of pandas or Polars, or a table of Arrow, is its rows. Values that are missing there, and NaN, are null.
    """

    topic = "events"

    def __init__(self, events, partitions=4):
        super().__init__({"topic": self.topic, "partitions": partitions, "live": True})
        self.events = _Rows(events) if _is_table(events) else events
        self.partitions = partitions
        self._read = False
        if hasattr(self.events, "__len__"):  # others are read once, when the job runs
            for event in self.events:
                encode(event)
                break


    def begin(self):
        """Called by each run. An iterator has nothing for a second one."""
        if self._read and iter(self.events) is self.events:
            raise ValueError("an earlier run has read the events, which are an iterator; make them a list, or an object whose "
                             "__iter__ begins anew")
        self._read = True


def _is_table(value):
    return any(all(hasattr(value, name) for name in names)
               for names in (("iter_rows", "columns"), ("iloc", "columns"), ("to_batches", "column_names")))


class _Rows:
    """The rows of a table as dicts, each time from the first one on."""

    _AT_ONCE = 1000

    def __init__(self, table):
        self._table = table
        names = [str(name) for name in getattr(table, "column_names", table.columns)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"the table has more than one column {twice[0]!r}")

    def __len__(self):
        return len(self._table)

    def __iter__(self):
        table = self._table
        if hasattr(table, "iter_rows"):
            yield from table.iter_rows(named=True)
        elif hasattr(table, "to_batches"):
            for batch in table.to_batches(max_chunksize=self._AT_ONCE):
                yield from batch.to_pylist()
        else:
            for begin in range(0, len(table), self._AT_ONCE):
                part = table.iloc[begin:begin + self._AT_ONCE]
                for row in part.astype(object).where(part.notna(), None).to_dict("records"):
                    yield {str(name): value for name, value in row.items()}


def encode(event):
    """An event as the bytes of its record."""
    if isinstance(event, Mapping):
        return _encode_object(event if isinstance(event, dict) else dict(event)).encode()
    if isinstance(event, str):
        return event.encode()
    if isinstance(event, (bytes, bytearray)):
        return bytes(event)
    raise _no_event(event, "a dict or a text")


def as_events(events):
    """The JSON texts of several dicts, or of the rows of a table."""
    if _is_table(events):
        events = _Rows(events)
    elif not hasattr(events, "__iter__"):
        raise _no_event(events, "a dict")
    texts = []
    for event in events:
        if not isinstance(event, Mapping):
            # The values of a record are no events: its type says more than theirs.
            record = isinstance(events, str) or any(hasattr(events, name) for name in ("keys", "dtype", "_asdict"))
            raise _no_event(events if record else event, "a dict")
        texts.append(_encode_object(event if isinstance(event, dict) else dict(event)))
    return texts


def _no_event(value, expected):
    shown = " ".join(repr(value).split())
    hint = ""
    if hasattr(value, "_asdict"):
        hint = "; of named tuples, make event._asdict()"
    elif hasattr(value, "to_dict"):
        hint = "; make event.to_dict()"
    elif hasattr(value, "dtype"):
        hint = "; of rows of numbers, make dict(zip(names, row))"
    elif isinstance(value, tuple) and len(value) == 2:
        hint = "; of pairs (x, y), make {**x, 'y': y}"
    return TypeError(f"an event is {expected}, not {type(value).__name__}: "
                     f"{shown if len(shown) <= 80 else shown[:77] + '...'}{hint}")


def _encode_object(event):
    try:
        try:
            return json.dumps(event, default=_plain, allow_nan=False)
        except ValueError:
            return json.dumps(_without_nan(event), default=_plain)
    except TypeError as error:
        key = _key_of_misfit(event)
        if key is None:
            raise
        raise TypeError(f"{error}: {key!r}; make it a number or a text") from None


def _without_nan(value):
    if hasattr(value, "tolist"):
        value = _plain(value)
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, Mapping):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(one) for one in value]
    return value


def _plain(value):
    """Numbers of numpy, for JSON. Its times are no numbers, although some become one: how many nanoseconds they are."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if hasattr(value, "tolist") and kind not in ("m", "M"):
        return (value.astype(float) if kind == "f" else value).tolist()  # a longdouble stays one
    raise TypeError(f"an event has a value of the type {type(value).__name__}")


def _key_of_misfit(event):
    """The key of the first value that has no JSON, a.b for one in a dict; None if keys are at fault."""
    for key, value in event.items():
        try:
            json.dumps(value, default=_plain)
        except TypeError:
            inner = _key_of_misfit(value) if isinstance(value, dict) else None
            return str(key) if inner is None else f"{key}.{inner}"
    return None


def as_stream(value):
    if isinstance(value, Stream):
        return value
    if isinstance(value, (str, bytes, dict)) or not (hasattr(value, "__iter__") or _is_table(value)):
        raise TypeError("a stream is leat.Kafka, leat.Log, leat.Files, a DataFrame or an iterable of dicts, not "
                        f"{type(value).__name__}")
    return Events(value)
