# SPDX-License-Identifier: Apache-2.0
"""Models of torchvision, timm and transformers with random weights, small where their sizes are parameters."""
from __future__ import annotations

from typing import Any, Callable, NamedTuple

import torch
from torch import nn


class Case(NamedTuple):
    """A model, its inputs (by name or position) and the loss of what it gives."""
    model: nn.Module
    inputs: Any
    loss: Callable


MODELS: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    MODELS[make.__name__] = make
    return make


# ---- losses and inputs ----

def classes(out: Any, target: torch.Tensor) -> torch.Tensor:
    out = getattr(out, "logits", out)
    out = out[0] if isinstance(out, tuple) else out
    return nn.functional.cross_entropy(out.flatten(0, -2), target.flatten())


def squares(out: Any, target: torch.Tensor) -> torch.Tensor:
    out = out["out"] if isinstance(out, dict) and "out" in out else getattr(out, "last_hidden_state", out)
    out = out[0] if isinstance(out, tuple) else out
    return nn.functional.mse_loss(out, target.expand_as(out))


def image(model: nn.Module, size: int = 64, count: int = 10, batch: int = 3) -> Case:
    return Case(model, ((torch.randn(batch, 3, size, size),), torch.randint(0, count, (batch,))), classes)


def dense(model: nn.Module, size: int = 64) -> Case:
    return Case(model, ((torch.randn(2, 3, size, size),), torch.randn(1)), squares)


def tokens(n: int = 12, vocabulary: int = 99) -> torch.Tensor:
    return torch.randint(2, vocabulary, (2, n))


SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def language(model: nn.Module, **more: torch.Tensor) -> Case:
    return Case(model, ({"input_ids": tokens(), **more}, tokens()), classes)


def encoder(model: nn.Module) -> Case:
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 8:] = 0
    return Case(model, ({"input_ids": tokens(), "attention_mask": mask}, torch.randn(1)), squares)


def vision(name: str, size: int = 64, **how: Any) -> Callable[[], Case]:
    def make() -> Case:
        import torchvision
        return image(getattr(torchvision.models, name)(weights=None, num_classes=10, **how), size)
    make.__name__ = name
    return make


def timm(name: str, size: int = 64, **how: Any) -> Callable[[], Case]:
    def make() -> Case:
        import timm
        return image(timm.create_model(name, pretrained=False, num_classes=10, **how), size)
    make.__name__ = name
    return make


# ---- torchvision ----

for make in (vision("resnet18"), vision("resnet50"), vision("mobilenet_v3_small"), vision("efficientnet_b0"), vision("convnext_tiny"),
             vision("swin_t"), vision("shufflenet_v2_x0_5"), vision("squeezenet1_1"), vision("mnasnet0_5"), vision("regnet_y_400mf"),
             vision("vgg11_bn", 32)):
    case(make)


@case
def vit() -> Case:
    import torchvision
    return image(torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 64, dropout=0.1, num_classes=10), 32)


@case
def densenet() -> Case:
    import torchvision
    return image(torchvision.models.DenseNet(8, (2, 2, 2), 16, num_classes=10))


@case
def lraspp() -> Case:
    import torchvision
    return dense(torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4))


# ---- timm ----

for make in (timm("convnextv2_atto"), timm("mixer_s32_224", img_size=64), timm("deit_tiny_patch16_224", img_size=64, depth=2),
             timm("mobilevit_xxs"), timm("poolformer_s12"), timm("pvt_v2_b0"), timm("ghostnet_050")):
    case(make)


# ---- transformers ----

def _of(model: str, config: str, **how: Any) -> nn.Module:
    import transformers
    return getattr(transformers, model)(getattr(transformers, config)(**how))


@case
def bert() -> Case:
    return encoder(_of("BertModel", "BertConfig", **SMALL, max_position_embeddings=32))


@case
def gpt2() -> Case:
    return language(_of("GPT2LMHeadModel", "GPT2Config", vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False))


@case
def llama() -> Case:
    return language(_of("LlamaForCausalLM", "LlamaConfig", **SMALL, num_key_value_heads=2, use_cache=False))


@case
def t5() -> Case:
    model = _of("T5ForConditionalGeneration", "T5Config", vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                decoder_start_token_id=0, use_cache=False)
    return language(model, decoder_input_ids=tokens())


@case
def whisper_encoder() -> Case:
    import transformers
    config = transformers.WhisperConfig(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=16,
                                        max_source_positions=20)
    model = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)
    return Case(model, ((torch.randn(2, 16, 40),), torch.randn(1)), squares)


@case
def distilbert() -> Case:
    return encoder(_of("DistilBertModel", "DistilBertConfig", vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
                       max_position_embeddings=32))


@case
def mistral() -> Case:
    return language(_of("MistralForCausalLM", "MistralConfig", **SMALL, num_key_value_heads=2, sliding_window=6, use_cache=False))


@case
def albert() -> Case:
    return encoder(_of("AlbertModel", "AlbertConfig", **SMALL, embedding_size=16, max_position_embeddings=32))


@case
def opt() -> Case:
    return language(_of("OPTForCausalLM", "OPTConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        ffn_dim=64, max_position_embeddings=32, word_embed_proj_dim=32, use_cache=False))


# ---- a U-Net, after Ronneberger et al. 2015 ----

class _Twice(nn.Sequential):
    def __init__(self, i: int, o: int) -> None:
        super().__init__(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, widths: tuple = (8, 16, 32), channels: int = 3, count: int = 2) -> None:
        super().__init__()
        self.down = nn.ModuleList(_Twice(i, o) for i, o in zip((channels, *widths), widths))
        pairs = list(zip(widths[:0:-1], widths[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in pairs)
        self.join = nn.ModuleList(_Twice(2 * o, o) for _, o in pairs)
        self.head = nn.Conv2d(widths[0], count, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if not i else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        for up, join, skip in zip(self.up, self.join, skips[-2::-1]):
            x = join(torch.cat([skip, up(x)], 1))
        return self.head(x)


@case
def unet() -> Case:
    return dense(UNet(), 32)
