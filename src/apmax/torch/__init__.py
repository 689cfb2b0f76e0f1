"""Losses, optimizers and samplers for PyTorch; needs ``pip install 'apmax[torch]'``."""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - the tests' machine has it
    raise ImportError("apmax.torch needs PyTorch: pip install 'apmax[torch]'") from error

from apmax.torch.average_precision import APLoss
from apmax.torch.batch_losses import SmoothAPLoss
from apmax.torch.class_pair_losses import PartialAUCLoss, PNormPushLoss
from apmax.torch.compositional import CompositionalLoss
from apmax.torch.exact_head import ExactAPHead, HeadFit
from apmax.torch.exact_loss import ExactAPLoss
from apmax.torch.indexed_dataset import IndexedDataset
from apmax.torch.method_table import from_table
from apmax.torch.multi_label_sampler import MultiLabelBatchSampler
from apmax.torch.optim import ADAP, MOAP, SOAP
from apmax.torch.query_losses import ListwiseLoss, NDCGLoss, QueryAPLoss
from apmax.torch.query_sampler import QueryBatchSampler
from apmax.torch.sampler import PositiveNegativeBatchSampler

__all__ = [
    "ADAP",
    "MOAP",
    "SOAP",
    "APLoss",
    "CompositionalLoss",
    "ExactAPHead",
    "ExactAPLoss",
    "HeadFit",
    "IndexedDataset",
    "ListwiseLoss",
    "MultiLabelBatchSampler",
    "NDCGLoss",
    "PNormPushLoss",
    "PartialAUCLoss",
    "PositiveNegativeBatchSampler",
    "QueryAPLoss",
    "QueryBatchSampler",
    "SmoothAPLoss",
    "from_table",
]
