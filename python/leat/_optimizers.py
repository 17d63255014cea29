"""Optimizers, with the settings of docs/jobs.md."""

from leat._settings import Setting


class SGD(Setting):
    """Plain stochastic gradient descent: `SGD(learning_rate, weight_decay=...)`."""

    type = "sgd"
    positional = ("learning_rate",)


class Momentum(Setting):
    """Gradient descent with a velocity: `Momentum(learning_rate, momentum=0.9)`."""

    type = "momentum"
    positional = ("learning_rate",)


class Nesterov(Setting):
    """Gradient descent with Nesterov's momentum: `Nesterov(learning_rate, momentum=0.9)`."""

    type = "nesterov"
    positional = ("learning_rate",)


class Adagrad(Setting):
    """Adagrad: `Adagrad(learning_rate, epsilon=..., initial_accumulator=...)`."""

    type = "adagrad"
    positional = ("learning_rate",)


class RMSprop(Setting):
    """RMSprop: `RMSprop(learning_rate, alpha=0.99, momentum=0.9, centered=False)`."""

    type = "rmsprop"
    positional = ("learning_rate",)


class Adam(Setting):
    """Adam: `Adam(learning_rate, beta1=0.9, beta2=0.999, epsilon=1e-8)`."""

    type = "adam"
    positional = ("learning_rate",)


class AdamW(Setting):
    """Adam with decoupled weight decay: `AdamW(learning_rate, weight_decay=...)`."""

    type = "adamw"
    positional = ("learning_rate",)


class LAMB(Setting):
    """Adam with a trust ratio for each variable, for large batches: `LAMB(learning_rate)`."""

    type = "lamb"
    positional = ("learning_rate",)
