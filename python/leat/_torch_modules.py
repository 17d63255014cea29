"""The modules of PyTorch that Leat trains as PyTorch does, with the options for which that was compared.

tests/python/test_modules.py exports, imports and trains each of them, and compares every value. Classes of a user are made of
these, and of functions that the comparison before each training judges (leat/_compare.py).
"""


from leat._options import Is, Number, Options, text_of, unknown

_ANY = Options()
_IN_PLACE = Options("inplace")
_DIM = Options("dim")
_LINEAR = Options("in_features out_features bias")
_CONVOLUTION = Options("in_channels out_channels kernel_size stride padding dilation groups bias padding_mode")
_TRANSPOSED = _CONVOLUTION | "output_padding"
_BATCH_NORM = Options("num_features eps affine bias", momentum=Number(), track_running_stats=Is(True))
_INSTANCE_NORM = Options("num_features eps momentum affine bias", track_running_stats=Is(False))
_RECURRENT = Options("mode input_size hidden_size num_layers bias batch_first bidirectional nonlinearity", dropout=Is(0, 0.0),
                     proj_size=Is(0))
_MAX_POOL = Options("kernel_size stride padding ceil_mode", return_indices=Is(False), dilation=Is(1, (1,), (1, 1)))
_ADAPTIVE_MAX_POOL = Options("output_size", return_indices=Is(False))
_PADDING = Options("padding value")

MODULES = {
    # containers
    "Sequential": _ANY, "ModuleList": Options("modules"), "ModuleDict": Options("modules"), "ParameterList": Options("values"),
    "ParameterDict": Options("parameters"), "Identity": _ANY, "Flatten": Options("start_dim end_dim"),
    "Unflatten": Options("dim unflattened_size"), "ParametrizationList": Options("modules original unsafe"), "_WeightNorm": _DIM,
    # weights
    "Linear": _LINEAR, "NonDynamicallyQuantizableLinear": _LINEAR, "Conv1d": _CONVOLUTION, "Conv2d": _CONVOLUTION,
    "ConvTranspose1d": _TRANSPOSED, "ConvTranspose2d": _TRANSPOSED, "PReLU": Options("num_parameters init"),
    "Embedding": Options("num_embeddings embedding_dim norm_type sparse _weight _freeze", padding_idx=Is(None), max_norm=Is(None),
                         scale_grad_by_freq=Is(False)),
    # norms
    "BatchNorm1d": _BATCH_NORM, "BatchNorm2d": _BATCH_NORM, "LayerNorm": Options("normalized_shape eps elementwise_affine bias"),
    "GroupNorm": Options("num_groups num_channels eps affine bias"), "RMSNorm": Options("normalized_shape eps elementwise_affine"),
    "InstanceNorm1d": _INSTANCE_NORM, "InstanceNorm2d": _INSTANCE_NORM,
    # sequences
    "LSTM": _RECURRENT, "GRU": _RECURRENT, "RNN": _RECURRENT,
    "MultiheadAttention": Options("embed_dim num_heads dropout bias add_bias_kv kdim vdim batch_first", bias_k=Is(None),
                                  add_zero_attn=Is(False)),
    "TransformerEncoder": Options("encoder_layer num_layers norm enable_nested_tensor mask_check"),
    "TransformerEncoderLayer": Options("d_model nhead dim_feedforward dropout activation layer_norm_eps batch_first norm_first bias"),
    # activations
    "ReLU": _IN_PLACE, "ReLU6": _IN_PLACE, "LeakyReLU": _IN_PLACE | "negative_slope", "ELU": _IN_PLACE | "alpha", "SELU": _IN_PLACE,
    "GELU": Options("approximate"), "SiLU": _IN_PLACE, "Mish": _IN_PLACE, "Sigmoid": _ANY, "Tanh": _ANY,
    "Softplus": Options("beta threshold"), "Softsign": _ANY, "Hardsigmoid": _IN_PLACE, "Hardswish": _IN_PLACE,
    "Hardtanh": _IN_PLACE | "min_val max_val min_value max_value", "LogSigmoid": _ANY, "Softmax": _DIM, "LogSoftmax": _DIM, "Softmin": _DIM,
    "Tanhshrink": _ANY, "Threshold": _IN_PLACE | "threshold value", "GLU": _DIM, "Softshrink": Options("lambd"),
    "Hardshrink": Options("lambd"), "Softmax2d": _ANY, "Dropout": Options("inplace", p=Number()),
    # pools and padding
    "MaxPool1d": _MAX_POOL, "MaxPool2d": _MAX_POOL, "AvgPool1d": Options("kernel_size stride padding ceil_mode count_include_pad"),
    "AvgPool2d": Options("kernel_size stride padding ceil_mode count_include_pad", divisor_override=Is(None)),
    "AdaptiveAvgPool1d": Options("output_size"), "AdaptiveAvgPool2d": Options("output_size"), "AdaptiveMaxPool1d": _ADAPTIVE_MAX_POOL,
    "AdaptiveMaxPool2d": _ADAPTIVE_MAX_POOL, "ZeroPad1d": _PADDING, "ZeroPad2d": _PADDING, "ConstantPad1d": _PADDING,
    "ConstantPad2d": _PADDING, "ReflectionPad1d": _PADDING, "ReflectionPad2d": _PADDING, "ReplicationPad1d": _PADDING,
    "ReplicationPad2d": _PADDING, "PixelUnshuffle": Options("downscale_factor"), "ChannelShuffle": Options("groups"),
    "CosineSimilarity": Options("dim eps"), "Bilinear": Options("in1_features in2_features out_features bias"),
}
# Where and as what the values are: judged before the options (leat/_torch.py).
_PLACE = "device dtype"

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


# Packages of PyTorch whose modules were made from others, and have none of their Python code.
_MADE = {"torch.jit.": "is TorchScript; pass the module that it was made from",
         "torch._dynamo.": "is compiled by torch.compile; pass the module that it was made from, _orig_mod"}


def check_form(module):
    """Raises ValueError for modules that were made from others."""
    for name, child in module.named_modules():
        for kind in type(child).__mro__:
            for package, text in _MADE.items():
                if kind.__module__.startswith(package):
                    raise ValueError(f"{place_of(name, child)} {text}")


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
        for option, values in known.values.items():
            value = getattr(child, option, None)
            if option == "dropout" and getattr(child, "num_layers", 2) == 1:
                continue  # it is between layers
            if value not in values:
                raise ValueError(f"{place_of(name, child)}: Leat does not train {kind.__name__} with {option}={text_of(value)} as "
                                 f"PyTorch does; it must be {values}")
        found = unknown(kind, child, known | _PLACE)
        if found:
            raise ValueError(f"{place_of(name, child)}: Leat has not compared {kind.__name__} with {found[0]}={text_of(found[1])}; it must "
                             f"be {text_of(found[2])}")
