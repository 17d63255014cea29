"""Reads and writes parts of an ONNX file: names, how training treats parameters, and dropout.

A file is a protobuf message, ModelProto; its field 7 is the graph, 14 the metadata.
"""

import numpy as np

_KEY = b"leat.parameter:"  # as in docs/layers.md#onnx-import-and-export
_GRAPH, _METADATA = 7, 14
_NODE, _INITIALIZER = 1, 5  # fields of a graph


def initializers(data):
    """Their names, in the file's order."""
    return [_text(tensor, 8) for number, tensor in _fields(_graph(data)) if number == _INITIALIZER]


def with_treatments(data, treatments):
    """A file that says how training treats its initializers: {name: "trained", "constant" or "statistic"}."""
    # A message goes on with the fields that are appended to it.
    return bytes(data) + _encoded((_METADATA, _encoded([(1, _KEY + name.encode()), (2, what.encode())]))
                                  for name, what in treatments.items())


def with_values(data, values):
    """The file with these arrays of float32 as initializers: {name: array}."""
    def written(number, part):
        name = _text(part, 8) if number == _INITIALIZER else ""
        if name not in values:
            return part
        array = np.asarray(values[name], np.float32)
        return _encoded([*((1, size) for size in array.shape), (2, 1), (8, name.encode()), (9, array.tobytes())])

    graph = _encoded((number, written(number, part)) for number, part in _fields(_graph(data)))
    return _with_graph(data, graph)


def without_dropout(data):
    """The file with dropout that drops nothing, and the rates that it had."""
    rates = []
    graph = list(_fields(_graph(data)))
    constants = {_text(part, 8): part for number, part in graph if number == _INITIALIZER}
    for number, part in graph:
        if number == _NODE and _text(part, 4) == "Constant":
            constants[_text(part, 2)] = next((tensor for field, attribute in _fields(part) if field == 5
                                              for inner, tensor in _fields(attribute) if inner == 5), None)
    kept = []
    for number, part in graph:
        if number == _NODE and _text(part, 4) == "Dropout":
            inputs = _texts(part, 1)
            rates.append(_number(constants.get(inputs[1])) if len(inputs) > 1 else 0.5)
            part = _encoded([(1, inputs[0].encode()), (2, _text(part, 2).encode()), (3, _text(part, 3).encode()),
                             (4, b"Identity")])
        kept.append((number, part))
    if not rates:
        return bytes(data), []
    return _with_graph(data, _encoded(kept)), [rate for rate in rates if rate > 0]


def variable_names(names):
    """By initializer: the engine's name of its variable, if variables are made of these initializers in this order."""
    made, taken = {}, set()
    for name in names:
        plain = ""
        for c in name.encode().decode("latin-1")[:100]:  # a character for each byte, as the engine reads it
            fits = c.isascii() and (c.isalnum() or c in "_-.")
            if fits or plain:
                plain += c if fits else "_"
        plain = plain or "_"
        while plain in taken:
            plain += "_"
        taken.add(plain)
        made[name] = plain
    return made


def own_name(name):
    """The name of a variable without that of its layer: onnx1/net.0.weight."""
    return name.split("/", 1)[1] if "/" in name else name


# ---- protobuf

def _fields(data):
    """Fields of a message: (number, value); values of length-delimited fields are memoryviews."""
    at, end = 0, len(data)

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < end:
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
        elif kind == 2:
            size = varint()
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            size = 8 if kind == 1 else 4
            yield tag >> 3, data[at:at + size]
            at += size


def _encoded(fields):
    """A message of whole numbers and of length-delimited fields."""
    made = []
    for number, value in fields:
        if isinstance(value, int):
            made += [_varint(number << 3), _varint(value)]
        else:
            made += [_varint(number << 3 | 2), _varint(len(value)), value]
    return b"".join(made)


def _varint(number):
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _graph(data):
    return next(value for number, value in _fields(memoryview(data)) if number == _GRAPH)


def _with_graph(data, graph):
    return _encoded((number, graph if number == _GRAPH else value) for number, value in _fields(memoryview(data)))


def _texts(message, number):
    return [bytes(value).decode() for field, value in _fields(message) if field == number]


def _text(message, number):
    return next(iter(_texts(message, number)), "")


def _number(tensor):
    """The only element of a float or double tensor."""
    if tensor is not None:
        kind = next((value for field, value in _fields(tensor) if field == 2), 0)
        for field, value in _fields(tensor):
            if field in (4, 9, 10) and kind in (1, 11):  # float_data, raw_data, double_data
                return float(np.frombuffer(value, np.float32 if kind == 1 else np.float64)[0])
    raise ValueError("the rate of a dropout in the export is no constant")
