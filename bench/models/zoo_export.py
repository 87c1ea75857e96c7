# SPDX-License-Identifier: Apache-2.0
"""Writes one network of torchvision, timm or transformers as an ONNX file, with random weights.

Runs in .venv-zoo (tools/requirements/zoo.txt): `zoo_export.py SPECIFICATION FILE`. SPECIFICATION is JSON:
library and model; dtype (float32); dynamic, the axes of inputs without a fixed extent (none); shape of the
image; for transformers class, config, part and inputs.

Weights are those of the library's initialisation, with two changes, without which outputs would hardly
depend on inputs: parameters that begin at zero or nearly so (biases, scales of layers) are drawn from
N(0, 0.1), and batch normalisation gets the mean and the variance that its inputs have on a random image.
"""
import inspect
import json
import sys
import warnings

import torch

SEED = 1


def image_model(specification):
    name = specification["model"]
    if specification["library"] == "timm":
        import timm

        model = timm.create_model(name, pretrained=False)
    else:
        from torchvision import models

        options = {"weights": None}
        parameters = inspect.signature(models.get_model_builder(name)).parameters
        if "weights_backbone" in parameters:
            options["weights_backbone"] = None
        if name in ("googlenet", "inception_v3"):
            options.update(init_weights=False, aux_logits=False)
        model = models.get_model(name, **options)
    return model, {"x": specification["shape"]}


def transformers_model(specification):
    import transformers

    kind = getattr(transformers, specification["class"])
    model = kind(kind.config_class(**specification.get("config", {})))
    if part := specification.get("part"):
        model = getattr(model, part)
    return model, specification["inputs"]


def example(name, shape):
    """Draws an example of an input: integers from 0 to 999 if its name ends in "ids", else N(0, 1)."""
    return torch.randint(0, 1000, shape) if name.endswith("ids") else torch.randn(shape)


def draw_what_is_zero(model):
    for parameter in model.parameters():
        if parameter.numel() > 1 and parameter.abs().max() < 1e-3:
            torch.nn.init.normal_(parameter, std=0.1)


def normalise(model, inputs):
    """Runs the model once on two images, which sets the statistics of batch normalisation."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    model(*(torch.cat([x, torch.randn_like(x)]) for x in inputs))
    model.eval()


class First(torch.nn.Module):
    """Wraps a network so that it has one output, such as `logits` or `last_hidden_state`."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors):
        out = self.model(**dict(zip(self.names, tensors))) if self.names else self.model(*tensors)
        if isinstance(out, dict):
            out = next(iter(out.values()))
        return out[0] if isinstance(out, (tuple, list)) else out


def open_axes(specification, inputs):
    """The axes of First's inputs that have no fixed extent, as torch.export takes them."""
    axes = specification.get("dynamic")
    return {"tensors": tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for _ in inputs)} if axes else None


def main(specification, path):
    warnings.filterwarnings("ignore")
    torch.manual_seed(SEED)
    specification = json.loads(specification)
    is_text = specification["library"] == "transformers"
    model, shapes = (transformers_model if is_text else image_model)(specification)
    inputs = [example(name, shape) for name, shape in shapes.items()]
    model.eval()
    model = First(model, list(shapes) if is_text else [])
    dtype = getattr(torch, specification.get("dtype", "float32"))
    with torch.no_grad():
        draw_what_is_zero(model)
        normalise(model, inputs)
        model = model.to(dtype)
        inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
        torch.onnx.export(model, tuple(inputs), path, input_names=list(shapes), opset_version=18,
                          dynamic_shapes=open_axes(specification, inputs), dynamo=True, external_data=False,
                          verbose=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
