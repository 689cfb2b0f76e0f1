"""Residual networks for 32 × 32 images (He et al., 2016), and the preparation of their input."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PADDING = 4
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)
"""Of the channels of CIFAR-10 in [0, 1]."""


class PaddedShortcut(nn.Module):
    """Every second pixel, and zeros for new channels; no parameters (option A of He et al.)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.more, self.stride = outputs - inputs, stride

    def forward(self, x: Tensor) -> Tensor:
        """Return the input in the shape of the block's output."""
        before = self.more // 2
        padding = (0, 0, 0, 0, before, self.more - before)
        return F.pad(x[:, :, :: self.stride, :: self.stride], padding)


def projected_shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Return a 1 × 1 convolution with batch normalisation (option B of He et al.)."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResidualBlock(nn.Module):
    """relu(shortcut(x) + BN(conv(relu(BN(conv(x))))))."""

    def __init__(self, inputs: int, outputs: int, stride: int, shortcut: Any) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Apply two convolutions and the shortcut."""
        inner = self.bn2(self.conv2(F.relu_(self.bn1(self.conv1(x)))))
        return F.relu_(inner + self.shortcut(x))


class ResidualNetwork(nn.Module):
    """A 3 × 3 stem, groups of blocks that halve the image, the mean over pixels, one layer."""

    def __init__(
        self, widths: tuple[int, ...], blocks: int, shortcut: Any, *, outputs: int = 1
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 3, padding=1, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(inplace=True),
        )
        layers: list[nn.Module] = []
        inputs = widths[0]
        for group, width in enumerate(widths):
            for k in range(blocks):
                stride = 2 if group > 0 and k == 0 else 1
                layers.append(ResidualBlock(inputs, width, stride, shortcut))
                inputs = width
        self.blocks = nn.Sequential(*layers)
        self.last = nn.Linear(inputs, outputs)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of shape (B, outputs).

        The last layer runs in single precision also under autocast: logits rounded to bfloat16
        are often equal, and average precision depends on their order.
        """
        features = self.blocks(self.stem(x)).float().mean(dim=(2, 3))
        with torch.autocast(features.device.type, enabled=False):
            logits: Tensor = self.last(features)
        return logits


def resnet20(outputs: int = 1) -> ResidualNetwork:
    """Return three groups of three blocks, 16 to 64 channels: 0.27 million parameters."""
    return ResidualNetwork((16, 32, 64), 3, PaddedShortcut, outputs=outputs)


def resnet18(outputs: int = 1) -> ResidualNetwork:
    """Return four groups of two blocks, 64 to 512 channels: 11.2 million parameters."""
    return ResidualNetwork((64, 128, 256, 512), 2, projected_shortcut, outputs=outputs)


def build(name: str, seed: int) -> ResidualNetwork:
    """Build a network with weights drawn by `seed`, without changing torch's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return {"resnet20": resnet20, "resnet18": resnet18}[name]()


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
