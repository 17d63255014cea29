"""Parts of a job that are a type with settings."""


class Setting:
    """A type, such as an optimizer, and its settings by their names in a job file.

    The settings are checked when the job is made, by the same code that checks a job file.
    """

    type = ""
    positional = ()

    def __init__(self, *values, **settings):
        if len(values) > len(self.positional):
            raise TypeError(f"{type(self).__name__} takes {len(self.positional)} values without a name, not {len(values)}")
        for name, value in zip(self.positional, values):
            if name in settings:
                raise TypeError(f"{type(self).__name__} got {name} twice")
            settings[name] = value
        self.settings = settings

    def config(self):
        """The setting as it is in a job file."""
        return {"type": self.type, **self.settings}

    def __eq__(self, other):
        return type(self) is type(other) and self.settings == other.settings

    def __hash__(self):
        return hash((type(self), tuple(sorted((k, repr(v)) for k, v in self.settings.items()))))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"


def config_of(value):
    """The job file's form of a Setting, or of the name or dict that a user may give instead."""
    return value.config() if hasattr(value, "config") else value
