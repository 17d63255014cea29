"""Options of the classes that Leat trains as PyTorch and Keras do (_torch_modules.py, _keras_layers.py)."""

import inspect


class Is:
    """The values of an option."""

    def __init__(self, *values):
        self._values = values

    def __contains__(self, value):
        return any(value is v or (value == v and type(value) is type(v)) for v in self._values)

    def __str__(self):
        return " or ".join(repr(v) for v in self._values)


class Number:
    """Any number: not None."""

    def __contains__(self, value):
        return isinstance(value, (int, float))

    def __str__(self):
        return "a number"


class Options:
    """The options of a class that were compared. `free`: names of those with which any value trains alike. Others have one of
    certain values, and an option that has no name here, as one of a later version, has its default."""

    def __init__(self, free="", **values):
        self.free, self.values = frozenset(free.split()), values

    def __or__(self, free):
        return Options(" ".join([*self.free, free]), **self.values)


def of_constructor(kind):
    """The options that a class takes, with those that it hands to the classes that it is derived from."""
    for one in kind.__mro__[:-1]:
        if "__init__" not in vars(one):
            continue
        parameters = list(inspect.signature(vars(one)["__init__"]).parameters.values())[1:]
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        yield from named
        if len(named) == len(parameters):
            return


def unknown(kind, made, known, judged=()):
    """(name, value, default) of an option that was not compared and does not have its default; None: there is none. Options whose
    names end like one of `judged` are left out."""
    for parameter in of_constructor(kind):
        if parameter.name in known.free or parameter.name in known.values or parameter.name.endswith(tuple(judged)):
            continue
        default = None if parameter.default is parameter.empty else parameter.default
        value = getattr(made, parameter.name, default)
        if value is not default and not (type(value) is type(default) and value == default):
            return parameter.name, value, default
    return None


def text_of(value):
    plain = value is None or isinstance(value, (bool, int, float, str, tuple))
    return repr(value) if plain else f"a {type(value).__name__}"
