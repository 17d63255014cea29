"""The fields of an event: the `schema:` section of a job."""

import json
import re

from leat import _native, _yaml


class Schema:
    """The fields of an event, with the settings of docs/jobs.md.

        leat.Schema({"amount": {"type": "number", "log": True},
                     "country": {"type": "category", "values": ["ES", "MX"]},
                     "fraud": {"type": "number", "role": "label", "classes": 2}})
    """

    def __init__(self, fields, format="json", **settings):
        self._section = {"format": format, **settings,
                         "fields": {name: dict(field) for name, field in fields.items()}}

    @classmethod
    def infer(cls, file, label=None, rows=0, delimiter=None, encoding=None, quote=None, escape=None,
              decimal=None):
        """Proposes a schema from a CSV or JSON-lines file, as `leat schema` does.

        `label`: the column to predict. `rows`: the number of rows to read; 0: the whole file.
        `encoding`: such as "latin-1"; default: UTF-8. leat.Files then needs the same.
        `delimiter`, `quote`, `escape` and `decimal` of CSV are detected by default.
        """
        text = _native.infer_schema(str(file), label or "", rows, delimiter or "", encoding or "",
                                    quote or "", escape or "", decimal or "")
        found = re.search(r"^schema:[^\n]*\n((?: [^\n]*\n?)*)", text, re.MULTILINE)
        if not found:
            raise ValueError(f"{file}: no schema was found")
        return cls.from_yaml(found.group(0))

    @classmethod
    def from_yaml(cls, text):
        """The schema of a `schema:` section of a job file, with or without its first line."""
        lines = text.rstrip().split("\n")
        if lines and re.match(r"schema:\s*(#.*)?$", lines[0]):
            lines = lines[1:]
        indents = [len(line) - len(line.lstrip()) for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not indents:
            raise ValueError("the schema is empty")
        made = cls.__new__(cls)
        made._section = _yaml.Text("\n".join(line[min(indents):] for line in lines))
        made._read()
        return made

    def _read(self):
        return json.loads(_native.schema_features(self.to_yaml(), "schema"))

    def section(self):
        """The `schema:` section of a job."""
        return self._section

    def to_yaml(self):
        """The section as it is in a job file."""
        return _yaml.dump({"schema": self._section})

    @property
    def features(self):
        """The number of features of a row."""
        return self._read()["features"]

    @property
    def classes(self):
        """The number of classes of the label; 0: it is a number, or the model tells how many there are."""
        return self._read()["classes"]

    def __repr__(self):
        return self.to_yaml()
