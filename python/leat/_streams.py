"""Where events come from: the `stream:` section of a job."""

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

    _FORMATS = {".csv": "csv", ".jsonl": "json", ".json": "json", ".ndjson": "json", ".txt": "text"}

    def __init__(self, *paths, format=None, epochs=None, **files):
        if not paths:
            raise TypeError("Files needs a path")
        paths = [str(Path(path).resolve()) for path in paths]
        if format is None:
            name = Path(paths[0].removesuffix(".gz"))
            format = "idx" if "idx" in name.name else self._FORMATS.get(name.suffix)
            if format is None:
                raise ValueError(f"the format of {paths[0]} is not known; pass format='csv', 'json', 'idx' or 'text'")
        super().__init__({"epochs": epochs, "files": {"format": format, "paths": paths, **files}})


class Events(Stream):
    """Any iterable of dicts (or of JSON texts), which is published to a log of the job while the job runs."""

    topic = "events"

    def __init__(self, events, partitions=4):
        super().__init__({"topic": self.topic, "partitions": partitions, "live": True})
        self.events = events
        self.partitions = partitions


def as_stream(value):
    if isinstance(value, Stream):
        return value
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__iter__"):
        raise TypeError("a stream is leat.Kafka, leat.Log, leat.Files or an iterable of dicts, not "
                        f"{type(value).__name__}")
    return Events(value)
