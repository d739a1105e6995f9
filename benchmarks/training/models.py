# SPDX-License-Identifier: BSD-3-Clause
"""The models of papers 0 and 1 in PyTorch, for small images, and a small CNN.

torchvision has most of them, but each of its wheels needs one build of torch, and its classifiers do not
shrink with the image: its AlexNet has the same gradients at 64 x 64 as at 224 x 224, and little to compute.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

CLASSES = 1000  # of ImageNet
CIFAR_CLASSES = 10


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
    """A convolution that keeps the image if the stride is 1, and batch normalisation."""
    return [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    ]


class Residual(nn.Module):  # type: ignore[misc]  # torch is not installed beside mypy
    """A residual block around some layers; the shortcut is a convolution if the shape changes."""

    def __init__(self, layers: list[nn.Module], inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        same = inputs == outputs and stride == 1
        self.layers = nn.Sequential(*layers)
        self.shortcut = nn.Identity() if same else nn.Sequential(*convolution(inputs, outputs, 1, stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.relu(self.layers(images) + self.shortcut(images))


def basic(inputs: int, width: int, stride: int) -> nn.Module:
    layers = [*convolution(inputs, width, 3, stride), nn.ReLU(inplace=True), *convolution(width, width, 3)]
    return Residual(layers, inputs, width, stride)


def bottleneck(inputs: int, width: int, stride: int) -> nn.Module:
    layers = [
        *convolution(inputs, width, 1),
        nn.ReLU(inplace=True),
        *convolution(width, width, 3, stride),
        nn.ReLU(inplace=True),
        *convolution(width, 4 * width, 1),
    ]
    return Residual(layers, inputs, 4 * width, stride)


def pooled(features: int, classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes)]


def resnet50(image: int) -> nn.Module:
    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, *pooled(inputs, CLASSES))


def resnet110(image: int) -> nn.Module:
    layers = [*convolution(3, 16, 3), nn.ReLU(inplace=True)]
    inputs = 16
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        for block in range(18):
            layers.append(basic(inputs, width, stride if block == 0 else 1))
            inputs = width
    return nn.Sequential(*layers, *pooled(inputs, CIFAR_CLASSES))


def classifier(features: nn.Module, image: int) -> nn.Module:
    """Three linear layers after the features, as AlexNet and VGG have them; no dropout."""
    outputs = features(torch.zeros(1, 3, image, image)).numel()
    return nn.Sequential(
        features,
        nn.Flatten(),
        nn.Linear(outputs, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, CLASSES),
    )


def vgg11(image: int) -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for widths in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        for width in widths:
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return classifier(nn.Sequential(*layers), image)


def alexnet(image: int) -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for outputs, size, stride, padding, pools in (
        (64, 11, 4, 2, True),
        (192, 5, 1, 2, True),
        (384, 3, 1, 1, False),
        (256, 3, 1, 1, False),
        (256, 3, 1, 1, True),
    ):
        layers += [nn.Conv2d(inputs, outputs, size, stride, padding), nn.ReLU(inplace=True)]
        inputs = outputs
        if pools:
            layers.append(nn.MaxPool2d(3, 2))
    return classifier(nn.Sequential(*layers), image)


class Dense(nn.Module):  # type: ignore[misc]
    """A layer of DenseNet: its output is the input with 32 more channels."""

    def __init__(self, inputs: int, growth: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(inputs, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(inplace=True),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([images, self.layers(images)], 1)


def densenet201(image: int) -> nn.Module:
    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for number, count in enumerate((6, 12, 48, 32)):
        if number > 0:  # a transition halves the channels and the image
            layers += [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)]
            layers += [nn.Conv2d(inputs, inputs // 2, 1, bias=False), nn.AvgPool2d(2)]
            inputs //= 2
        for _ in range(count):
            layers.append(Dense(inputs))
            inputs += 32
    layers += [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, *pooled(inputs, CLASSES))


def cnn(image: int) -> nn.Module:
    """Small: its gradients are short messages."""
    side = (image - 2) // 2 - 2
    return nn.Sequential(
        nn.Conv2d(3, 16, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(32 * side**2, 128),
        nn.ReLU(inplace=True),
        nn.Linear(128, CIFAR_CLASSES),
    )


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "cnn": cnn,
    "resnet110": resnet110,
    "resnet50": resnet50,
    "vgg11": vgg11,
    "alexnet": alexnet,
    "densenet201": densenet201,
}
