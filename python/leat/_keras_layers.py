"""The layers of Keras that Leat trains as Keras does, with the options for which that was compared.

tests/python/test_keras.py exports, imports and trains them, and compares every value. Layers of a user's own classes are judged
by the comparison before each training (leat/_compare.py).
"""

from leat._options import Is, Options, text_of, unknown

_ANY = Options()
_AXIS = Options("axis")
_SHAPED = Options("data_format padding cropping strides")
_POOL = _SHAPED | "pool_size pool_function pool_dimensions pool_mode"
_GLOBAL_POOL = _SHAPED | "keepdims pool_dimensions"
_CONVOLUTION = Options("filters kernel_size strides padding output_padding data_format dilation_rate groups depth_multiplier activation "
                       "use_bias rank conv_op", lora_rank=Is(None))
_SCALED = Options("axis epsilon center scale groups")
_RECURRENT = Options("units activation recurrent_activation use_bias unit_forget_bias return_sequences go_backwards unroll reset_after "
                     "use_cudnn cell zero_output_for_mask", dropout=Is(0, 0.0), recurrent_dropout=Is(0, 0.0), stateful=Is(False),
                     return_state=Is(False))
_NETWORK = Options("inputs outputs layers")
# Their other options matter to values that are not 0.
_DROPOUT = Options("noise_shape data_format", rate=Is(0, 0.0))

LAYERS = {
    "InputLayer": Options("shape input_shape batch_size batch_shape input_tensor sparse ragged type_spec optional"),
    "Functional": _NETWORK, "Sequential": _NETWORK, "Model": _NETWORK,
    "Dense": Options("units activation use_bias", lora_rank=Is(None), quantization_mode=Is(None)),
    "EinsumDense": Options("equation output_shape activation bias_axes", lora_rank=Is(None), quantization_mode=Is(None)),
    "Embedding": Options("input_dim output_dim input_length weights", mask_zero=Is(False), lora_rank=Is(None), quantization_mode=Is(None)),
    "Conv1D": _CONVOLUTION, "Conv2D": _CONVOLUTION, "Conv2DTranspose": _CONVOLUTION, "Conv1DTranspose": _CONVOLUTION,
    "DepthwiseConv2D": _CONVOLUTION, "SeparableConv2D": _CONVOLUTION,
    "BatchNormalization": Options("axis momentum epsilon center scale fused adjustment renorm_clipping renorm_momentum", renorm=Is(False),
                                  virtual_batch_size=Is(None), synchronized=Is(False)),
    "LayerNormalization": _SCALED, "GroupNormalization": _SCALED, "UnitNormalization": _AXIS,
    "LSTM": _RECURRENT, "GRU": _RECURRENT, "SimpleRNN": _RECURRENT, "Bidirectional": Options("layer merge_mode weights backward_layer"),
    "TimeDistributed": Options("layer"),
    "Activation": Options("activation"), "ReLU": Options("max_value negative_slope threshold"),
    "LeakyReLU": Options("alpha negative_slope"), "ELU": Options("alpha"), "Softmax": _AXIS,
    "Flatten": Options("data_format"), "Reshape": Options("target_shape"), "Permute": Options("dims"), "RepeatVector": Options("n"),
    "Rescaling": Options("scale offset"),
    "Add": _ANY, "Subtract": _ANY, "Multiply": _ANY, "Average": _ANY, "Maximum": _ANY, "Minimum": _ANY, "Concatenate": _AXIS,
    "Dot": Options("axes normalize"), "MaxPooling1D": _POOL, "MaxPooling2D": _POOL, "AveragePooling1D": _POOL, "AveragePooling2D": _POOL,
    "GlobalAveragePooling1D": _GLOBAL_POOL, "GlobalAveragePooling2D": _GLOBAL_POOL, "GlobalMaxPooling1D": _GLOBAL_POOL,
    "GlobalMaxPooling2D": _GLOBAL_POOL, "ZeroPadding1D": _SHAPED, "ZeroPadding2D": _SHAPED, "Cropping1D": _SHAPED, "Cropping2D": _SHAPED,
    "Dropout": _DROPOUT, "SpatialDropout1D": _DROPOUT, "SpatialDropout2D": _DROPOUT, "GaussianNoise": Options(stddev=Is(0, 0.0)),
    "GaussianDropout": _DROPOUT, "AlphaDropout": _DROPOUT,
}
# Options of every layer: another check judges them, or they have no influence on how it trains.
_OF_LAYERS = "trainable name dtype dynamic autocast seed force_generator rng_type"
_JUDGED = ("_initializer", "_regularizer", "_constraint")


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
        if not kind.__name__.endswith("Cell"):  # cells are in layers, whose options are checked
            _check_options(place, kind, layer)
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


def _check_options(place, kind, layer):
    known = LAYERS.get(kind.__name__)
    if known is None:
        raise ValueError(f"{place}: Leat does not train layers of the type {kind.__name__}; docs/python.md lists those that "
                         "it trains as Keras does")
    for option, values in known.values.items():
        if hasattr(layer, option) and getattr(layer, option) not in values:
            raise ValueError(f"{place}: Leat does not train {kind.__name__} with {option}={getattr(layer, option)!r} as Keras does; it "
                             f"must be {values}")
    found = unknown(kind, layer, known | _OF_LAYERS, _JUDGED)
    if found:
        raise ValueError(f"{place}: Leat has not compared {kind.__name__} with {found[0]}={text_of(found[1])}; it must be "
                         f"{text_of(found[2])}")


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
