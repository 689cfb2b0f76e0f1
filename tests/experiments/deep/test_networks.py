"""The networks are those of He et al.: known by their numbers of parameters."""

import pytest
import torch

from apmax.errors import ParameterError
from experiments.deep.networks import build, resnet18, resnet20


@pytest.mark.parametrize(
    ("make", "parameters"),
    [(resnet20, 269_722), (resnet18, 11_173_962)],
    ids=["resnet20", "resnet18"],
)
def test_ten_outputs_take_the_published_number_of_parameters(make, parameters):
    assert sum(p.numel() for p in make(outputs=10).parameters()) == parameters


@pytest.mark.parametrize("name", ["resnet20", "resnet18"])
def test_an_image_has_one_logit(name):
    network = build(name, 0).eval()
    with torch.no_grad():
        assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 1)


def test_the_padded_shortcut_takes_every_second_pixel_and_adds_channels_of_zeros():
    shortcut = resnet20().blocks[3].shortcut
    x = torch.randn(2, 16, 8, 8)
    y = shortcut(x)
    assert y.shape == (2, 32, 4, 4)
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])
    assert not y[:, :8].any()
    assert not y[:, 24:].any()


def test_weights_come_from_the_seed_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    first, again, other = build("resnet20", 1), build("resnet20", 1), build("resnet20", 2)
    assert torch.equal(first.last.weight, again.last.weight)
    assert not torch.equal(first.last.weight, other.last.weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_unknown_network_is_refused():
    with pytest.raises(ParameterError, match="resnet20"):
        build("resnet21", 0)
