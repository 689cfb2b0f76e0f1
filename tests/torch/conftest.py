"""One torch thread: small tensors gain nothing from more, and tests may share the cores."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
