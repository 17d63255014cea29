"""The state of a PyTorch module, and what its code does that an export does not have: decisions by values, changes of its own
parameters and attributes, backward passes of its own. Random rows may not show them.
"""

import ast
import contextlib
import functools
import inspect
import linecache
import numbers
import os
import re
import traceback
import types

import numpy as np

from leat import _compare, _torch_modules


def first_line(error):
    return re.sub(r"\s+", " ", str(error)).strip()[:300] or type(error).__name__


def numpy_of(tensor):
    """Its values; numpy has no bfloat16."""
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return (dense.float() if str(dense.dtype) == "torch.bfloat16" else dense).numpy()


class Kept:
    """A module as it is now: values, gradients, modes and attributes. The end of a `with` restores all of them."""

    def __init__(self, torch, module):
        self._torch, self._module = torch, module
        self._own = set(vars(torch.nn.Module()))  # PyTorch's attributes of each module
        self._buffers = [(child._buffers, dict(child._buffers)) for child in module.modules()]
        self._modes = self._modes_now()
        # Attributes are what hooks compute, and what the user's code counts, in containers too.
        self._holders = []
        for name, child in module.named_modules():
            place = _torch_modules.place_of(name, child)
            inner = [(key, self._inside(value)) for key, value in vars(child).items()]
            self._holders += [(place, attribute, holder, dict(_items(holder)))
                              for attribute, holder in [(None, vars(child)), *inner] if holder is not None]
        self._tensors = {id(value): (value, value.detach().clone()) for value in [*module.parameters(), *module.buffers()]}
        self._plain = {id(value): (value, value.detach().clone(), value._version) for *_, kept in self._holders
                       for value in kept.values() if self._is_plain(value)}
        self._marks = {(id(holder), key): self._mark(value) for *_, holder, kept in self._holders for key, value in kept.items()}
        self._gradients = [(value, value.grad) for value in module.parameters()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.restore_attributes()
        self.restore()
        for child, training in self._modes.items():
            child.training = training
        for value, gradient in self._gradients:
            value.grad = gradient

    def restore(self):
        """The values of parameters and buffers."""
        with self._torch.no_grad():
            for buffers, kept in self._buffers:
                buffers.update(kept)
            for value, kept in self._tensors.values():
                value.copy_(kept)

    def restore_attributes(self):
        """Attributes, but not the modes."""
        modes = self._modes_now()
        with self._torch.no_grad():
            for key, (value, kept, version) in self._plain.items():
                if value._version != version:  # changed in place
                    value.copy_(kept)
                    self._plain[key] = (value, kept, value._version)
        for *_, holder, kept in self._holders:
            now = dict(_items(holder))
            if now.keys() == kept.keys() and all(now[key] is value for key, value in kept.items()):
                continue
            if isinstance(holder, list):
                holder[:] = kept.values()
            else:
                holder.clear()
                holder.update(kept)
        for child, training in modes.items():
            child.training = training

    def changed(self):
        """Changed attributes: [(name, the container, its key)]."""
        found = []
        for place, attribute, holder, kept in self._holders:
            if attribute in self._own:
                continue
            for key, value in _items(holder):
                same = self._mark(value) == self._marks.get((id(holder), key))
                if not same and (attribute is not None or key not in self._own):
                    found.append((f"{attribute or key} of {place}", holder, key))
        return found

    def _modes_now(self):
        return {child: child.training for child in self._module.modules()}

    def _inside(self, value):
        if isinstance(value, (dict, list)) and type(value).__module__ in ("builtins", "collections"):
            return value
        if isinstance(value, (self._torch.nn.Module, self._torch.Tensor, type, types.ModuleType, types.FunctionType)):
            return None
        inside = getattr(value, "__dict__", None)
        return inside if type(inside) is dict else None

    def _is_plain(self, value):
        """Whether it is a tensor that is no parameter, no buffer and no view, and can be changed in place."""
        return (isinstance(value, self._torch.Tensor) and id(value) not in self._tensors and not value.is_inference()
                and not value._is_view())

    def _mark(self, value):
        """It differs if the value has changed."""
        if isinstance(value, numbers.Real):
            return value
        return id(value), id(value) in self._plain and value._version != self._plain[id(value)][2]


def _items(holder):
    return holder.items() if isinstance(holder, dict) else enumerate(holder)


def tables_of(torch, module):
    """The numbers of ids of its tables."""
    return [child.num_embeddings for child in module.modules() if isinstance(child, torch.nn.Embedding)]


def check(torch, module, kept, inputs, integers):
    """Raises ValueError with the first thing that the module's code does and its export would not. `kept`: the module as it was
    before its first call, which may differ from others."""
    zeros = torch.zeros((2, *inputs), dtype=torch.int64 if integers else torch.float32)
    kept.restore_attributes()  # earlier calls may have made parameters
    named = dict(module.named_parameters())
    with _writes_refused(torch, module, named, kept):
        made = _watched(torch, module, zeros)
    own = _own_backward(torch, made)
    if own:
        raise ValueError(f"the module has a backward pass of its own, {own}, which Leat does not call")
    kept.restore()
    later = Kept(torch, module)
    trained = [value for value in module.parameters() if value.requires_grad]

    def run(state, rows, seed=1, change=lambda: None):
        """Outputs and gradients in training; None: there are none."""
        state.restore()
        state.restore_attributes()
        torch.manual_seed(seed)
        try:
            change()
            with torch.enable_grad():
                made = module(rows.clone())
                gradients = torch.autograd.grad(made.square().mean(), trained, allow_unused=True)
        except Exception:  # noqa: BLE001, nothing is concluded
            return None
        return [numpy_of(made), *(np.zeros(()) if g is None else numpy_of(g) for g in gradients)]

    for batches in _compare.kinds_of_rows(inputs, min(tables_of(torch, module), default=0)):
        rows = torch.from_numpy(batches[0])
        rows = rows.long() if integers else rows
        expected = run(later, rows)
        if expected is not None and all(np.isfinite(values).all() for values in expected):
            _check_random(torch, module, lambda seed: run(later, rows, seed))
            _check_attributes(torch, kept, later, expected, functools.partial(run, rows=rows))
            break
    for scale in (1000, -1000):  # a constraint shows where no parameter is within its bounds
        with _writes_refused(torch, module, named, kept, scale), contextlib.suppress(Exception), torch.no_grad():
            module(zeros)
    later.restore()
    later.restore_attributes()


# ---- checks while the code runs

# Methods and functions of tensors that return a truth value, numbers of Python or an array.
_TRUTHS = ("__bool__", "equal", "allclose", "is_nonzero")
_TO_PYTHON = (*_TRUTHS, "item", "__float__", "__int__", "__index__", "tolist", "numpy", "__array__")
_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")


def _watched(torch, module, rows):
    """The outputs. Raises ValueError where the code decides by values, since the export would have one way for all rows, sets a
    hook on a gradient, or calls a function with options that are not trained as by PyTorch."""
    package = os.path.dirname(torch.__file__) + os.sep
    found = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            name = getattr(function, "__name__", "")
            stack = traceback.extract_stack()[:-1] if name in _TO_PYTHON else []
            if stack and stack[-1].filename == torch.overrides.__file__:
                stack.pop()  # PyTorch 1 adds this frame
            caller = stack[-1] if stack else None
            own = [i for i, frame in enumerate(stack) if frame.filename.startswith(os.path.dirname(__file__) + os.sep)]
            users = [frame for frame in stack[own[-1] + 1 if own else 0:] if not frame.filename.startswith(package)]
            if users and caller is users[-1] and _decides(users, name in _TRUTHS):
                place = f"{os.path.basename(caller.filename)}:{caller.lineno} ({caller.line})"
                found.append(f"the module decides by values in {place}: its export would go one way for all rows; torch.where "
                             "decides for each")
            if name in _HOOKS:
                found.append("the module's forward sets a hook on a gradient, which Leat does not call")
            for option, value, wanted in _lost_options(torch, function, args, kwargs or {}):
                found.append(f"Leat does not train the function {name} with {option}={value!r} as PyTorch does; it must be "
                             f"{wanted!r}")
            return function(*args, **(kwargs or {}))

    try:
        with torch.enable_grad(), Watch():
            made = module(rows)
    except Exception as e:  # noqa: BLE001, whatever the module raises
        raise ValueError(f"the module fails in training mode: {first_line(e)}") from e
    if found:
        raise ValueError(found[0])
    return made


def _lost_options(torch, function, args, kwargs):
    """The options of an embedding that an export loses: (option, its value, the value it needs). Only rare rows would tell."""
    functional = torch.nn.functional
    wanted = {"padding_idx": None, "max_norm": None, "scale_grad_by_freq": False}
    if function in (functional.embedding, functional.embedding_bag):
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    elif function is torch.embedding:
        given = {**dict(zip(("weight", "indices", "padding_idx", "scale_grad_by_freq"), args)), **kwargs}
        wanted["padding_idx"] = -1
    else:
        return
    for option, value in wanted.items():
        if given.get(option, value) != value:
            yield option, given[option], value


def _decides(stack, truth):
    """Whether a value decides that the last line of the user's code has made, and is not only checked (`assert`,
    `if ...: raise`). A truth value decides wherever it is made, and a number in a condition: in its own line, by the name that
    it is kept under, or in the line of the caller that it is returned to."""
    frame = stack[-1]
    try:
        tree = ast.parse("".join(linecache.getlines(frame.filename)))
    except SyntaxError:
        return truth
    here = [node for node in ast.walk(tree) if getattr(node, "lineno", frame.lineno + 1) <= frame.lineno <= node.end_lineno]
    checks = [node.test for node in ast.walk(tree) if _checks(node)]
    if any(node in here for node in checks):
        return False
    if truth or any(_condition(node) in here for node in ast.walk(tree) if not isinstance(node, ast.Subscript)):
        return True
    functions = [node for node in here if isinstance(node, (ast.FunctionDef, ast.Lambda))]
    if not functions:
        return False
    if any(isinstance(node, ast.Return) for node in here) or isinstance(functions[-1], ast.Lambda):
        return len(stack) > 1 and _decides(stack[:-1], False)
    inside = list(ast.walk(functions[-1]))
    given = [(node, set().union(*map(_targets, getattr(node, "targets", None) or [node.target]))) for node in inside
             if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr))]
    names = set().union(*(targets for node, targets in given if node in here))
    while more := set().union(*(targets for node, targets in given if names & _names(node.value))) - names:
        names |= more
    checked = {id(part) for test in checks for part in ast.walk(test)}
    return any(names & _names(test) for test in map(_condition, inside) if test is not None and id(test) not in checked)


def _checks(node):
    """`assert`, and an `if` that only raises."""
    return isinstance(node, ast.Assert) or isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise) and not node.orelse


def _condition(node):
    """The part of the code by which it goes one way or another, or takes one value or another."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return node.test
    chooses = isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("max", "min", "range")
    if chooses or isinstance(node, (ast.Compare, ast.BoolOp)):
        return node
    if isinstance(node, ast.Subscript):
        return node.slice
    if isinstance(node, (ast.For, ast.comprehension)):
        return node.iter
    return node.subject if isinstance(node, getattr(ast, "Match", ())) else None


def _targets(node):
    """The variables and attributes that the target of an assignment sets, as text."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return set().union(*map(_targets, node.elts))
    if isinstance(node, (ast.Starred, ast.Subscript)):
        return _targets(node.value)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return {ast.unparse(node)}
    return set()


def _names(node):
    """The variables and attributes in a node, as text."""
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute))} if node else set()


def _own_backward(torch, made):
    """The name of a torch.autograd.Function of the user's that the outputs are made by; None: there is none."""
    nodes, seen = [getattr(made, "grad_fn", None)], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        # PyTorch's own, such as checkpoints, have the gradients of what they compute.
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            own = type(node)._forward_cls
            if not own.__module__.startswith("torch."):
                return own.__name__
        nodes += [following for following, _ in node.next_functions]
    return None


# ---- random draws

@contextlib.contextmanager
def undropped(torch, rates):
    """PyTorch's dropout drops nothing. `rates` gets the rates that it was called with in training."""
    functional = torch.nn.functional
    attention = getattr(functional, "scaled_dot_product_attention", None)  # PyTorch 1 has none

    def dropout(input, p=0.5, training=True, inplace=False):
        if training and p > 0:
            rates.append(float(p))
        return input

    def attend(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
        if dropout_p > 0:
            rates.append(float(dropout_p))
        return attention(query, key, value, attn_mask, 0.0, is_causal, **options)

    kept = [(functional, "dropout", functional.dropout), (torch, "dropout", torch.dropout)]
    functional.dropout = dropout
    torch.dropout = lambda input, p, train: dropout(input, p, train)
    if attention is not None:
        kept.append((functional, "scaled_dot_product_attention", attention))
        functional.scaled_dot_product_attention = attend
    try:
        yield
    finally:
        for home, name, function in kept:
            setattr(home, name, function)


def _check_random(torch, module, run):
    """Raises ValueError if outputs or gradients differ from call to call, although no dropout drops anything."""
    with undropped(torch, []):
        number = _compare.random_call(run)
        if number is None:
            return
        calls = [_calls(torch, run, seed) for seed in (0, number)]
    names = {child: name for name, child in module.named_modules()}
    # The first module to end is the innermost: its inputs are the same, and its outputs differ.
    later = {key: values for key, *values in calls[1]}
    found = next((key[0] for key, given, made in calls[0]
                  if key in later and _alike(torch, given, later[key][0]) and not _alike(torch, made, later[key][1])), module)
    raise ValueError(f"{_torch_modules.place_of(names[found], found)} computes at random in training, by no dropout of PyTorch: its "
                     "export would keep one draw")


def _calls(torch, run, seed):
    """The calls of modules inside, in the order of their ends: ((module, number of its call), tensors given, tensors made)."""
    calls, given, counts = [], [], {}

    def tensors(values):
        values = values if isinstance(values, (tuple, list)) else [values]
        return [value.detach().clone() for value in values if isinstance(value, torch.Tensor)]

    def end(child, _, made):
        counts[child] = counts.get(child, 0) + 1
        calls.append(((child, counts[child]), given.pop(), tensors(made)))

    hooks = torch.nn.modules.module
    handles = [hooks.register_module_forward_pre_hook(lambda _, values: given.append(tensors(values))),
               hooks.register_module_forward_hook(end)]
    try:
        with _compare.drawn(seed):
            run(seed)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _alike(torch, a, b):
    return len(a) == len(b) and all(_same(torch, x, y) for x, y in zip(a, b))


# ---- side effects

@contextlib.contextmanager
def _writes_refused(torch, module, named, kept, scale=None):
    """A first call, with other parameters if there is a `scale`. Raises ValueError if it changes any."""
    kept.restore_attributes()
    kept.restore()
    with torch.no_grad():
        for value in named.values() if scale else ():
            if value.is_floating_point():
                value.copy_(scale * (value.abs() + 1))
    values = {name: value.detach().clone() for name, value in named.items()}
    yield
    now = dict(module.named_parameters())
    added = [name for name in now if name not in named]
    if added:
        raise ValueError(f"the module's forward makes the parameter {added[0]}: make it in __init__")
    written = [name for name, value in named.items() if now.get(name) is not value or not _same(torch, value, values[name])]
    if written:
        raise ValueError(f"the module's forward changes the parameter{'s' if len(written) > 1 else ''} {', '.join(written[:5])}"
                         f"{' and others' if len(written) > 5 else ''}: Leat does not run this code between steps")


def _same(torch, a, b):
    if a.shape != b.shape or not a.is_floating_point():
        return torch.equal(a, b)
    return torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def _check_attributes(torch, kept, later, expected, run):
    """Raises ValueError if outputs or gradients depend on attributes that calls change: the export has one value of them."""
    later.restore_attributes()
    changed = kept.changed()
    if not changed:
        return

    def differs(made):
        return made is not None and any(_compare.differs(a, b) for a, b in zip(expected, made))

    def differs_at(number, attributes):
        def change():
            for _, holder, key in attributes:
                value = holder[key]
                holder[key] = torch.full_like(value, number) if isinstance(value, torch.Tensor) else type(value)(number)
        return differs(run(later, change=change))

    def refuse(attributes):
        raise ValueError(f"what the module computes depends on {', '.join([name for name, *_ in attributes][:5])}, which its forward "
                         "changes: its export would keep one value")

    run(later)
    again = {(id(holder), key) for _, holder, key in later.changed()}
    if differs(run(kept)):
        refuse(changed)
    later.restore_attributes()
    counted = [entry for entry in changed if (id(entry[1]), entry[2]) in again and _is_count(torch, entry[1][entry[2]])]
    for number in _compare.AHEAD if counted else ():
        if differs_at(number, counted):
            refuse([entry for entry in counted if differs_at(number, [entry])] or counted)


def _is_count(torch, value):
    if isinstance(value, torch.Tensor):
        return value.numel() == 1
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
