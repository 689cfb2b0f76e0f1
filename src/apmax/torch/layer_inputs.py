"""The inputs of one layer of a network and the labels, over all batches of a DataLoader."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from apmax.errors import ParameterError, ShapeError

logger = logging.getLogger("apmax")
Unpack = Callable[[Any], tuple[Any, Any]]
"""A batch → (inputs, labels). Inputs are one argument, a tuple of them, or a mapping by name."""
LABEL_KEYS = ("labels", "label", "y", "target")
"""Keys of the labels in a batch that is a mapping; the first is that of Hugging Face."""
SECONDS_PER_MESSAGE = 10.0


class LayerInputs(NamedTuple):
    """The linear layer that was called last, its inputs (n, d), and the labels (n,) or (n, L)."""

    name: str
    layer: nn.Linear
    inputs: Tensor
    labels: Tensor


def layer_inputs(
    network: nn.Module, loader: Iterable[Any], layer: str | nn.Linear | None, unpack: Unpack | None
) -> LayerInputs:
    """Run the network in evaluation mode over the loader; its mode is restored afterwards.

    Without `layer` it is the linear layer that the network calls last.
    """
    layers = _linear_layers(network, layer)
    recorder = _Recorder(layers)
    device = next(iter(layers.values())).weight.device
    inputs: list[Tensor] = []
    labels: list[Tensor] = []
    name, reported = None, time.monotonic()
    with _evaluating(network), recorder, torch.no_grad():
        for batch in loader:
            arguments, of_batch = (unpack or unpack_batch)(batch)
            recorder.calls.clear()
            _call(network, _moved(arguments, device))
            name = recorder.last_called(name)
            features, rows = recorder.calls[name], torch.as_tensor(of_batch)
            if features.ndim != 2 or features.shape[0] != rows.shape[0]:
                raise ShapeError(
                    f"layer {name!r} has inputs of shape {tuple(features.shape)} for labels of "
                    f"shape {tuple(rows.shape)}: it must be called with one row per label; pass "
                    "another layer=, or unpack= for other batches"
                )
            wide = torch.promote_types(features.dtype, torch.float32)
            inputs.append(features.to("cpu", wide))
            labels.append(rows.detach().cpu())
            if time.monotonic() - reported > SECONDS_PER_MESSAGE:
                reported = time.monotonic()
                logger.info("features of %d batches", len(inputs))
    if name is None:
        raise ShapeError("`loader` has no batches: pass a DataLoader over labelled data")
    return LayerInputs(name, layers[name], torch.cat(inputs), torch.cat(labels))


def unpack_batch(batch: Any) -> tuple[Any, Any]:
    """Return inputs and labels of a tuple (inputs, labels, …) or of a mapping with labels."""
    if isinstance(batch, Mapping):
        for key in LABEL_KEYS:
            if key in batch:
                return {k: v for k, v in batch.items() if k != key}, batch[key]
    elif isinstance(batch, (tuple, list)) and len(batch) >= 2:
        return batch[0], batch[1]
    kind = f"the keys {sorted(batch)}" if isinstance(batch, Mapping) else type(batch).__name__
    raise ParameterError(
        f"a batch of `loader` is not (inputs, labels, …) nor a mapping with 'labels', but has "
        f"{kind}: pass unpack=lambda batch: (inputs, labels)"
    )


class _Recorder:
    """Input of the last call of each layer, while the context is open."""

    def __init__(self, layers: dict[str, nn.Linear]) -> None:
        self.layers = layers
        self.calls: dict[str, Tensor] = {}

    def __enter__(self) -> None:
        self.hooks = [
            layer.register_forward_pre_hook(self._hook(name)) for name, layer in self.layers.items()
        ]

    def __exit__(self, *error: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def _hook(self, name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def record(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            self.calls.pop(name, None)  # the order of the entries is that of the last calls
            self.calls[name] = arguments[0].detach()

        return record

    def last_called(self, before: str | None) -> str:
        """Return the layer that was called last, which must be the same in all batches."""
        if not self.calls:
            raise ParameterError(
                f"the network did not call {sorted(self.layers)}: pass the layer= that it uses"
            )
        name = list(self.calls)[-1]
        if before not in (None, name):
            raise ParameterError(
                f"the network ended with layer {before!r} and then with {name!r}: pass layer="
            )
        return name


def _linear_layers(network: nn.Module, layer: str | nn.Linear | None) -> dict[str, nn.Linear]:
    """Return the layers that may be the head, by name."""
    found = {name: one for name, one in network.named_modules() if isinstance(one, nn.Linear)}
    if layer is not None:
        found = {name: one for name, one in found.items() if name == layer or one is layer}
    if not found:
        names = [n for n, one in network.named_modules() if isinstance(one, nn.Linear)]
        raise ParameterError(
            f"`layer` = {layer!r} is not an nn.Linear of the network, which has {names[-5:]}: "
            "pass one of these names"
        )
    return found


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _call(network: nn.Module, arguments: Any) -> None:
    if isinstance(arguments, Mapping):
        network(**arguments)
    elif isinstance(arguments, (tuple, list)):
        network(*arguments)
    else:
        network(arguments)


def _moved(arguments: Any, device: torch.device) -> Any:
    if isinstance(arguments, Tensor):
        return arguments.to(device)
    if isinstance(arguments, Mapping):
        return {key: _moved(value, device) for key, value in arguments.items()}
    if isinstance(arguments, (tuple, list)):
        return tuple(_moved(value, device) for value in arguments)
    return arguments
