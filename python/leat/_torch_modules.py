"""The modules of PyTorch that Leat trains as PyTorch does, with the options for which that was compared.

tests/python/test_modules.py exports, imports and trains each of them, and compares every value. Classes of a user are made of
these, and of functions that the comparison before each training judges (leat/_compare.py).
"""


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


_ANY = {}
_BATCH_NORM = {"momentum": Number(), "track_running_stats": Is(True)}
_NO_INDICES = {"return_indices": Is(False), "dilation": Is(1, (1,), (1, 1))}
_RECURRENT = {"dropout": Is(0, 0.0), "proj_size": Is(0)}

# By class: the options that must have certain values. Others are free.
MODULES = {
    # containers
    "Sequential": _ANY, "ModuleList": _ANY, "ModuleDict": _ANY, "ParameterList": _ANY, "ParameterDict": _ANY,
    "Identity": _ANY, "Flatten": _ANY, "Unflatten": _ANY, "ParametrizationList": _ANY, "_WeightNorm": _ANY,
    # weights
    "Linear": _ANY, "NonDynamicallyQuantizableLinear": _ANY, "Conv1d": _ANY, "Conv2d": _ANY,
    "ConvTranspose1d": _ANY, "ConvTranspose2d": _ANY, "PReLU": _ANY,
    "Embedding": {"padding_idx": Is(None), "max_norm": Is(None), "scale_grad_by_freq": Is(False)},
    # norms
    "BatchNorm1d": _BATCH_NORM, "BatchNorm2d": _BATCH_NORM, "LayerNorm": _ANY, "GroupNorm": _ANY, "RMSNorm": _ANY,
    "InstanceNorm1d": {"track_running_stats": Is(False)}, "InstanceNorm2d": {"track_running_stats": Is(False)},
    # sequences
    "LSTM": _RECURRENT, "GRU": _RECURRENT, "RNN": _RECURRENT,
    "MultiheadAttention": {"bias_k": Is(None), "add_zero_attn": Is(False)},
    "TransformerEncoder": _ANY, "TransformerEncoderLayer": _ANY,
    # activations
    "ReLU": _ANY, "ReLU6": _ANY, "LeakyReLU": _ANY, "ELU": _ANY, "SELU": _ANY, "GELU": _ANY, "SiLU": _ANY,
    "Mish": _ANY, "Sigmoid": _ANY, "Tanh": _ANY, "Softplus": _ANY, "Softsign": _ANY, "Hardsigmoid": _ANY,
    "Hardswish": _ANY, "Hardtanh": _ANY, "LogSigmoid": _ANY, "Softmax": _ANY, "LogSoftmax": _ANY, "Softmin": _ANY,
    "Tanhshrink": _ANY, "Threshold": _ANY, "GLU": _ANY, "Softshrink": _ANY, "Hardshrink": _ANY, "Softmax2d": _ANY,
    "Dropout": {"p": Number()},
    # pools and padding
    "MaxPool1d": _NO_INDICES, "MaxPool2d": _NO_INDICES, "AvgPool1d": _ANY, "AvgPool2d": {"divisor_override": Is(None)},
    "AdaptiveAvgPool1d": _ANY, "AdaptiveAvgPool2d": _ANY,
    "AdaptiveMaxPool1d": {"return_indices": Is(False)}, "AdaptiveMaxPool2d": {"return_indices": Is(False)},
    "ZeroPad1d": _ANY, "ZeroPad2d": _ANY, "ConstantPad1d": _ANY, "ConstantPad2d": _ANY, "ReflectionPad1d": _ANY,
    "ReflectionPad2d": _ANY, "ReplicationPad1d": _ANY, "ReplicationPad2d": _ANY,
    "PixelUnshuffle": _ANY, "ChannelShuffle": _ANY, "CosineSimilarity": _ANY, "Bilinear": _ANY,
}

# The others compute the same in training and otherwise.
MODE_MATTERS = ("BatchNorm1d", "BatchNorm2d", "Dropout", "MultiheadAttention", "TransformerEncoderLayer")


def base_of(module):
    """The class of PyTorch that a module is of, or derived from; None: it is a user's own."""
    for kind in type(module).__mro__:
        name = kind.__name__
        if kind.__module__.startswith("torch.nn.") and name != "Module" and not name.startswith("Parametrized"):
            return kind
    return None


def place_of(name, module):
    return f"{name or 'the module'} ({type(module).__name__})"


def check(module):
    """Raises ValueError with the first module that is not known to be trained as PyTorch does, and its option."""
    for name, child in module.named_modules():
        kind = base_of(child)
        if kind is None:
            continue
        known = MODULES.get(kind.__name__)
        if known is None:
            raise ValueError(f"{place_of(name, child)}: Leat does not train modules of the type {kind.__name__}; docs/python.md "
                             "lists those that it trains as PyTorch does")
        for option, values in known.items():
            value = getattr(child, option, None)
            if option == "dropout" and getattr(child, "num_layers", 2) == 1:
                continue  # it is between layers
            if value not in values:
                text = repr(value) if value is None or isinstance(value, (bool, int, float, str, tuple)) else f"a {type(value).__name__}"
                raise ValueError(f"{place_of(name, child)}: Leat does not train {kind.__name__} with {option}={text} as "
                                 f"PyTorch does; it must be {values}")
