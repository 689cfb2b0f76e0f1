"""Networks: Table 4, on imbalanced CIFAR-10 and CIFAR-100."""
