"""The layers of Keras that Leat trains as Keras does, with the options for which that was compared.

tests/python/test_keras.py exports, imports and trains them, and compares every value. Layers of a user's own classes are judged
by the comparison before each training (leat/_compare.py).
"""

_ANY = {}
_RECURRENT = {"dropout": 0, "recurrent_dropout": 0, "stateful": False, "return_state": False}

# By class: the options that must have a certain value. Others are free.
LAYERS = {
    "InputLayer": _ANY, "Functional": _ANY, "Sequential": _ANY, "Model": _ANY,
    "Dense": {"lora_rank": None, "quantization_mode": None}, "EinsumDense": {"lora_rank": None, "quantization_mode": None},
    "Embedding": {"mask_zero": False, "lora_rank": None, "quantization_mode": None},
    "Conv1D": {"lora_rank": None}, "Conv2D": {"lora_rank": None}, "Conv2DTranspose": _ANY, "Conv1DTranspose": _ANY,
    "DepthwiseConv2D": _ANY, "SeparableConv2D": _ANY,
    "BatchNormalization": {"renorm": False, "virtual_batch_size": None, "synchronized": False}, "LayerNormalization": _ANY,
    "GroupNormalization": _ANY, "UnitNormalization": _ANY,
    "LSTM": _RECURRENT, "GRU": _RECURRENT, "SimpleRNN": _RECURRENT, "Bidirectional": _ANY, "TimeDistributed": _ANY,
    "Activation": _ANY, "ReLU": _ANY, "LeakyReLU": _ANY, "ELU": _ANY, "Softmax": _ANY,
    "Flatten": _ANY, "Reshape": _ANY, "Permute": _ANY, "RepeatVector": _ANY, "Rescaling": _ANY,
    "Add": _ANY, "Subtract": _ANY, "Multiply": _ANY, "Average": _ANY, "Maximum": _ANY, "Minimum": _ANY, "Concatenate": _ANY,
    "Dot": _ANY, "MaxPooling1D": _ANY, "MaxPooling2D": _ANY, "AveragePooling1D": _ANY, "AveragePooling2D": _ANY,
    "GlobalAveragePooling1D": _ANY, "GlobalAveragePooling2D": _ANY, "GlobalMaxPooling1D": _ANY, "GlobalMaxPooling2D": _ANY,
    "ZeroPadding1D": _ANY, "ZeroPadding2D": _ANY, "Cropping1D": _ANY, "Cropping2D": _ANY,
    "Dropout": {"rate": 0}, "SpatialDropout1D": {"rate": 0}, "SpatialDropout2D": {"rate": 0}, "GaussianNoise": {"stddev": 0},
    "GaussianDropout": {"rate": 0}, "AlphaDropout": {"rate": 0},
}


# A model's own ones are not called: the network alone goes to Leat.
_TRAINING = ("train_step", "compute_loss", "compute_loss_and_updates")


def base_of(layer):
    """The class of Keras that a layer is of, or derived from; None: it is a user's own."""
    for kind in type(layer).__mro__:
        if kind.__module__.split(".")[0] in ("keras", "tf_keras"):
            return None if kind.__name__ == "Layer" else kind
    return None


def all_layers(model):
    """The layers of a model, with those nested in others."""
    return list(model._flatten_layers(include_self=False))


def check(model):
    """Raises ValueError with the first layer that is not known to be trained as Keras does, and its option."""
    _check_training(model)
    for layer in all_layers(model):
        kind = base_of(layer)
        place = f"the layer {layer.name} ({type(layer).__name__})"
        policy = getattr(layer, "dtype_policy", None)
        for what in ("compute_dtype", "variable_dtype"):
            dtype = getattr(policy, what, None) or "float32"
            if dtype != "float32" and layer.weights:
                raise ValueError(f"{place}: its {what} is {dtype}; Leat trains float32")
        if kind is None:
            continue
        # Cells are in layers, whose options are checked.
        known = _ANY if kind.__name__.endswith("Cell") else LAYERS.get(kind.__name__)
        if known is None:
            raise ValueError(f"{place}: Leat does not train layers of the type {kind.__name__}; docs/python.md lists those that "
                             "it trains as Keras does")
        for option, value in known.items():
            found = getattr(layer, option, value)
            if found != value:
                raise ValueError(f"{place}: Leat does not train {kind.__name__} with {option}={found!r} as Keras does; it must "
                                 f"be {value!r}")
        for option, found in sorted(vars(layer).items()):
            if option.endswith(("_regularizer", "_constraint")) and found is not None and found != []:
                raise ValueError(f"{place}: Leat does not train with {option.lstrip('_')}={type(found).__name__}; it must be "
                                 "None")
    # Layers of a user's own hand these to their weights.
    for weight in model.trainable_weights:
        for option in ("regularizer", "constraint"):
            found = getattr(weight, option, None)
            if found is not None:
                raise ValueError(f"the weight {getattr(weight, 'path', weight.name)}: Leat does not train with "
                                 f"{option}={type(found).__name__}; it must be None")


def _check_training(model):
    kind = base_of(model)
    if kind is not None and kind.__name__ not in ("Model", "Functional", "Sequential"):
        raise ValueError(f"the model {model.name}: Leat does not train models of the type {kind.__name__}; docs/python.md lists what it "
                         "trains as Keras does")
    for method in _TRAINING:
        made_in = getattr(getattr(model, method, None), "__module__", "keras")
        if made_in.split(".")[0] not in ("keras", "tf_keras"):
            raise ValueError(f"the model {model.name} ({type(model).__name__}) has its own {method}, which Leat does not call; "
                             "keras.Model(model.inputs, model.outputs) is the network alone")


def check_losses(model):
    """Raises ValueError if the last call of a model has added losses to that of the training."""
    adding = [layer for layer in [model, *all_layers(model)] if getattr(layer, "losses", None)]
    if adding:  # the last one has no other inside
        raise ValueError(f"the layer {adding[-1].name} ({type(adding[-1]).__name__}) adds a loss, by add_loss or a regularizer; "
                         "Leat does not train with it")
