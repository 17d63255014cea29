"""Five modules of PyTorch, trained for 100 steps by Leat's engine: the losses are those of PyTorch."""

# folders: onnx python

import json
import sys
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
    assert set(values) == set(golden["sums"])
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
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "module.onnx"
        file.write_bytes(leat.Torch(module, shape, exporter).export(shape))
        return learner_of(file, shape, rate)


@pytest.mark.long
def test_what_cannot_be_trained_is_named():
    torch = pytest.importorskip("torch")
    nn = torch.nn

    def refused(text, module, shape=(4,)):
        with pytest.raises(ValueError, match=text) as error:
            learner_of_module(module, shape)
        assert "\n" not in str(error.value)

    class Fft(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 4)

        def forward(self, x):
            return self.head(torch.linalg.det(torch.stack([x, x, x, x], -1)).unsqueeze(1).repeat(1, 4))

    refused("cannot export|unsupported|Det", Fft())
    refused("no parameters", nn.ReLU())

    class Sorting(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 4)

        def forward(self, x):
            return self.head(torch.sort(x, dim=1).values)

    refused("TopK|Sort|cannot export", Sorting())
