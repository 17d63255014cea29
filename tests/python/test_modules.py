"""Modules of PyTorch, trained by Leat's engine: losses and values are those of PyTorch."""

# folders: compute/onnx python

import copy
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import leat
from leat import _native, _yaml

GOLDENS = Path(__file__).resolve().parents[1] / "goldens/modules"
MADE = json.loads((GOLDENS / "modules.json").read_text(encoding="utf-8"))
BATCH, CLASSES, STEPS = 16, 4, 100


def numbers(salt, count):
    i = np.arange(count, dtype=np.uint64)
    h = (i * np.uint64(2654435761) + np.uint64(salt) * np.uint64(40503) + np.uint64(12345)) & np.uint64(0xFFFFFFFF)
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    h ^= h >> np.uint64(13)
    return ((h >> np.uint64(8)).astype(np.float64) / 2.0**23 - 1.0).astype(np.float32)


def batch(step, shape):
    x = numbers(1000 + step % 8, BATCH * int(np.prod(shape))).reshape(BATCH, *shape)
    flat = x.reshape(BATCH, -1)
    labels = (flat[:, ::3].sum(axis=1) > 0).astype(np.int64) * 2 + (flat[:, 1::3].sum(axis=1) > 0)
    return x, labels


def learner_of(file, shape, rate=0.05):
    settings = {"model": {"inputs": list(shape), "layers": [{"onnx": {"file": str(file)}}],
                          "loss": "softmax_cross_entropy"},
                "optimizer": {"type": "sgd", "learning_rate": rate}, "batch_size": BATCH}
    return _native.Learner(_yaml.dump(settings), "modules", "", int(np.prod(shape)), 1)


def train(learner, shape):
    losses = []
    for step in range(STEPS):
        x, labels = batch(step, shape)
        events, loss, _, _ = learner.learn(x, labels)
        losses.append(loss / events)
    return losses


def compare(losses, expected, spread):
    for step, (loss, torchs) in enumerate(zip(losses, expected)):
        assert abs(loss - torchs) <= max(1e-4, 2 * spread) * abs(torchs), f"step {step}: {loss}, PyTorch {torchs}"


@pytest.mark.parametrize("file", sorted(path.stem for path in GOLDENS.glob("*.onnx")))
def test_losses_are_those_of_pytorch(file):
    golden = MADE[file.removesuffix("_dynamo")]
    learner = learner_of(GOLDENS / f"{file}.onnx", golden["inputs"], golden["rate"])
    compare(train(learner, golden["inputs"]), golden["losses"], golden["spread"])
    values = {key.split("/", 1)[1]: np.asarray(value) for key, value, _ in learner.variables()}
    assert {golden["tied"].get(key, key) for key in values} == {golden["tied"].get(key, key) for key in golden["sums"]}
    for key, value in values.items():
        # PyTorch's running variance has Bessel's correction, that of ONNX has not.
        exact = 1e-2 if key.endswith("running_var") else 1e-3
        assert value.astype(np.float64).sum() == pytest.approx(golden["sums"][key], rel=exact, abs=1e-3), key


# ---- with PyTorch itself

@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", MADE)
def test_a_module_of_this_pytorch(name, exporter):
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(GOLDENS))
    import modules

    module = modules.make(name)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    classifier = leat.Classifier(leat.Torch(module, modules.INPUTS[name], exporter), optimizer=leat.SGD(MADE[name]["rate"]), batch_size=BATCH)
    shape = modules.INPUTS[name]
    losses = []
    for step in range(STEPS):
        x, labels = batch(step, shape)
        classifier.partial_fit(x.reshape(BATCH, -1), labels, classes=range(CLASSES))
    for key, value in module.state_dict().items():
        assert torch.equal(value, before[key]), f"the export has changed {key}"
    one, trained = modules.train(name, 1)
    two, _ = modules.train(name, 2)
    spread = max(abs(a - b) / abs(a) for a, b in zip(one, two))
    learner = learner_of_module(module, shape, MADE[name]["rate"], exporter)
    losses = train(learner, shape)
    compare(losses, one, spread)

    state = classifier.state_dict()
    module.load_state_dict(state)
    for key, value in trained.state_dict().items():
        if not key.endswith("num_batches_tracked"):
            torch.testing.assert_close(state[key], value, rtol=1e-2, atol=1e-3)


@pytest.mark.long
def test_rows_with_channels_last():
    pytest.importorskip("torch")
    sys.path.insert(0, str(GOLDENS))
    import modules

    shape = modules.INPUTS["separable"]
    x, labels = batch(0, shape)
    first, last = (leat.Classifier(leat.Torch(modules.make("separable"), shape, channels_last=last), random_state=1)
                   for last in (False, True))
    first.partial_fit(x.reshape(BATCH, -1), labels, classes=range(CLASSES))
    last.partial_fit(np.ascontiguousarray(np.moveaxis(x, 1, -1)).reshape(BATCH, -1), labels, classes=range(CLASSES))
    for name, value in first.state_dict().items():
        np.testing.assert_allclose(value.numpy(), last.state_dict()[name].numpy(), rtol=1e-3, atol=1e-5)


def learner_of_module(module, shape, rate=0.05, exporter=None):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "module.onnx"
        file.write_bytes(leat.Torch(module, shape, exporter).export(shape))
        return learner_of(file, shape, rate)


def trained_by_both(module, shape, exporter=None, rate=0.1, steps=6, batch=16):
    """The states of both after the same steps of plain gradient descent, and the estimator."""
    torch = pytest.importorskip("torch")
    ids = any(isinstance(child, torch.nn.Embedding) for child in module.modules())
    random = np.random.RandomState(0)
    count = int(np.prod(shape))
    X = (random.randint(0, 7, (steps * batch, count)) if ids else random.normal(size=(steps * batch, count))).astype(np.float32)
    y = random.randint(0, 3, steps * batch)
    twin = copy.deepcopy(module)
    classifier = leat.Classifier(leat.Torch(module, shape, exporter), optimizer=leat.SGD(rate), batch_size=batch)
    optimizer = torch.optim.SGD([value for value in twin.parameters() if value.requires_grad], rate)
    twin.train()
    for step in range(steps):
        rows = slice(batch * step, batch * (step + 1))
        classifier.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
        x = torch.from_numpy(X[rows]).reshape(batch, *shape)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(twin(x.long() if ids else x), torch.from_numpy(y[rows])).backward()
        optimizer.step()
    home = copy.deepcopy(module)
    home.load_state_dict(classifier.state_dict())
    x = torch.from_numpy(X[:batch]).reshape(batch, *shape)
    expected = home.eval()(x.long() if ids else x).softmax(-1).detach().numpy()
    np.testing.assert_allclose(classifier.predict_proba(X[:batch]), expected, atol=1e-4)
    return classifier.state_dict(), twin.state_dict(), classifier


def assert_trained_alike(module, shape, exporter=None, moves=(), stays=(), **options):
    """Every value is PyTorch's; those named have moved, or have not at all."""
    start = {key: value.clone() for key, value in module.state_dict().items()}
    mine, theirs, classifier = trained_by_both(module, shape, exporter, **options)
    for key, value in module.state_dict().items():
        assert value.equal(start[key]), f"training has changed {key} of the module itself"
    assert list(mine) == list(theirs)
    for key, value in theirs.items():
        if key.endswith("num_batches_tracked"):
            continue
        # PyTorch's running variance has Bessel's correction.
        bound = 0.1 if key.endswith("running_var") else 2e-3
        way = float((value - start[key]).abs().max()) if value.numel() else 0
        assert mine[key].dtype == value.dtype and mine[key].shape == value.shape, key
        np.testing.assert_allclose(mine[key].numpy(), value.numpy(), atol=bound * way + 2e-6, rtol=2e-6, err_msg=key)
    for key in moves:
        assert float((mine[key] - start[key]).abs().max()) > 1e-4, key
    for key in stays:
        assert mine[key].equal(start[key]), key
    return mine, classifier


def refused(text, module, shape=(5,), exporter=None):
    """An error of one line before anything starts; the module stays as it is."""
    torch = pytest.importorskip("torch")
    start = {key: value.clone() for key, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    modes = [child.training for child in module.modules()]
    with pytest.raises(ValueError, match=text) as error:
        learner_of_module(module, shape, exporter=exporter)
    assert "\n" not in str(error.value)
    for key, value in start.items():
        assert module.state_dict()[key].equal(value), key
    assert [child.training for child in module.modules()] == modes


def module_of(forward, **parameters):
    """A module with these parameters, buffers and layers, and a linear layer `l` of 5 inputs and 3 outputs."""
    torch = pytest.importorskip("torch")

    class Made(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            for name, value in parameters.items():
                if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                    self.register_buffer(name, value)
                else:
                    setattr(self, name, value)
            self.l = torch.nn.Linear(5, 3)

        def forward(self, x):
            return forward(self, x)

    return Made()


def pytorch_cases():
    try:
        import torch_cases
    except ImportError:  # without PyTorch
        return ["PyTorch"]
    return list(torch_cases.CASES)


# Cases that a single exporter can export: the other has no form of them, or one with unsupported ops.
ONLY = {"torchscript": {"Mish", "Conv2d circular", "RNN deep"},
        "dynamo": {"Threshold", "Bilinear", "RMSNorm", "RMSNorm plain", "ChannelShuffle"}}


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", pytorch_cases())
def test_each_module_of_the_list(name, exporter):
    pytest.importorskip("torch")
    import torch_cases

    module, shape = torch_cases.make(name)
    if any(name in names for other, names in ONLY.items() if other != exporter):
        refused("cannot export|not supported", module, shape, exporter)
        exporter = None  # the first that can
    assert_trained_alike(module, shape, exporter, moves=[key for key, _ in module.named_parameters() if "bias" not in key][-1:])


@pytest.mark.long
def test_the_list_has_a_case_for_each_module():
    pytest.importorskip("torch")
    import torch_cases
    from leat import _options, _torch_modules

    seen = {_torch_modules.base_of(child) for name in torch_cases.CASES for child in torch_cases.make(name)[0].modules()} - {None}
    assert set(_torch_modules.MODULES) == {kind.__name__ for kind in seen}
    for kind in seen:
        known = _torch_modules.MODULES[kind.__name__] | _torch_modules._PLACE
        assert {option.name for option in _options.of_constructor(kind)} <= {*known.free, *known.values}, kind


@pytest.mark.long
def test_gradients_of_equal_values_and_at_bounds():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    from leat._torch import Torch

    class Largest(nn.Module):
        def __init__(self, first):
            super().__init__()
            self.first, self.weight, self.bias = first, nn.Parameter(torch.rand(5, 4)), nn.Parameter(torch.zeros(5, 4))
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            x = x.unsqueeze(2) * self.weight + self.bias
            return self.head(x.max(1).values if self.first else x.amax(1))

    assert Torch(Largest(False)).export((5,))
    refused("bias of the module", Largest(True))  # the export of both is the same
    for activation in (nn.ReLU6(), nn.Hardtanh(0, 1), nn.PReLU(), nn.LogSigmoid()):
        linear = nn.Linear(5, 8)
        nn.init.zeros_(linear.bias)
        assert Torch(nn.Sequential(linear, activation, nn.Linear(8, 3))).export((5,))
    for outputs in (lambda z: 1 - z.sigmoid(), lambda z: z.exp() / z.exp().sum(1, keepdim=True)):
        linear = nn.Linear(5, 2)
        linear.forward = lambda x, call=linear.forward: outputs(call(x))
        with pytest.raises(ValueError, match="has an activation, but loss softmax_cross_entropy"):
            leat.Classifier(linear).partial_fit(np.eye(5, dtype=np.float32), [0, 1, 0, 1, 0], classes=[0, 1])


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_frozen_parameters_and_buffers_stay(exporter):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), nn.Linear(8, 3))
    net[0].requires_grad_(False)
    net[2][2].weight.requires_grad_(False)
    assert_trained_alike(net, (5,), exporter, moves=["2.0.weight", "2.2.bias", "3.weight"],
                         stays=["0.weight", "0.bias", "2.2.weight"])
    norm = module_of(lambda s, x: s.l((x - s.mean) / s.std), mean=torch.arange(5.0) / 10, std=1 + torch.arange(5.0) / 5)
    assert_trained_alike(norm, (5,), exporter, moves=["l.weight"], stays=["mean", "std"])
    norm.register_buffer("std", 1 + torch.arange(5.0) / 5, persistent=False)
    mine, _ = assert_trained_alike(norm, (5,), exporter, stays=["mean"])
    assert "std" not in mine


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_parameters_are_trained_wherever_they_are(exporter):
    torch = pytest.importorskip("torch")
    functional, parameter = torch.nn.functional, torch.nn.Parameter
    for forward in (lambda s, x: s.p * s.l(x), lambda s, x: s.p.exp() * s.l(x), lambda s, x: torch.sigmoid(s.p) * s.l(x),
                    lambda s, x: functional.softplus(s.p) * s.l(x), lambda s, x: s.l(x) / (s.p.pow(2) + 1),
                    lambda s, x: s.l(x) * s.p.abs().sqrt(), lambda s, x: s.l(x) * (2 - torch.tanh(s.p) ** 3),
                    lambda s, x: s.l(x) * (1 + s.p.norm())):
        for value in (torch.tensor(0.7), torch.tensor([0.7]), torch.tensor([0.7, -0.4, 0.2])):
            assert_trained_alike(module_of(forward, p=parameter(value)), (5,), exporter, moves=["p", "l.weight"])
    cosine = module_of(lambda s, x: s.s * functional.linear(functional.normalize(x, dim=-1), functional.normalize(s.w, dim=-1)) + s.l(x),
                       w=parameter(torch.randn(3, 5)), s=parameter(torch.tensor(4.0)))
    assert_trained_alike(cosine, (5,), exporter, moves=["w", "s"])
    masked = module_of(lambda s, x: functional.linear(x, s.w * torch.sigmoid(s.m)) + s.l(x), w=parameter(torch.randn(3, 5)),
                       m=parameter(torch.randn(3, 5)))
    assert_trained_alike(masked, (5,), exporter, moves=["w", "m"])


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_tied_weights_stay_tied(exporter):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    net = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 3))
    net[2].weight = net[0].weight
    mine, _ = assert_trained_alike(net, (5,), exporter, moves=["0.weight", "2.weight"])
    assert mine["0.weight"].equal(mine["2.weight"])
    shared = nn.Linear(5, 5)
    mine, _ = assert_trained_alike(nn.Sequential(shared, nn.Tanh(), shared, nn.Linear(5, 3)), (5,), exporter)
    assert mine["0.bias"].equal(mine["2.bias"])


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_a_norm_that_the_module_keeps_in_evaluation_mode(exporter):
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Fixed(nn.Module):
        def __init__(self, trained):
            super().__init__()
            self.a, self.bn, self.o = nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
            self.bn.running_mean += 0.3
            self.bn.running_var *= 2
            self.bn.requires_grad_(trained)

        def train(self, mode=True):
            super().train(mode)
            self.bn.eval()
            return self

        def forward(self, x):
            return self.o(torch.relu(self.bn(self.a(x))))

    assert_trained_alike(Fixed(False), (5,), exporter, stays=["bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"])
    assert_trained_alike(Fixed(True), (5,), exporter, moves=["bn.weight"], stays=["bn.running_mean", "bn.running_var"])


@pytest.mark.long
def test_layers_that_the_output_does_not_need_stay():
    torch = pytest.importorskip("torch")
    assert_trained_alike(module_of(lambda s, x: s.l(x), aux=torch.nn.Linear(5, 2)), (5,), stays=["aux.weight", "aux.bias"])


@pytest.mark.long
def test_ids_beside_a_parameter_of_the_module_itself():
    torch = pytest.importorskip("torch")
    module = module_of(lambda s, x: s.l(s.table(x).flatten(1)[:, :5]) * s.p, p=torch.nn.Parameter(torch.ones(3)),
                       table=torch.nn.Embedding(7, 6))
    assert_trained_alike(module, (4,), moves=["table.weight", "p"])
    itself = module_of(lambda s, x: s.l(s.table(x[:, :2].long()).flatten(1)), table=torch.nn.Embedding(7, 3))
    itself.l = torch.nn.Linear(6, 3)
    assert_trained_alike(itself, (4,), moves=["table.weight"])


@pytest.mark.long
def test_ids_that_are_in_no_table():
    torch = pytest.importorskip("torch")
    table = torch.nn.Embedding(7, 3)
    apart = module_of(lambda s, x: s.l(torch.cat([s.table(x[:, 1].long()), x[:, 2:]], 1)), table=table)  # beside numbers
    X = np.array([[50.5, 0, -3.5, 9], [-1, 6, 0.5, 7], [8, 3, 99, -9]], np.float32)
    y = np.array([0, 1, 2])
    classifier = leat.Classifier(apart, optimizer=leat.SGD(0.1), random_state=1).fit(X, y)
    before = classifier.state_dict()["table.weight"].clone()
    for wrong in (7, -1, 1e9, 1.5, -0.25):
        X[2, 1] = wrong
        said = f"^row 2, column 1: id {wrong:g} is not in the model's table of 7 rows; must be a whole number from 0 to 6$".replace("+", "[+]")
        for call in (lambda: classifier.predict(X), lambda: classifier.partial_fit(X, y),
                     lambda: leat.Classifier(apart, random_state=1).fit(X, y)):
            with pytest.raises(ValueError, match=said):
                call()
    assert classifier.state_dict()["table.weight"].equal(before)


@pytest.mark.long
def test_modules_that_mix_the_rows_of_a_batch():
    torch = pytest.importorskip("torch")
    mixes = "mixes the rows of a batch; each row must be computed by itself, since short batches are padded$"
    refused(f"model.onnx: node '/ReduceMean' .ReduceMean.: {mixes}",
            module_of(lambda s, x: s.l(x) - s.l(x).mean(0)), exporter="torchscript")
    refused(f" .Softmax.: {mixes}", module_of(lambda s, x: s.l(x).softmax(0)))
    refused(f" .MatMul.: {mixes}", module_of(lambda s, x: (x @ x.T) @ s.l(x)))
    refused(f" .LSTM.: {mixes}", module_of(lambda s, x: s.l(s.lstm(x)[0][:, -1]), lstm=torch.nn.LSTM(4, 5)), (3, 4))


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_dropout_is_trained_with_its_rate(exporter):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(3)
    from leat import _onnx_file

    attention = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.2, batch_first=True)
    called = module_of(lambda s, x: s.l(nn.functional.dropout(x, 0.4, s.training)))
    for net, shape, rates in (
            (nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3)), (5,), [0.1, 0.3]),
            (nn.Sequential(attention, nn.Flatten(), nn.Linear(24, 3)), (4, 6), 4 * [0.2]), (called, (5,), [0.4])):
        data = leat.Torch(net, shape, exporter).export(shape)
        assert sorted(round(rate, 3) for rate in _onnx_file.without_dropout(data)[1]) == rates
    refused("dropout with the rates", module_of(lambda s, x: s.l(nn.functional.dropout(x, 0.4, True))))


@pytest.mark.long
def test_options_that_are_not_trained_as_by_pytorch():
    torch = pytest.importorskip("torch")
    nn = torch.nn

    def headed(*layers):
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(24, 3))

    refused("^0 .Embedding.: Leat does not train Embedding with padding_idx=0 as PyTorch does; it must be None$",
            headed(nn.Embedding(7, 6, padding_idx=0)), (4,))
    refused("^0 .Embedding.: .* max_norm=0.5", headed(nn.Embedding(7, 6, max_norm=0.5)), (4,))
    refused("scale_grad_by_freq=True", headed(nn.Embedding(7, 6, scale_grad_by_freq=True)), (4,))
    refused("^1 .BatchNorm1d.: .* momentum=None", nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8, momentum=None), nn.Linear(8, 3)))
    refused("track_running_stats=False",
            nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 3)))
    refused("^0 .LSTM.: .* dropout=0.2", nn.Sequential(nn.LSTM(5, 6, 2, dropout=0.2)), (4, 5))
    for layer in (nn.Dropout1d(), nn.AlphaDropout(), nn.RReLU(), nn.utils.parametrizations.spectral_norm(nn.Linear(5, 5))):
        refused("does not train modules of the type", nn.Sequential(nn.Linear(5, 5), layer, nn.Linear(5, 3)))

    class Mine(nn.Embedding):  # a class of a user's own has the options of its base
        pass

    refused("^0 .Mine.: Leat does not train Embedding with padding_idx=2", headed(Mine(7, 6, padding_idx=2)), (4,))
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).train()
    net[1].eval()
    refused("^1 .BatchNorm1d. is in evaluation mode", net)
    frozen = nn.Linear(5, 3).requires_grad_(False)
    refused("^no parameter of the module is trained", frozen)
    refused("^the parameter weight is float64; Leat trains float32", nn.Linear(5, 3).double())
    refused("^the module returns 2 values", module_of(lambda s, x: (s.l(x), s.l(x))))
    refused("^the module fails for rows of the shape .4.: .*mat1 and mat2", nn.Linear(5, 3), (4,))
    refused("^the module fails in training mode: .*mat1 and mat2", module_of(lambda s, x: s.l(x[:, :2] if s.training else x)))


@pytest.mark.long
def test_code_whose_steps_the_export_does_not_have():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    refused("a.weight of a .Linear.: a step of PyTorch moves it by 0,", module_of(lambda s, x: s.l(s.a(x).detach()), a=nn.Linear(5, 5)))
    refused("^the exported network computes otherwise than the module in evaluation mode", module_of(
        lambda s, x: s.l(x) * (s.count.add_(1) if s.training else s.count), count=torch.ones(1)))
    norm = nn.BatchNorm1d(5)
    refused("1.running_mean|called 2 times", nn.Sequential(nn.Linear(5, 5), norm, nn.Tanh(), norm, nn.Linear(5, 3)))


@pytest.mark.long
def test_hooks_on_gradients_are_not_called():
    """However little they change: a clamp that is rarely met, a small decay."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    for hook in [lambda gradient: gradient.clamp(-1, 1), lambda gradient: gradient * 1.001]:
        hooked = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
        hooked[1].weight.register_hook(hook)
        refused("^the parameter 1.weight has a hook on its gradient, which Leat does not call$", hooked)
    hooked = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
    hooked[0].register_full_backward_hook(lambda module, gradients, outputs: None)
    refused("^0 .Linear. has a hook on its gradients, which Leat does not call$", hooked)

    def forward(module, x):
        made = module.a(x)
        if made.requires_grad:
            made.register_hook(lambda gradient: gradient.clamp(-1, 1))
        return module.l(made)

    refused("^the module's forward sets a hook on a gradient, which Leat does not call$", module_of(forward, a=nn.Linear(5, 5)))


@pytest.mark.long
def test_a_backward_pass_of_the_users_own_is_not_called():
    """However rarely it differs: random rows do not reach these bounds."""
    torch = pytest.importorskip("torch")

    class Bounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clamp(-9, 9)

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    text = "^the module has a backward pass of its own, Bounded, which Leat does not call$"
    refused(text, module_of(lambda s, x: Bounded.apply(s.l(x))))
    refused(text, module_of(lambda s, x: torch.nn.functional.linear(x, Bounded.apply(s.l.weight)).relu()))
    from torch.utils.checkpoint import checkpoint

    assert_trained_alike(module_of(lambda s, x: s.l(checkpoint(s.a, x, use_reentrant=False)), a=torch.nn.Linear(5, 5)), (5,),
                         moves=["a.weight"])


@pytest.mark.long
def test_options_of_functions_that_are_not_trained_as_by_pytorch():
    """However rarely they matter: the table is far longer than random rows."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional

    def looked_up(function, **options):
        return module_of(lambda s, x: s.l(function(x.long(), s.table, **options).flatten(1)[:, :5]),
                         table=torch.nn.Parameter(torch.randn(5000, 5)))

    for option, value in [("padding_idx", 4000), ("padding_idx", -1), ("max_norm", 50.0), ("scale_grad_by_freq", True)]:
        for function in functional.embedding, functional.embedding_bag:
            refused(f"^Leat does not train the function {function.__name__} with {option}={value} as PyTorch does; it must be "
                    "(None|False)$", looked_up(function, **{option: value}))
    refused("the function embedding with padding_idx=7 .* must be -1$", looked_up(lambda x, table: torch.embedding(table, x, 7)))
    learner_of_module(looked_up(functional.embedding, padding_idx=None), (4,))


@pytest.mark.long
def test_a_forward_that_changes_its_parameters_is_refused():
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Bounded(nn.Linear):
        def forward(self, x):
            self.weight.data = torch.renorm(self.weight.data, p=2, dim=0, maxnorm=9)
            return super().forward(x)

    refused("^the module's forward changes the parameter 0.weight: Leat does not run this code between steps$",
            nn.Sequential(Bounded(5, 4), nn.Linear(4, 3)))

    def change(by, **parameters):
        def forward(module, x):
            with torch.no_grad():
                by(module)
            return module.l(x)
        return module_of(forward, **parameters)

    text = "^the module's forward changes the parameters? .*l.weight: Leat"
    refused(text, change(lambda s: s.l.weight.clamp_(min=-9)))
    refused(text, change(lambda s: s.l.weight.data.clamp_(max=9)))
    refused(text, change(lambda s: setattr(s.l, "weight", nn.Parameter(s.l.weight * 1))))
    masked = change(lambda s: s.l.weight.mul_(s.mask), mask=torch.ones(3, 5).triu())
    with torch.no_grad():
        masked.l.weight.mul_(masked.mask)  # as after a call
    refused(text, masked)
    average = nn.Linear(5, 3).requires_grad_(False)
    refused("changes the parameters a.weight, a.bias: Leat", change(
        lambda s: [a.mul_(0.9).add_(0.1 * b) for a, b in zip(s.a.parameters(), s.l.parameters())], a=average))

    def first(module, x):  # a first call makes them of its rows
        if not module.ready:
            with torch.no_grad():
                module.l.weight.copy_(module.l.weight / (1 + x.std()))
                module.l.bias.add_(1)
            module.ready = True
        return module.l(x)

    late = module_of(first)
    late.ready = False
    refused("changes the parameter l.bias: Leat", late)
    assert late.ready is False

    def with_finite(module, x):
        if not module.l.weight.abs().max() < 99:
            raise ValueError("too large")
        return module.l(x)

    learner_of_module(module_of(with_finite), (5,))
    learner_of_module(module_of(lambda s, x: (setattr(s.l.weight, "data", s.l.weight.data.contiguous()), s.l(x))[1]), (5,))


def norm_clipped(module, x):
    if x.abs().max() > 4:
        x = x / x.abs().max()
    return module.l(x)


def scaled_by_a_choice(module, x):
    return module.l(x) * (2.0 if x.mean().item() >= 0.8 else 1.0)


def checked(module, x):
    assert x.shape[1] == 5
    if torch_any_nan(x):
        raise ValueError("NaN")
    if x.isinf().any():
        raise ValueError("infinite")
    return module.l(x)


def torch_any_nan(x):
    assert not x.isnan().all()
    return False


@pytest.mark.long
def test_what_decides_by_values_is_refused():
    """An export has one way for all rows, and random rows may all take it."""
    refused(r"^the module decides by values in test_modules.py:\d+ \(if x.abs\(\).max\(\) > 4:\): its export would go one way for "
            "all rows; torch.where decides for each$", module_of(norm_clipped))
    refused("decides by values .*x.mean", module_of(scaled_by_a_choice))
    learner_of_module(module_of(checked), (5,))


def kept_apart(module, x):
    largest = x.abs().max().item()
    unit = largest / 1000
    large = unit > 50
    if large:
        x = x / 1e5
    return module.l(x)


def kept_in_the_module(module, x):
    module.largest = float(x.abs().max())
    return module.l(x * {True: 1e-5, False: 1.0}[module.largest > 50_000])


def largest_of(x):
    return x.abs().max().item()


def returned(module, x):
    if largest_of(x) > 50_000:
        x = x / 1e5
    return module.l(x)


def chosen(module, x):
    low, high = x.min().item(), x.max().item()
    return module.l(x * (max(-low, high) > 50_000 and 1e-5 or 1.0))


def bounded(module, x):
    largest = x.abs().max().item()
    return module.l(x / max(largest, 50_000.0))


def counted(module, x):
    first = x[:, 0].abs().max().item()
    if math.isnan(first):
        raise ValueError("NaN")
    return module.l(x)


@pytest.mark.long
def test_numbers_that_decide_later_are_refused():
    """No comparison of rows would tell: they decide for rows that are larger than any that are compared."""
    for forward in (kept_apart, kept_in_the_module, returned, chosen, bounded):
        refused("decides by values", module_of(forward))
    learner_of_module(module_of(counted), (5,))


@pytest.mark.long
def test_tensors_that_numpy_or_training_do_not_know():
    torch = pytest.importorskip("torch")
    scales = torch.nn.Parameter(torch.full((5,), 2.0, dtype=torch.bfloat16), requires_grad=False)
    module = module_of(lambda s, x: s.l(x * s.scales.float()), scales=scales)
    estimator = leat.Classifier(leat.Torch(module, (5,), "torchscript"), optimizer=leat.SGD(0.1), batch_size=16)
    rows = np.random.RandomState(0).normal(size=(16, 5)).astype(np.float32)
    estimator.partial_fit(rows, (rows[:, 0] > 0).astype(int), classes=[0, 1, 2])
    home = estimator.state_dict()
    module.load_state_dict(home)
    assert home["scales"].dtype == torch.bfloat16 and (home["scales"] == 2).all()
    expanded = torch.nn.Sequential(torch.nn.Linear(5, 3))
    expanded[0].bias = torch.nn.Parameter(torch.ones(1).expand(3))
    refused(r"^0.bias is an expanded tensor: .*; its clone\(\) can$", expanded)


def divided(module, x):
    largest = x.abs().max().item()
    return module.l(x / max(largest, 50.0))


def without_outliers(module, x):
    return module.l(x) if torch_len(x[x.abs() > 50]) == 0 else module.l(x / 100)


def torch_len(x):
    return len(x.nonzero())


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_what_decides_by_values_in_other_ways(exporter):
    """Rows of usual sizes all go one way, and the way back to Python is not seen."""
    torch = pytest.importorskip("torch")
    scaled = "^for rows 300 times as large, .* outputs differ by|cannot export|mixes the rows"  # by dynamo
    refused("decides by values", module_of(divided), exporter=exporter)
    refused(scaled, module_of(without_outliers), exporter=exporter)
    refused("decides by values", module_of(lambda s, x: [s.l(x / 100**i) for i in range(1 + int((x.abs() > 50).any()))][-1]),
            exporter=exporter)
    refused("decides by values|cannot export", module_of(lambda s, x: s.l(x) if torch.equal(x, x.clamp(-50, 50)) else s.l(x / 100)),
            exporter=exporter)
    beside = module_of(lambda s, x: s.l(torch.cat([s.table(x[:, 0].long()), divided_alone(x[:, 1:])], 1)), table=torch.nn.Embedding(7, 2))
    refused("decides by values", beside, (4,), exporter)
    learner_of_module(module_of(lambda s, x: s.l(x.clamp(-50, 50) / 100 + torch.where(x.abs() > 50, x, 0))), (5,), exporter=exporter)


def divided_alone(x):
    largest = x.abs().max().item()
    return x / max(largest, 50.0)


@pytest.mark.long
def test_what_decides_by_the_number_of_rows_is_refused():
    torch = pytest.importorskip("torch")
    refused("^40 rows are computed otherwise than 8, by .*: the export would have one way for any number of rows$",
            module_of(lambda s, x: s.l(x) if len(x) <= 8 else s.l(x / 100)), exporter="torchscript")
    refused("^1 rows are computed otherwise than 8", module_of(lambda s, x: s.l(x) if len(x) > 1 else s.l(x / 100)),
            exporter="torchscript")
    refused("^40 rows are", module_of(lambda s, x: s.l(x) if len(x) <= 8 or not s.training else s.l(x.detach() / 100)),
            exporter="torchscript")
    learner_of_module(torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3)), (5,))


@pytest.mark.long
def test_what_is_drawn_in_training_is_refused():
    """However unlikely a choice is. A rate of 0 is none."""
    torch = pytest.importorskip("torch")
    import random

    def skipping(drawn):
        return module_of(lambda s, x: s.l(x if s.training and drawn() else s.a(x)), a=torch.nn.Linear(5, 5))

    text = " computes at random in training, by no dropout of PyTorch: its export would keep one draw$"
    for drawn in (lambda: random.random() < 1e-6, lambda: random.uniform(0, 1) > 0.999, lambda: np.random.rand() < 0.01,
                  lambda: random.randint(0, 9) == 0):
        refused("^the module .Made." + text, skipping(drawn))
        refused("^1 .Made." + text, torch.nn.Sequential(torch.nn.Linear(5, 5), skipping(drawn), torch.nn.Linear(3, 3)))
    for rate in (0.0, -1.0):
        learner_of_module(skipping(lambda rate=rate: random.random() < rate or np.random.rand() < rate), (5,))
    noise = module_of(lambda s, x: s.l(x + 0.003 * torch.randn_like(x) if s.training else x))
    refused("^1 .Made." + text, torch.nn.Sequential(torch.nn.Linear(5, 5), noise))
    dropped = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Dropout(0.5), torch.nn.Linear(5, 3))
    state = random.getstate(), torch.get_rng_state().tolist()
    learner_of_module(dropped, (5,))
    assert (random.getstate(), torch.get_rng_state().tolist()) == state


@pytest.mark.long
def test_modules_that_were_made_from_others():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    script = " is TorchScript; pass the module that it was made from$"
    for made in (torch.jit.script(net), torch.jit.trace(net, torch.zeros(2, 5))):
        refused(r"^the module \(\w+\)" + script, made)
        refused(r"^0 \(\w+\)" + script, nn.Sequential(made, nn.Linear(3, 3)))
    refused("^the module .OptimizedModule. is compiled by torch.compile; pass the module that it was made from, _orig_mod$",
            torch.compile(net))
    refused("^0 .OptimizedModule. is compiled", nn.Sequential(torch.compile(net)))
    learner_of_module(torch.compile(net)._orig_mod, (5,))
    net.compile(backend=lambda graph, rows: pytest.fail("it was compiled"))
    compiled = net._compiled_call_impl
    learner_of_module(net, (5,))
    assert net._compiled_call_impl is compiled
    for lazy, name in ((nn.LazyLinear(3), "weight"), (nn.LazyBatchNorm1d(affine=False), "running_mean")):
        with pytest.raises(ValueError, match=f"^1.{name} has no shape yet; pass a batch through the module first$"):
            leat.Torch(nn.Sequential(nn.Linear(5, 3), lazy), (5,)).export((5,))


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_a_causal_mask_among_the_buffers(exporter):
    torch = pytest.importorskip("torch")
    mask = torch.nn.Transformer.generate_square_subsequent_mask(4)

    def forward(s, x):
        return s.l(s.a(x, x, x, attn_mask=s.mask, need_weights=False)[0].mean(1)[:, :5])

    module = module_of(forward, a=torch.nn.MultiheadAttention(6, 2, batch_first=True), mask=mask)
    assert_trained_alike(module, (4, 6), exporter, moves=["a.in_proj_weight"], stays=["mask"])


@pytest.mark.long
def test_a_module_keeps_what_its_code_counts():
    torch = pytest.importorskip("torch")
    counted = module_of(lambda s, x: (setattr(s, "calls", s.calls + 1), s.means.append(x.mean()), s.sum.add_(x.sum()), s.l(x))[-1])
    counted.calls, counted.means, held = 0, [], torch.zeros(())
    vars(counted)["sum"] = held
    learner_of_module(counted, (5,))
    assert counted.calls == 0 and counted.means == [] and counted.sum is held and float(held) == 0


class Schedule:
    step = 0

    def next(self):
        self.step += 1
        return self.step


@pytest.mark.long
def test_what_depends_on_counted_calls_is_refused():
    """However slowly it changes, or late: random rows are trained for two steps."""
    torch = pytest.importorskip("torch")

    def counting(forward, count=0):
        def counted(module, x):
            module.count += 1
            return forward(module, x, module.count)
        module = module_of(counted, a=torch.nn.Linear(5, 5))
        vars(module)["count"] = count
        return module

    text = "^what the module computes depends on count of the module .Made., which its forward changes: its export would keep one value$"
    refused(text, counting(lambda s, x, n: s.l(x) / max(0.1, 1 - 1e-5 * n)))
    refused(text, counting(lambda s, x, n: s.l(x) * (1 - 1e-5 * n), torch.zeros(())))
    refused(text, counting(lambda s, x, n: s.l(s.a(x) if n < 5000 else x)))
    refused(text, counting(lambda s, x, n: s.l(s.a(x) if n < 5000 else s.a(x).detach())))  # the outputs are the same
    refused(text, counting(lambda s, x, n: s.l(s.a(x) if n % 10 else x)))
    held = module_of(lambda s, x: s.l(x) / (1 + 1e-5 * s.schedule.next()))
    held.schedule = Schedule()
    refused("depends on schedule of the module", held)
    assert held.schedule.step == 0

    def centered(module, x):
        if module.mean is None:
            module.mean = x.mean(0).detach()
        return module.l(x - module.mean)

    late = module_of(centered)
    late.mean = None
    refused("depends on mean of the module", late)

    def cached(module, x):
        if module.scale is None or module.length < x.shape[1]:
            module.length, module.scale = x.shape[1], x.shape[1] ** -0.5
            module.places = torch.arange(x.shape[1]).float()
        module.last = x.mean().item()
        return module.l(x * module.scale + module.places)

    kept = module_of(cached)
    kept.length, kept.scale, kept.last = 0, None, 0.0
    learner_of_module(kept, (5,))
    assert kept.length == 0 and kept.scale is None and not hasattr(kept, "places")


@pytest.mark.long
def test_a_tensor_among_the_options_takes_one_line():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    attention = nn.MultiheadAttention(5, 1, add_bias_kv=True, batch_first=True)
    refused("with bias_k=a Parameter as PyTorch does", module_of(lambda s, x: s.l(s.a(x, x, x)[0]), a=attention), (4, 5))


@pytest.mark.long
def test_what_pytorch_1_does_not_have(monkeypatch):
    torch = pytest.importorskip("torch")
    from leat import _torch

    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4))
    net[2].weight = net[0].weight
    for child in net.modules():
        vars(child).pop("_backward_pre_hooks", None)
    _torch._check_parameters(torch, net)
    monkeypatch.setattr(torch.nn.Module, "named_parameters", None)
    monkeypatch.setattr(torch.nn.Module, "named_buffers", None)
    named = dict(_torch._all_tensors(net))
    assert list(named) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias", "1.running_mean", "1.running_var",
                           "1.num_batches_tracked"]
    assert named["2.weight"] is net[0].weight and named["1.running_var"] is net[1].running_var
    monkeypatch.delattr(torch.nn.functional, "scaled_dot_product_attention", raising=False)
    with _torch.undropped(torch, []):
        pass
    assert not hasattr(torch.nn.functional, "scaled_dot_product_attention")


@pytest.mark.long
def test_a_failed_exporter_writes_nothing():
    pytest.importorskip("torch")
    code = ("import torch, leat; from torch import nn\n"
            "class M(nn.Module):\n"
            "    def __init__(s): super().__init__(); s.l = nn.Linear(5, 8); s.n = nn.Parameter(torch.ones(8)); s.o = nn.Linear(8, 3)\n"
            "    def forward(s, x): return s.o(nn.functional.rms_norm(s.l(x), (8,), s.n))\n"
            "leat.Torch(M(), (5,)).export((5,))\n"
            "try: leat.Torch(M(), (5,), 'torchscript').export((5,))\n"
            "except ValueError as e: print('refused:', e)\n")
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused: PyTorch cannot export the module") and done.stdout.count("\n") == 1, done.stdout


@pytest.mark.long
def test_an_estimator_that_is_pickled_keeps_what_is_frozen():
    torch = pytest.importorskip("torch")
    import pickle

    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    net[0].requires_grad_(False)
    frozen = net[0].weight.clone()
    _, _, classifier = trained_by_both(net, (5,))
    x = np.ones((4, 5), np.float32)
    expected = classifier.predict_proba(x)
    with torch.no_grad():
        net[0].weight.zero_()
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(x), expected)
    assert again.state_dict()["0.weight"].equal(frozen)


@pytest.mark.long
def test_what_cannot_be_trained_is_named():
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Fft(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 4)

        def forward(self, x):
            return self.head(torch.linalg.det(torch.stack([x, x, x, x], -1)).unsqueeze(1).repeat(1, 4))

    refused("cannot export|unsupported|Det", Fft(), (4,))
    refused("no parameters", nn.ReLU())

    class Sorting(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 4)

        def forward(self, x):
            return self.head(torch.sort(x, dim=1).values)

    refused("TopK|Sort|cannot export", Sorting(), (4,))
