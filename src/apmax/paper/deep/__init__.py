"""The paper's experiment with deep networks (its Table 4): imbalanced CIFAR-10 and CIFAR-100.

Needs ``pip install 'apmax[torch,data]'``.
"""
