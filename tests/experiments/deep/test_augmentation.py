"""Crops and flips of a batch are those of its images one by one."""

import torch

from experiments.deep.augmentation import DEVIATION, MEAN, PADDING, crop_and_flip, normalise


def one_by_one(images, generator):
    """The same draws, image after image."""
    count, _, height, width = images.shape
    shifts = torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator)
    flipped = torch.rand(count, generator=generator) < 0.5
    shown = torch.zeros_like(images)
    for i in range(count):
        top, left = shifts[0, i] - PADDING, shifts[1, i] - PADDING
        for row in range(height):
            for column in range(width):
                r, c = row + top, column + left
                if 0 <= r < height and 0 <= c < width:
                    shown[i, :, row, column] = images[i, :, r, c]
        if flipped[i]:
            shown[i] = shown[i].flip(2)
    return shown


def test_a_batch_is_cropped_and_flipped_like_its_images_one_by_one():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (12, 3, 9, 9), generator=generator, dtype=torch.uint8)
    got = crop_and_flip(images, torch.Generator().manual_seed(5))
    assert torch.equal(got, one_by_one(images, torch.Generator().manual_seed(5)))


def test_numbers_have_the_published_mean_and_deviation():
    images = torch.randint(0, 256, (4, 3, 5, 5), dtype=torch.uint8)
    got = normalise(images)
    for c in range(3):
        expected = (images[:, c].double() / 255 - MEAN[c]) / DEVIATION[c]
        torch.testing.assert_close(got[:, c].double(), expected, atol=1e-6, rtol=1e-6)
    assert got.is_contiguous(memory_format=torch.channels_last)
