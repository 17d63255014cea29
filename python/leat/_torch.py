"""Networks of PyTorch: exported through ONNX, trained by Leat's engine, and returned under their own names."""

import inspect
import io
import logging
import re
import warnings

import numpy as np

from leat._models import _Exported


class Torch(_Exported):
    """A torch.nn.Module. `inputs`: the shape of a row, without the batch; default: all features of the schema.

    The module is exported in training form, and is left as it was. A row of the stream has the numbers of an input in the
    module's order: images with channels first, or with channels last if `channels_last`.
    """

    def __init__(self, module, inputs=None, exporter=None, channels_last=False):
        super().__init__()
        self.module = module
        self.exporter = exporter
        self.channels_last = channels_last
        self.inputs = None if inputs is None else tuple(int(size) for size in inputs)
        if channels_last and (self.inputs is None or len(self.inputs) != 3):
            raise ValueError(f"channels_last is for images, such as inputs=(3, 32, 32); inputs is {inputs}")

    def row(self, inputs):
        return [*inputs[1:], inputs[0]] if self.channels_last else list(inputs)

    def export(self, inputs):
        import torch

        module = self.module
        was_training = module.training
        names = [name for name, _ in module.named_parameters()]
        if not names:
            raise ValueError("the module has no parameters")
        integers = _takes_integers(module)
        example = torch.zeros((2, *inputs), dtype=torch.float32)
        kept = {name: value.detach().clone() for name, value in module.state_dict().items()}
        try:
            module.train()
            data = _export(torch, module, example.long() if integers else example, self.exporter)
        finally:
            module.load_state_dict(kept)  # running statistics move while the module is traced
            module.train(was_training)
        _check(data, module, kept)
        return data

    def take(self, variables):
        """A state_dict of the module: tensors of its own parameters and buffers, trained."""
        import torch

        by_name = {_own_name(name): value for name, value in variables.items()}
        state, missing = {}, []
        for name, value in self.module.state_dict().items():
            found = by_name.get(_plain(name))
            if found is not None:
                state[name] = torch.from_numpy(np.array(found, dtype=np.float32).reshape(tuple(value.shape)))
                state[name] = state[name].to(value.dtype)
            elif name.endswith("num_batches_tracked"):
                state[name] = value.clone()
            elif name in dict(self.module.named_parameters()):
                missing.append(name)
            else:
                state[name] = value.clone()
        if missing:
            raise ValueError(f"the trained model lacks {', '.join(missing)}")
        return state


def _takes_integers(module):
    for child in module.modules():
        if type(child).__name__ in ("Embedding", "EmbeddingBag"):
            return True
        if any(True for _ in child.parameters(recurse=False)):
            return False
    return False


def _export(torch, module, example, exporter):
    """The file, by the exporter that is wanted, or else by the first that can."""
    ways = {"torchscript": _by_torchscript, "dynamo": _by_dynamo}
    if exporter is not None and exporter not in ways:
        raise ValueError(f"exporter is {exporter!r}; it must be torchscript or dynamo")
    failure = None
    for name, way in ways.items():
        if exporter not in (None, name):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return way(torch, module, example)
        except Exception as e:  # noqa: BLE001, whatever the exporter could not do is the user's network
            failure = failure or e
    raise ValueError(f"PyTorch cannot export the module: {_first_line(failure)}") from failure


def _first_line(error):
    return re.sub(r"\s+", " ", str(error)).strip()[:300] or type(error).__name__


def _by_torchscript(torch, module, example):
    options = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    buffer = io.BytesIO()
    torch.onnx.export(module, (example,), buffer, input_names=["features"], output_names=["outputs"],
                      dynamic_axes={"features": {0: "batch"}}, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, opset_version=17, keep_initializers_as_inputs=False, **options)
    return buffer.getvalue()


def _by_dynamo(torch, module, example):
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    buffer = io.BytesIO()
    torch.onnx.export(module, (example,), buffer, input_names=["features"], output_names=["outputs"], dynamo=True,
                      dynamic_shapes=({0: torch.export.Dim("batch")},), opset_version=18, optimize=False,
                      external_data=False, verbose=False)
    return buffer.getvalue()


def _plain(name):
    """A name as the engine has it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _own_name(name):
    """The name of a variable without that of its layer: onnx1/net.0.weight."""
    return name.split("/", 1)[1] if "/" in name else name


def _check(data, module, state):
    """Every trained parameter must be in the file under its own name, and each dropout and norm in training form."""
    present = _initializers(data)
    lost = [name for name, value in module.named_parameters() if value.requires_grad and name not in present]
    if lost:
        raise ValueError(f"PyTorch's export has lost the names of {', '.join(lost[:5])}"
                         f"{' and others' if len(lost) > 5 else ''}: the values could not be returned")
    ops = _ops(data)
    dropouts = [n for n, m in module.named_modules() if type(m).__name__.startswith("Dropout") and getattr(m, "p", 0) > 0]
    if dropouts and "Dropout" not in ops:
        raise ValueError(f"PyTorch's export has left out the dropout of {dropouts[0]}")
    norms = [n for n, m in module.named_modules() if type(m).__name__.startswith("BatchNorm")]
    if norms and "BatchNormalization" not in ops:
        raise ValueError(f"PyTorch's export has folded the batch norm of {norms[0]}")


def _fields(data):
    """Fields of a protobuf message: (number, value); values of length-delimited fields are memoryviews."""
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


def _graph(data):
    return next(value for number, value in _fields(memoryview(data)) if number == 7)


def _initializers(data):
    return {bytes(value).decode() for number, tensor in _fields(_graph(data)) if number == 5
            for field, value in _fields(tensor) if field == 8}


def _ops(data):
    return {bytes(value).decode() for number, node in _fields(_graph(data)) if number == 1
            for field, value in _fields(node) if field == 4}
