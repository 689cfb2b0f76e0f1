"""Datasets that yield the index of each example."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, cast

from torch.utils.data import Dataset

from apmax.errors import ParameterError


class IndexedDataset(Dataset[Any]):
    """Map-style dataset that appends the index to every item, for ``APLoss``.

    Tuples get it as their last part, and mappings (Hugging Face) as ``"index"``.

    Parameters
    ----------
    dataset : Dataset or sequence
        A dataset with a length and items by number.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> from apmax.torch import IndexedDataset
    >>> data = IndexedDataset(TensorDataset(torch.zeros(3, 2), torch.tensor([0, 1, 0])))
    >>> x, y, index = data[2]
    >>> index
    2
    """

    def __init__(self, dataset: Any) -> None:
        if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
            raise ParameterError(
                f"`dataset` = {type(dataset).__name__} must have a length and items by number: an "
                "iterable dataset has no index"
            )
        self.dataset = dataset

    def __len__(self) -> int:
        """Return the number of items."""
        return len(cast(Sized, self.dataset))

    def __getitem__(self, index: int) -> Any:
        """Return the parts of the item, then its index; that of a mapping is its "index"."""
        if isinstance(index, (list, tuple)):
            raise ParameterError(
                f"`index` is a list of {len(index)} numbers: pass the sampler as "
                "DataLoader(batch_sampler=…), not as sampler="
            )
        index = range(len(self))[index]  # counts from 0, also for a negative index
        item = self.dataset[index]
        if isinstance(item, Mapping):
            return {**item, "index": index}
        parts = tuple(item) if isinstance(item, (tuple, list)) else (item,)
        return (*parts, index)
