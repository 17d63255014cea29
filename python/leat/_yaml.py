"""Writes settings as YAML, a subset in which every value reads back as it is."""

import json
import math
import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_OTHERWISE = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"}  # not strings, for some reader


def scalar(value):
    """A value, or a list or dict of values, on one line."""
    if hasattr(value, "tolist"):  # numbers of numpy, of which some are Python's, too, but are written otherwise
        value = value.tolist()
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"a setting is {value}; it must be finite")
        return float.__repr__(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key(k)}: {scalar(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(scalar(v) for v in value) + "]"
    raise TypeError(f"a setting is of the type {type(value).__name__}; use numbers, strings, lists and dicts")


def key(text):
    return _text(str(text))


def _text(text):
    plain = _PLAIN.fullmatch(text) and text.lower() not in _OTHERWISE
    return text if plain else json.dumps(text, ensure_ascii=False)


def _entry(value):
    """An entry of a list on a line of its own."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        return f"{key(name)}: {scalar(inner)}"
    return scalar(value)


class Text(str):
    """YAML of a section, as a user or a command has written it."""


def _simple(value):
    return not isinstance(value, (dict, list, tuple, Text))


def block(value, indent=0):
    """Lines of a value, each map below the first level on lines of its own as long as it holds maps."""
    pad = " " * indent
    lines = []
    if isinstance(value, Text):
        return [pad + line for line in value.rstrip("\n").split("\n")]
    if isinstance(value, dict):
        for name, entry in value.items():
            nested = isinstance(entry, Text) or (
                isinstance(entry, dict) and any(not _simple(v) for v in entry.values())) or (
                isinstance(entry, (list, tuple)) and any(isinstance(v, dict) for v in entry))
            if nested and entry:
                lines.append(f"{pad}{key(name)}:")
                lines += block(entry, indent + 2)
            else:
                lines.append(f"{pad}{key(name)}: {scalar(entry)}")
        return lines
    if isinstance(value, (list, tuple)):
        return [f"{pad}- {_entry(entry)}" for entry in value]
    return [pad + scalar(value)]


def dump(value):
    return "\n".join(block(value)) + "\n"
