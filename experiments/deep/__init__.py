"""The paper's experiment with deep networks (its Table 4): imbalanced CIFAR-10 and CIFAR-100.

Needs ``pip install 'apmax[torch,data]'``.
"""

import apmax.torch as _torch  # noqa: F401 - says how to install PyTorch where it is missing
