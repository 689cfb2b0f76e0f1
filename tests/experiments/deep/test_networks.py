"""The networks of He et al., and the random crops and flips of their input."""

import pytest
import torch

from experiments.deep.networks import PADDING, build, crop_and_flip, resnet18, resnet20


@pytest.mark.parametrize(("make", "parameters"), [(resnet20, 269_722), (resnet18, 11_173_962)])
def test_ten_outputs_take_the_published_number_of_parameters(make, parameters):
    assert sum(p.numel() for p in make(outputs=10).parameters()) == parameters
    with torch.no_grad():
        assert make().eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 1)


def test_weights_come_from_the_seed_and_the_global_generator_does_not_change():
    before = torch.get_rng_state()
    first, again, other = build("resnet20", 1), build("resnet20", 1), build("resnet20", 2)
    assert torch.equal(first.last.weight, again.last.weight)
    assert not torch.equal(first.last.weight, other.last.weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_is_cropped_and_flipped_like_its_images_one_by_one():
    images = torch.randint(0, 256, (12, 3, 9, 9), dtype=torch.uint8)
    found = crop_and_flip(images, torch.Generator().manual_seed(5))
    generator = torch.Generator().manual_seed(5)
    shifts = torch.randint(0, 2 * PADDING + 1, (2, 12), generator=generator).tolist()
    flipped = torch.rand(12, generator=generator) < 0.5
    padded = torch.nn.functional.pad(images, (PADDING,) * 4)
    for i, (top, left) in enumerate(zip(*shifts, strict=True)):
        crop = padded[i, :, top : top + 9, left : left + 9]
        assert torch.equal(found[i], crop.flip(2) if flipped[i] else crop)


def test_logits_are_not_rounded_to_bfloat16_under_autocast():
    images = torch.randn(32, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    network = build("resnet20", 0).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = network(images)
        assert network.stem(images).dtype == torch.bfloat16
    assert logits.dtype == torch.float32
    assert (logits != logits.bfloat16().float()).float().mean() > 0.9
