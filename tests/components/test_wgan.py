"""WGAN generator: golden values by stage for three sizes, published settings and entries."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.random_weights import fill_random
from voiceanon.components.speaker.wgan import WganConfig, WganGenerator
from voiceanon.errors import WeightsError

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
WGAN = np.load(GOLDEN / "wgan.npz")
NOISE = torch.from_numpy(WGAN["z"])
PUBLISHED = {"data_dim": [1, 1, 128], "z_dim": 16, "size": 8, "nfilter": 8, "nfilter_max": 16}
SIZES = {
    "a": WganConfig(),
    "b": WganConfig(size=16, max_filters=32),
    "c": WganConfig(size=4),
}

# Sums of up to 3 x 256 products in another order.
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


def close(result, expected):
    torch.testing.assert_close(result, torch.from_numpy(expected), rtol=0, atol=TOLERANCE)


def seeded(config):
    """Filled by the published names, which have ``module.`` in front."""
    model = WganGenerator(config).eval()
    floats = {f"module.{k}": tuple(v.shape) for k, v in model.state_dict().items() if v.ndim}
    filled = {k.removeprefix("module."): v for k, v in seeded_state_dict(floats).items()}
    counters = {k: v for k, v in model.state_dict().items() if not v.ndim}
    model.load_state_dict({**filled, **counters}, strict=True)
    return model


@pytest.fixture(scope="module", params=list(SIZES))
def size(request):
    return request.param


def test_golden_values(size):
    model = seeded(SIZES[size])
    stages = {}
    model.resnet.register_forward_pre_hook(lambda _, inputs: stages.update(fc=inputs[0]))
    model.resnet.register_forward_hook(lambda _, inputs, output: stages.update(resnet=output))
    result = model(NOISE)
    close(stages["fc"].flatten(1), WGAN[f"fc_act_{size}"])
    close(stages["resnet"], WGAN[f"resnet_last_{size}"])
    close(result, WGAN[f"out_{size}"])


def test_vectors():
    config = WganConfig.from_published(PUBLISHED, mean=WGAN["mean"], std=WGAN["std"])
    model = seeded(config)
    close(model.vectors(NOISE), WGAN["vectors_a"])
    assert (model.vectors(NOISE) - model(NOISE)).abs().max() > 0.1


def test_noise_is_that_of_a_seeded_generator():
    noise = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(noise, torch.from_numpy(WGAN["torch_seed0_z"]))


def test_a_vector_does_not_depend_on_the_others():
    model = seeded(SIZES["b"])
    close(model(NOISE[2:3])[0], model(NOISE)[2].numpy())


def test_published_entries():
    entries = json.loads((GOLDEN / "entries_gan_generator.json").read_text())
    model = WganGenerator(WganConfig.from_published(PUBLISHED, mean=0.0, std=1.0))
    shapes = {f"module.{name}": list(value.shape) for name, value in model.state_dict().items()}
    assert shapes == entries


def test_published_settings():
    mean = torch.tensor(0.25)
    config = WganConfig.from_published({**PUBLISHED, "size": 16.0}, mean=mean, std=np.float32(2))
    assert config == WganConfig(size=16, mean=0.25, std=2.0)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"z_dim": None}, "TypeError"),
        ({"data_dim": []}, "IndexError"),
        ({"size": "large"}, "large"),
        ({"size": 12}, "size 12"),
        ({"size": 2}, "size 2"),
    ],
)
def test_unusable_settings_are_refused(change, found):
    with pytest.raises(WeightsError, match=found):
        WganConfig.from_published({**PUBLISHED, **change}, mean=0.0, std=1.0)


def test_a_missing_setting_is_named():
    settings = {name: value for name, value in PUBLISHED.items() if name != "nfilter"}
    with pytest.raises(WeightsError, match="nfilter"):
        WganConfig.from_published(settings, mean=0.0, std=1.0)
    with pytest.raises(WeightsError, match="one number each"):
        WganConfig.from_published(PUBLISHED, mean=torch.zeros(128), std=1.0)


def test_autocast_changes_nothing():
    model = seeded(SIZES["a"])
    with torch.autocast("cpu", torch.bfloat16):
        result = model(NOISE)
    assert torch.equal(result, model(NOISE))


def test_random_weights_give_vectors_that_differ():
    model = WganGenerator().eval()
    fill_random(model, torch.Generator().manual_seed(0))
    vectors = model.vectors(torch.randn(50, 16, generator=torch.Generator().manual_seed(1)))
    assert vectors.isfinite().all()
    assert vectors.std(0).min() > 0.01
