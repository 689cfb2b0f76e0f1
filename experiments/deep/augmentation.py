"""Random crops and flips of a whole batch in a few tensor operations."""

import torch
from torch import Tensor

PADDING = 4
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)
"""Of the channels of CIFAR-10 in [0, 1]."""


def normalise(images: Tensor) -> Tensor:
    """Convert bytes (B, 3, H, W) to numbers of mean 0 and deviation 1, channels last in memory."""
    mean = torch.tensor(MEAN, device=images.device)[:, None, None]
    deviation = torch.tensor(DEVIATION, device=images.device)[:, None, None]
    numbers = (images.float() / 255.0 - mean) / deviation
    return numbers.contiguous(memory_format=torch.channels_last)


def crop_and_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Shift every image by up to ±4 pixels, filling with black, and flip half of them.

    Random numbers are drawn on the CPU, so that a seed means the same on every device.
    """
    count, _, height, width = images.shape
    shifts = torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator)
    flipped = torch.rand(count, generator=generator) < 0.5
    rows = shifts[0, :, None] + torch.arange(height)
    columns = shifts[1, :, None] + torch.arange(width)
    columns = torch.where(flipped[:, None], columns.flip(1), columns)
    padded = torch.nn.functional.pad(images, (PADDING,) * 4)
    at = torch.arange(count)[:, None, None].to(images.device)
    rows, columns = rows[:, :, None].to(images.device), columns[:, None, :].to(images.device)
    return padded.permute(0, 2, 3, 1)[at, rows, columns].permute(0, 3, 1, 2)
