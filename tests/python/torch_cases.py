"""Networks of PyTorch that test_modules.py trains by both: each type of module that leat.Torch admits, with its options."""

import torch
from torch import nn

VECTOR, IMAGE, SEQUENCE, IDS = (5,), (2, 6, 6), (4, 6), (4,)


class Recurrent(nn.Module):
    def __init__(self, layer, units):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(units, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0].mean(1))


class TimeFirst(Recurrent):
    def forward(self, x):
        return self.head(self.layer(x.transpose(0, 1))[0][-1])


class Attention(nn.Module):
    def __init__(self, weights=False, **options):
        super().__init__()
        self.layer, self.weights, self.head = nn.MultiheadAttention(6, 2, batch_first=True, **options), weights, nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.layer(x, x, x, need_weights=self.weights)[0].mean(1))


class Pair(nn.Module):
    """Two layers on the input, and a module of their outputs."""

    def __init__(self, layer, units, outputs):
        super().__init__()
        self.a, self.b, self.layer, self.head = nn.Linear(5, units), nn.Linear(5, units), layer, nn.Linear(outputs, 3)

    def forward(self, x):
        y = self.layer(self.a(x), self.b(x))
        return self.head(y if y.dim() == 2 else y.unsqueeze(1))


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ModuleList([nn.Linear(5, 5), nn.Identity()])
        self.dict = nn.ModuleDict({"a b": nn.Linear(5, 5), "a_b": nn.Linear(5, 5)})  # the same name for the engine
        self.rows = nn.ParameterList([nn.Parameter(torch.ones(5)), nn.Parameter(torch.zeros(()))])
        self.named = nn.ParameterDict({"gain": nn.Parameter(torch.full((1,), 2.0))})
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        x = self.list[1](torch.tanh(self.list[0](x))) * self.rows[0] + self.rows[1]
        return self.head(self.dict["a b"](x) + self.dict["a_b"](x).relu()) * self.named["gain"]


def between(layer, units=8):
    return nn.Sequential(nn.Linear(5, 8), layer, nn.Linear(units, 3))


def headed(*layers):
    """The layers, and one that makes three classes of whatever they make."""
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3))


def convolved(layer, axes=2):
    return headed(nn.Conv2d(2, 4, 3) if axes == 2 else nn.Conv1d(4, 4, 3), layer)


def normed(layer, axes=2):
    return headed(nn.Conv2d(2, 6, 3) if axes == 2 else nn.Conv1d(4, 6, 3), layer, nn.ReLU())


def encoder(dropout=0.0, **options):
    return nn.TransformerEncoderLayer(6, 2, 8, dropout=dropout, batch_first=True, **options)


ACTIVATIONS = ("ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "GELU", "SiLU", "Mish", "Sigmoid", "Tanh", "Softplus",
               "Softsign", "Hardsigmoid", "Hardswish", "Hardtanh", "LogSigmoid", "Tanhshrink", "Softshrink", "Hardshrink", "PReLU")

# By name: how the network is made, and the shape of a row.
CASES = {
    **{name: (lambda name=name: between(getattr(nn, name)()), VECTOR) for name in ACTIVATIONS},
    **{name: (lambda name=name: between(getattr(nn, name)(dim=-1)), VECTOR) for name in ("Softmax", "LogSoftmax", "Softmin")},
    "GELU tanh": (lambda: between(nn.GELU("tanh")), VECTOR),
    "Threshold": (lambda: between(nn.Threshold(0.1, -1.0)), VECTOR),
    "Softplus beta": (lambda: between(nn.Softplus(2.0, 5.0)), VECTOR),
    "PReLU of channels": (lambda: between(nn.PReLU(8)), VECTOR),
    "GLU": (lambda: between(nn.GLU(), 4), VECTOR),
    "Softmax2d": (lambda: convolved(nn.Softmax2d()), IMAGE),
    "Linear without bias": (lambda: nn.Linear(5, 3, bias=False), VECTOR),
    "Bilinear": (lambda: Pair(nn.Bilinear(4, 4, 6), 4, 6), VECTOR),
    "CosineSimilarity": (lambda: Pair(nn.CosineSimilarity(-1), 4, 1), VECTOR),
    "containers": (Containers, VECTOR),
    "Unflatten": (lambda: nn.Sequential(nn.Linear(5, 8), nn.Unflatten(1, (2, 4)), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)), VECTOR),
    "Conv1d": (lambda: headed(nn.Conv1d(4, 6, 3, padding=1, stride=2), nn.ReLU()), SEQUENCE),
    "Conv2d groups": (lambda: headed(nn.Conv2d(2, 6, 3, padding=1, groups=2), nn.ReLU()), IMAGE),
    "Conv2d same": (lambda: headed(nn.Conv2d(2, 6, 3, padding="same", dilation=2), nn.ReLU()), IMAGE),
    "Conv2d reflect": (lambda: headed(nn.Conv2d(2, 6, 3, padding=1, padding_mode="reflect"), nn.ReLU()), IMAGE),
    "Conv2d replicate": (lambda: headed(nn.Conv2d(2, 6, 3, padding=1, padding_mode="replicate"), nn.ReLU()), IMAGE),
    "Conv2d circular": (lambda: headed(nn.Conv2d(2, 6, 3, padding=1, padding_mode="circular"), nn.ReLU()), IMAGE),
    "ConvTranspose1d": (lambda: headed(nn.ConvTranspose1d(4, 2, 3, stride=2, output_padding=1)), SEQUENCE),
    "ConvTranspose2d": (lambda: headed(nn.ConvTranspose2d(2, 2, 3, stride=2, padding=1)), IMAGE),
    "Embedding": (lambda: headed(nn.Embedding(7, 6)), IDS),
    "Embedding sparse": (lambda: headed(nn.Embedding(7, 6, sparse=True)), IDS),
    "BatchNorm1d": (lambda: nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8, momentum=0.3, eps=1e-3), nn.Linear(8, 3)), VECTOR),
    "BatchNorm1d plain": (lambda: nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8, affine=False), nn.Linear(8, 3)), VECTOR),
    "BatchNorm1d of sequences": (lambda: normed(nn.BatchNorm1d(6), 1), SEQUENCE),
    "BatchNorm2d": (lambda: normed(nn.BatchNorm2d(6)), IMAGE),
    "BatchNorm2d plain": (lambda: normed(nn.BatchNorm2d(6, affine=False)), IMAGE),
    "LayerNorm": (lambda: between(nn.LayerNorm(8)), VECTOR),
    "LayerNorm plain": (lambda: between(nn.LayerNorm(8, elementwise_affine=False)), VECTOR),
    "LayerNorm without bias": (lambda: between(nn.LayerNorm(8, bias=False)), VECTOR),
    "LayerNorm of two axes": (lambda: headed(nn.LayerNorm((4, 6))), SEQUENCE),
    "GroupNorm": (lambda: normed(nn.GroupNorm(3, 6)), IMAGE),
    "GroupNorm plain": (lambda: normed(nn.GroupNorm(3, 6, affine=False)), IMAGE),
    "InstanceNorm1d": (lambda: normed(nn.InstanceNorm1d(6, affine=True), 1), SEQUENCE),
    "InstanceNorm2d": (lambda: normed(nn.InstanceNorm2d(6, affine=True)), IMAGE),
    "InstanceNorm2d plain": (lambda: normed(nn.InstanceNorm2d(6)), IMAGE),
    "RMSNorm": (lambda: between(nn.RMSNorm(8)), VECTOR),
    "RMSNorm plain": (lambda: between(nn.RMSNorm(8, elementwise_affine=False)), VECTOR),
    **{name: (lambda name=name: Recurrent(getattr(nn, name)(6, 5, batch_first=True), 5), SEQUENCE)
       for name in ("LSTM", "GRU", "RNN")},
    **{f"{name} deep": (lambda name=name: Recurrent(getattr(nn, name)(6, 5, 2, bidirectional=True, batch_first=True), 10), SEQUENCE)
       for name in ("LSTM", "GRU", "RNN")},
    **{f"{name} without bias": (lambda name=name: Recurrent(getattr(nn, name)(6, 5, bias=False, batch_first=True), 5), SEQUENCE)
       for name in ("LSTM", "GRU", "RNN")},
    "RNN relu": (lambda: Recurrent(nn.RNN(6, 5, nonlinearity="relu", batch_first=True), 5), SEQUENCE),
    "LSTM time first": (lambda: TimeFirst(nn.LSTM(6, 5), 5), SEQUENCE),
    "MultiheadAttention": (Attention, SEQUENCE),
    "MultiheadAttention weights": (lambda: Attention(True), SEQUENCE),
    "MultiheadAttention without biases": (lambda: Attention(bias=False), SEQUENCE),
    "TransformerEncoderLayer": (lambda: headed(encoder()), SEQUENCE),
    "TransformerEncoderLayer first": (lambda: headed(encoder(norm_first=True, activation="gelu")), SEQUENCE),
    "TransformerEncoder": (lambda: headed(nn.TransformerEncoder(encoder(), 2, norm=nn.LayerNorm(6), enable_nested_tensor=False)), SEQUENCE),
    **{f"MaxPool{d}d": (lambda d=d: convolved(getattr(nn, f"MaxPool{d}d")(2), d), IMAGE if d == 2 else SEQUENCE) for d in (1, 2)},
    **{f"MaxPool{d}d ceil": (lambda d=d: convolved(getattr(nn, f"MaxPool{d}d")(3, 2, 1, ceil_mode=True), d),
                             IMAGE if d == 2 else SEQUENCE) for d in (1, 2)},
    **{f"AvgPool{d}d": (lambda d=d: convolved(getattr(nn, f"AvgPool{d}d")(3, 2, 1), d), IMAGE if d == 2 else SEQUENCE)
       for d in (1, 2)},
    **{f"AvgPool{d}d without padding": (lambda d=d: convolved(getattr(nn, f"AvgPool{d}d")(3, 2, 1, count_include_pad=False), d),
                                        IMAGE if d == 2 else SEQUENCE) for d in (1, 2)},
    **{f"{name}{d}d": (lambda name=name, d=d: convolved(getattr(nn, f"{name}{d}d")(1), d), IMAGE if d == 2 else SEQUENCE)
       for d in (1, 2) for name in ("AdaptiveAvgPool", "AdaptiveMaxPool", "ZeroPad", "ReflectionPad", "ReplicationPad")},
    **{f"AdaptiveAvgPool{d}d of parts": (lambda d=d: convolved(getattr(nn, f"AdaptiveAvgPool{d}d")(2), d),
                                         IMAGE if d == 2 else SEQUENCE) for d in (1, 2)},
    **{f"ConstantPad{d}d": (lambda d=d: convolved(getattr(nn, f"ConstantPad{d}d")(1, 0.7), d), IMAGE if d == 2 else SEQUENCE)
       for d in (1, 2)},
    "PixelUnshuffle": (lambda: convolved(nn.PixelUnshuffle(2)), IMAGE),
    "ChannelShuffle": (lambda: convolved(nn.ChannelShuffle(2)), IMAGE),
    "weight_norm": (lambda: between(nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))), VECTOR),
    "weight_norm of all": (lambda: headed(nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 4, 3), dim=None)), IMAGE),
    "weight_norm by hooks": (lambda: between(nn.utils.weight_norm(nn.Linear(8, 8))), VECTOR),
}


def make(name):
    """The network, with the values of a seed that has no zeros and ones, and the shape of a row."""
    build, shape = CASES[name]
    torch.manual_seed(3)
    network = build()
    with torch.no_grad():
        rows = torch.zeros((2, *shape), dtype=torch.long if shape == IDS else torch.float32)
        network.eval()(rows)  # lazy layers get their shape
        for key, value in network.named_parameters():
            value.add_(0.05 * torch.rand_like(value))
        for key, value in network.named_buffers():
            if value.dtype == torch.float32:
                value.add_(0.1 * torch.rand_like(value))
    return network.train(), shape
