"""Networks of PyTorch: exported through ONNX, trained by Leat's engine, and returned under their own names.

PyTorch says what is trained: parameters with requires_grad, and the running statistics of norms in training mode. Their names
and this treatment travel in the file. Everything else is a constant of the graph, wherever it is.
"""

import contextlib
import inspect
import io
import logging
import warnings

import numpy as np

from leat import _compare, _native, _onnx_file, _torch_code, _torch_modules
from leat._models import _Exported, quietly
from leat._torch_code import Kept, first_line, undropped


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
        _torch_modules.check_form(module)
        _check_parameters(torch, module)
        _torch_modules.check(module)
        with torch.random.fork_rng(devices=[]), _uncompiled(module), Kept(torch, module) as kept:
            modes = {child: child.training for child in module.modules()}
            was_training = module.training
            module.train()
            if was_training:
                _check_modes(module, modes)
            integers = _takes_integers(torch, module, inputs)
            _torch_code.check(torch, module, kept, inputs, integers)
            example = torch.zeros((2, *inputs), dtype=torch.int64 if integers else torch.float32)
            data = _export(torch, module, example, self.exporter)
            kept.restore()  # a trace moves running statistics before they are written
            data = _onnx_file.with_values(data, {name: value.detach().numpy() for name, value in module.named_buffers()
                                                 if value.dtype == torch.float32})
            found = _onnx_file.initializers(data)
            homes = _homes(torch, module, set(found))
            treatments = {home: what for home, what in homes.values() if home}
            data = _onnx_file.with_treatments(data, treatments)
            trained = [name for name in found if treatments.get(name) in ("trained", "statistic")]
            self._variables = _onnx_file.variable_names(trained)
            self._homes = {name: self._variables.get(home) for name, (home, _) in homes.items()}
            self._constants = {name: value.detach().clone() if isinstance(value, torch.Tensor) else value
                               for name, value in module.state_dict().items() if self._homes.get(name) is None}
            _compare_with(torch, module, kept, data, inputs, integers, homes, self._variables)
        return data

    def take(self, variables):
        """A state_dict of the module: tensors of its own parameters and buffers, trained."""
        import torch

        by_name = {_onnx_file.own_name(name): value for name, value in variables.items()}
        state = {}
        for name, value in self.module.state_dict().items():
            found = by_name.get(self._homes.get(name))
            if found is not None:
                state[name] = torch.from_numpy(np.array(found, dtype=np.float32).reshape(tuple(value.shape)))
            else:  # it is not trained, or the output does not depend on it
                value = self._constants.get(name, value)
                state[name] = value.detach().clone() if isinstance(value, torch.Tensor) else value
        return state


# ---- the module

def _check_parameters(torch, module):
    for name, value in _all_tensors(module):
        if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
            raise ValueError(f"{name} has no shape yet; pass a batch through the module first")
        if any(size > 1 and stride == 0 for size, stride in zip(value.shape, value.stride())):
            raise ValueError(f"{name} is an expanded tensor: its elements share memory, so they cannot have values of their own; "
                             "its clone() can")
    parameters = dict(module.named_parameters())
    if not parameters:
        raise ValueError("the module has no parameters")
    if not any(value.requires_grad for value in parameters.values()):
        raise ValueError("no parameter of the module is trained: requires_grad is False for all")
    for name, value in parameters.items():
        if value.requires_grad and value.dtype != torch.float32:
            raise ValueError(f"the parameter {name} is {str(value.dtype).removeprefix('torch.')}; Leat trains float32: "
                             "module.float() converts it")
        if value._backward_hooks or getattr(value, "_post_accumulate_grad_hooks", None):
            raise ValueError(f"the parameter {name} has a hook on its gradient, which Leat does not call")
    for name, child in module.named_modules():
        if child._backward_hooks or getattr(child, "_backward_pre_hooks", None):  # PyTorch 1 has no hooks before a backward pass
            raise ValueError(f"{_torch_modules.place_of(name, child)} has a hook on its gradients, which Leat does not call")


def _check_modes(module, modes):
    """A child in evaluation mode stays in it if the module sees to that itself, as training loops call module.train()."""
    for name, child in module.named_modules():
        kind = _torch_modules.base_of(child)
        if child.training and not modes[child] and (kind is None or kind.__name__ in _torch_modules.MODE_MATTERS):
            raise ValueError(f"{_torch_modules.place_of(name, child)} is in evaluation mode, and module.train() ends that; "
                             "override train() to keep it, or call module.train() first")


@contextlib.contextmanager
def _uncompiled(module):
    """Calls run the code as it is written: after module.compile(), each shape of rows would be compiled for seconds."""
    name = "_compiled_call_impl"
    kept = [(vars(child), vars(child).pop(name)) for child in module.modules() if name in vars(child)]
    try:
        yield
    finally:
        for holder, value in kept:
            holder[name] = value


def _all_tensors(module):
    """Parameters, then buffers, by all their names. PyTorch 1 has no `remove_duplicate` for them."""
    children = list(module.named_modules(remove_duplicate=False))
    return [(f"{prefix}.{name}" if prefix else name, value) for kind in ("_parameters", "_buffers")
            for prefix, child in children for name, value in getattr(child, kind).items() if value is not None]


def _homes(torch, module, present):
    """By the name of each parameter and buffer: the initializer that it is in the file, None if there is none, and what
    training does with it. A tensor that has several names is one initializer."""
    moving = set()
    for child in module.modules():
        kind = _torch_modules.base_of(child)
        if kind is not None and kind.__name__.startswith("BatchNorm") and child.training:
            moving |= {id(child.running_mean), id(child.running_var)}
    groups = {}
    for name, value in _all_tensors(module):
        groups.setdefault(id(value), (value, []))[1].append(name)
    homes = {}
    for value, names in groups.values():
        written = [name for name in names if name in present]
        if len(written) > 1:
            raise ValueError(f"PyTorch's export has copied {written[0]} to {written[1]}: the copies would be trained apart")
        treatment = ("statistic" if id(value) in moving else
                     "trained" if isinstance(value, torch.nn.Parameter) and value.requires_grad else "constant")
        homes.update((name, (written[0] if written else None, treatment)) for name in names)
    return homes


def _takes_integers(torch, module, inputs):
    """Whether the module takes ids: it fails for other numbers."""
    failures = []
    modes = {child: child.training for child in module.modules()}
    for kind in (torch.float32, torch.int64):
        try:
            module.eval()
            with torch.no_grad():
                made = module(torch.zeros((2, *inputs), dtype=kind))
        except Exception as e:  # noqa: BLE001, whatever the module raises
            failures.append(e)
            continue
        finally:
            for child, training in modes.items():
                child.training = training
        if not isinstance(made, torch.Tensor):
            count = f"{len(made)} values" if isinstance(made, (tuple, list, dict)) else f"a {type(made).__name__}"
            raise ValueError(f"the module returns {count}; Leat trains a module that returns one tensor: wrap it in one that "
                             "does")
        if made.dtype != torch.float32 or made.dim() == 0 or made.shape[0] != 2:
            raise ValueError(f"the module returns {str(made.dtype).removeprefix('torch.')}{list(made.shape)} for a batch of 2 "
                             "rows; its first axis must be the batch, and its numbers float32")
        return kind == torch.int64
    tables = any(isinstance(child, torch.nn.Embedding) for child in module.modules())
    failure = failures[1 if tables else 0]
    raise ValueError(f"the module fails for rows of the shape {list(inputs)}: {first_line(failure)}") from failure


# ---- the file

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
            with warnings.catch_warnings(), quietly():
                warnings.simplefilter("ignore")
                return way(torch, module, example)
        except Exception as e:  # noqa: BLE001, whatever the exporter could not do is the user's network
            failure = failure or e
    raise ValueError(f"PyTorch cannot export the module: {first_line(failure)}") from failure


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


# ---- the comparison

class _Steps:
    """Plain gradient descent by PyTorch, on the mean squared error."""

    def __init__(self, torch, module, integers):
        self._torch, self._module, self._integers = torch, module, integers
        self.before = self.values()

    def values(self):
        return {name: _torch_code.numpy_of(value.detach().clone()) for name, value in _all_tensors(self._module)}

    def _rows(self, rows):
        rows = self._torch.tensor(rows)  # a copy, which code may change in place
        return rows.long() if self._integers else rows

    def predict(self, rows):
        modes = {child: child.training for child in self._module.modules()}
        try:
            self._module.eval()
            with self._torch.no_grad():
                return _torch_code.numpy_of(self._module(self._rows(rows)).reshape(len(rows), -1))
        finally:
            for child, training in modes.items():
                child.training = training

    def gradients(self, rows, labels):
        """The gradient of each parameter that the loss depends on, by the parameter's first name."""
        self._module.zero_grad(set_to_none=True)
        with self._torch.enable_grad():
            made = self._module(self._rows(rows)).reshape(len(rows), -1)
            self._torch.nn.functional.mse_loss(made, self._torch.from_numpy(labels)).backward()
        return {name: value.grad.detach().clone() for name, value in self._module.named_parameters() if value.grad is not None}

    def apply(self, gradients, rate):
        parameters = dict(self._module.named_parameters())
        with self._torch.no_grad():
            for name, gradient in gradients.items():
                parameters[name].sub_(rate * (gradient.to_dense() if gradient.is_sparse else gradient))


class _Variances:
    """Running variances without Bessel's correction, as ONNX defines them."""

    def __init__(self, module):
        self._norms, self._hooks, self._calls = {}, [], {}
        for name, child in module.named_modules():
            kind = _torch_modules.base_of(child)
            if kind is not None and kind.__name__.startswith("BatchNorm") and child.training:
                self._norms[f"{name}.running_var" if name else "running_var"] = child
                self._hooks.append(child.register_forward_hook(self._seen))

    def _seen(self, child, inputs, _):
        if child.training:
            self._calls[child] = (self._calls.get(child, (0, 0))[0] + 1, inputs[0].numel() // inputs[0].shape[1])

    def begin(self):
        self._calls.clear()

    def end(self):
        for hook in self._hooks:
            hook.remove()

    def moved(self, values, before, expected):
        """`values` with running variances that have moved from `expected` as PyTorch's have from `before`."""
        values = dict(values)
        for name, child in self._norms.items():
            calls, count = self._calls.get(child, (0, 0))
            if calls > 1:
                raise ValueError(f"{name.rpartition('.')[0]} ({type(child).__name__}) is called {calls} times in a step; Leat "
                                 "moves its running statistics once")
            if calls == 1 and count > 1:
                keep = 1 - child.momentum
                values[name] = keep * expected[name] + (values[name] - keep * before[name]) * (count - 1) / count
        return values


def _compare_with(torch, module, kept, data, inputs, integers, homes, variables):
    """Raises ValueError with the first value in which Leat and PyTorch differ."""
    plain, dropped = _onnx_file.without_dropout(data)
    steps = _Steps(torch, module, integers)
    rates = []

    def compare(rows, *options):
        kept.restore()
        variances = _Variances(module)
        try:
            with undropped(torch, rates):
                return _compare_rows(steps, variances, plain, inputs, rows, homes, variables, *options)
        finally:
            variances.end()

    failure = None
    for rows in _compare.kinds_of_rows(inputs, min(_torch_code.tables_of(torch, module), default=0)):
        rates.clear()
        try:
            ids, rate = compare(rows)
        except _compare.Unfit as e:
            failure = failure or e
            continue
        called = sorted(round(rate, 6) for rate in rates)
        if called != sorted(_compare.STEPS * [round(rate, 6) for rate in dropped]):
            raise ValueError(f"PyTorch's export has dropout with the rates {dropped}; in a step, the module has dropout with "
                             f"{called[::_compare.STEPS]}")
        break
    else:
        raise ValueError(f"the module cannot be compared with its export: {failure}")
    with undropped(torch, rates):
        _compare_copies(kept, steps, rows[0])
        for factor, others, moved in _compare.scales(rows, ids):
            try:
                # Where roundings matter as much, nothing is concluded.
                outputs, gradients = ([_made(kept, steps, made[0], trains) for made in (others, others if integers else moved)]
                                      for trains in (False, True))
                if _compare.alike(*outputs, 1e-4):
                    compare(others, 100 * rate, 1 if _compare.alike(*gradients, 1e-4) else 0)
                    break
            except (_compare.Unfit, _native.NotFiniteError):
                continue
            except ValueError as e:
                raise ValueError(f"for rows {factor} times as large, {e}") from e


def _made(kept, steps, rows, trains):
    """The outputs in evaluation mode, or the gradients of a step."""
    kept.restore()
    kept.restore_attributes()
    try:
        made = steps.predict(rows)
        if not trains:
            return [made]
        labels = np.resize(_compare.labels_of(made.shape[1])[0], made.shape)
        return [_torch_code.numpy_of(g) for g in steps.gradients(rows, labels).values()]
    except Exception as e:  # noqa: BLE001, whatever the module raises
        raise _compare.Unfit(first_line(e)) from e


def _compare_copies(kept, steps, rows):
    """Raises ValueError if outputs or gradients depend on the number of rows."""
    few, many = _made(kept, steps, rows, False)[0], np.concatenate(_compare.COPIES * [rows])
    _compare.check_count(1, [few[-1:]], lambda: _made(kept, steps, rows[-1:], False))
    _compare.check_count(len(many), _compare.COPIES * [few],
                         lambda: np.split(_made(kept, steps, many, False)[0], _compare.COPIES))
    _compare.check_count(len(many), _made(kept, steps, rows, True), lambda: _made(kept, steps, many, True))


def _compare_rows(steps, variances, data, inputs, rows, homes, variables, most=np.inf, count=_compare.STEPS):
    """The trial's ids and its learning rate, `most` at most."""
    try:
        expected = steps.predict(rows[0])
        labels = _compare.labels_of(expected.shape[1])
        variances.begin()
        gradients = steps.gradients(rows[0], labels[0])
    except Exception as e:  # noqa: BLE001, whatever the module raises
        raise _compare.Unfit(first_line(e)) from e
    if not np.isfinite(expected).all() or not all(bool(g.isfinite().all()) for g in gradients.values() if not g.is_sparse):
        raise _compare.Unfit("its outputs or gradients are not finite for random rows")
    lost = [name for name in gradients if homes[name][0] is None]
    if lost:
        raise ValueError(f"PyTorch's export has lost the names of {', '.join(lost[:5])}"
                         f"{' and others' if len(lost) > 5 else ''}: the values could not be returned")
    rate = min(most, _compare.rate_of([(steps.before[name], _torch_code.numpy_of(g)) for name, g in gradients.items()]))
    trial = _compare.Trial(data, inputs, expected.shape[1], rate)
    found = trial.predict(rows[0], most)
    if _compare.differs(expected, found):
        raise ValueError("the exported network computes otherwise than the module in evaluation mode: its outputs differ by "
                         f"{float(np.abs(expected - found).max()):.2g}")
    before = wanted = steps.before
    for step in range(count):
        if step > 0:
            variances.begin()
            gradients = steps.gradients(rows[step], labels[step])
        steps.apply(gradients, rate)
        values = steps.values()
        wanted = variances.moved(values, before, wanted)
        before = values
        trial.step(rows[step], labels[step])
        _compare_values(steps, wanted, trial.values(), homes, variables)
    return trial.ids, rate


def _compare_values(steps, wanted, found, homes, variables):
    most = max(_compare.moved(values, steps.before[name]) for name, values in wanted.items()
               if homes[name][1] == "trained")
    for name, values in wanted.items():
        if name.endswith("num_batches_tracked"):
            continue
        start = steps.before[name]
        own = found.get(variables.get(homes[name][0]))
        own = start if own is None else own.reshape(start.shape)
        if not _compare.moves_differ(values, own, start, most):
            continue
        owner = steps._module.get_submodule(name.rpartition(".")[0])
        raise ValueError(f"{name} of {_torch_modules.place_of(name.rpartition('.')[0], owner)}: a step of PyTorch moves it by "
                         f"{_compare.moved(values, start):.3g}, and one of Leat by {_compare.moved(own, start):.3g} "
                         f"(they differ by {_compare.moved(own, values):.2g}); Leat cannot train this module")
