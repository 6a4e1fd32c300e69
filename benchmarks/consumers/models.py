"""Small models, one for each form of file that readers trip over, with the axes that vary in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

Sizes = dict[str, int]
Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class SmallModel:
    """A model, its inputs at given sizes, and for each input the axes that vary by the name of their size."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[Sizes], Inputs]
    axes: tuple[dict[int, str], ...]
    sizes: Sizes
    other_sizes: Sizes

    def build(self) -> nn.Module:
        """Build the model in eval mode, with the same weights every time."""
        torch.manual_seed(0)
        model = self.make().eval()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                assert module.running_mean is not None and module.running_var is not None
                module.running_mean.normal_(0, 0.2)
                module.running_var.uniform_(0.5, 1.5)
        return model

    def example(self, sizes: Sizes, seed: int) -> Inputs:
        """The same inputs every time for some sizes and a seed."""
        torch.manual_seed(seed)
        return self.inputs(sizes)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.LeakyReLU(0.1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10), nn.Softmax(-1),
    )  # fmt: skip


class _Residual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        self.short = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.short(x))


def _resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        _Residual(8, 16, 1), _Residual(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(32, 10),
    )  # fmt: skip


class _Inverted(nn.Module):
    """A block of MobileNetV3: expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(width, 2 * width, 1, bias=False), nn.BatchNorm2d(2 * width))
        self.depthwise = nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width, bias=False)
        self.norm = nn.BatchNorm2d(2 * width)
        self.squeeze = nn.Conv2d(2 * width, width, 1)
        self.excite = nn.Conv2d(width, 2 * width, 1)
        self.project = nn.Conv2d(2 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.hardswish(self.expand(x))
        y = functional.hardswish(self.norm(self.depthwise(y)))
        scale = functional.relu(self.squeeze(functional.adaptive_avg_pool2d(y, 1)))
        return x + self.project(y * functional.hardsigmoid(self.excite(scale)))


def _mobilenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), _Inverted(8), _Inverted(8), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Dropout(), nn.Linear(8, 10),
    )  # fmt: skip


class _Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **settings: object) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.layer = kind(12, 16, batch_first=True, **settings)
        wide = 2 if self.layer.bidirectional else 1
        self.head = nn.Linear(16 * wide, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layer(self.embed(tokens))[0])


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class _Head(nn.Module):
    """A model of transformers that gives one tensor."""

    def __init__(self, inner: nn.Module, output: str) -> None:
        super().__init__()
        self.inner = inner
        self.output = output

    def forward(self, first: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return getattr(self.inner(first), self.output)
        return getattr(self.inner(first, attention_mask=mask), self.output)


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32,
    )  # fmt: skip
    return _Head(BertModel(config), "last_hidden_state")


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=4
    )
    return _Head(ViTModel(config, add_pooling_layer=False), "last_hidden_state")


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=60, n_positions=32, n_embd=16, n_layer=2, n_head=2, use_cache=False)
    return _Head(GPT2LMHeadModel(config), "logits")


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=32, max_position_embeddings=32, use_cache=False,
    )  # fmt: skip
    return _Head(LlamaForCausalLM(config), "logits")


def _prelu() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.PReLU(8), nn.Conv2d(8, 8, 3, 2), nn.PReLU(), nn.ELU())


class _Upsample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.interpolate(self.first(x), scale_factor=2.0, mode="nearest")
        return functional.interpolate(self.second(y), scale_factor=2.0, mode="bilinear", align_corners=False)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.pool, self.middle = nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, 1, 1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, x: Tensor) -> Tensor:
        left = functional.silu(self.down(x))
        middle = functional.silu(self.norm(self.middle(self.pool(left))))
        return torch.sigmoid(self.out(torch.cat([self.up(middle), left], 1)))


class _ConvNext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depthwise = nn.Conv2d(3, 16, 4, 4), nn.Conv2d(16, 16, 7, padding=3, groups=16)
        self.norm, self.wide, self.narrow = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.scale = nn.Parameter(torch.full((16,), 0.5))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(functional.gelu(self.wide(y)))
        return self.head((x + y.permute(0, 3, 1, 2)).mean([2, 3]))


class _MaskedAttention(nn.Module):
    """Attention written out, with a mask of the user's that is added before the softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2)) * 0.5
        scores = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, 16))


class _MaskedSdpa(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (4, 4)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        allowed = mask.bool()[:, None, None, :]
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed).transpose(1, 2).flatten(2)


class _Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(8, 16, 3, padding=1), nn.Conv1d(16, 16, 3, 2, 1)
        self.attention, self.norm = nn.MultiheadAttention(16, 4, batch_first=True), nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.gelu(self.second(functional.gelu(self.first(x)))).transpose(1, 2)
        y = self.norm(x)
        return x + self.attention(y, y, y, need_weights=False)[0]


class _Pools(nn.Module):
    """Pools with a stride and a window of one, as in PNASNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.path = nn.AvgPool2d(1, 2, count_include_pad=False)
        self.pool = nn.AvgPool2d(3, 2, 1, count_include_pad=False)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu6(self.conv(x))
        shifted = functional.pad(x, (-1, 1, -1, 1))
        return torch.cat([self.path(x), self.path(shifted), self.pool(x)], 1)


class _Detector(nn.Module):
    """A head of YOLO: grids of boxes, decoded and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU())
        self.down, self.small, self.large = nn.Conv2d(16, 16, 3, 2, 1), nn.Conv2d(16, 12, 1), nn.Conv2d(16, 12, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        maps = [self.small(x), self.large(functional.silu(self.down(x)))]
        boxes, scores = torch.cat([m.flatten(2) for m in maps], 2).split([4, 8], 1)
        left, right = boxes.chunk(2, 1)
        return torch.cat([(left + right) / 2, right - left, scores.sigmoid()], 1).transpose(1, 2)


class _DeepLab(nn.Module):
    """Dilated convolutions beside the mean of the whole image, at the size of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.out = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(16, 3, 1)
        self.rates = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=rate, dilation=rate) for rate in (1, 2, 3))
        self.pooled = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        whole = functional.relu(self.pooled(functional.adaptive_avg_pool2d(y, 1)))
        parts = [functional.relu(conv(y)) for conv in self.rates]
        parts.append(functional.interpolate(whole, y.shape[2:], mode="bilinear", align_corners=False))
        return functional.interpolate(self.out(torch.cat(parts, 1)), x.shape[2:], mode="bilinear", align_corners=False)


class _SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.block = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.act, self.last, self.shuffle = nn.PReLU(8), nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = y + 0.1 * self.block(self.act(y))
        return self.shuffle(self.last(y)) + functional.interpolate(x, scale_factor=2.0, mode="bicubic")


class _Ocr(nn.Module):
    """Columns of a line of text as a sequence, behind convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.MaxPool2d((2, 1)),
        )
        self.layers, self.head = nn.LSTM(32, 12, 2, bidirectional=True), nn.Linear(24, 11)

    def forward(self, x: Tensor) -> Tensor:
        columns = self.features(x).flatten(1, 2).permute(2, 0, 1)
        return self.head(self.layers(columns)[0]).log_softmax(2)


class _TextCnn(nn.Module):
    """The largest of each feature over a whole text, by a pool of its length."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 8), nn.Linear(8, 3)
        self.convs = nn.ModuleList(nn.Conv1d(8, 4, width) for width in (2, 3))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens).transpose(1, 2)
        maps = [functional.relu(conv(x)) for conv in self.convs]
        return self.head(torch.cat([functional.max_pool1d(each, each.shape[-1]).squeeze(-1) for each in maps], 1))


class _Temporal(nn.Module):
    """Causal convolutions whose weights have a norm of their own."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.convs = nn.ModuleList(norm(nn.Conv1d(8, 8, 3, dilation=rate)) for rate in (1, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.convs:
            x = x + functional.relu(conv(functional.pad(x, (2 * conv.dilation[0], 0))))
        return x


class _Decoder(nn.Module):
    """torch's own decoder, with a causal mask that the model makes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.layers = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32, batch_first=True), 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.layers(x, x, tgt_mask=mask)


def _roberta() -> nn.Module:
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32, pad_token_id=1,
    )  # fmt: skip
    return _Head(RobertaModel(config, add_pooling_layer=False), "last_hidden_state")


class _Windows(nn.Module):
    """Attention within windows of an image that is shifted before, as in Swin."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.mix = nn.Conv2d(3, 8, 2, 2), nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.embed(x).permute(0, 2, 3, 1))
        batch, height, width, channels = x.shape
        x = torch.roll(x, (-1, -1), (1, 2))
        x = x.view(batch, height // 2, 2, width // 2, 2, channels).transpose(2, 3).reshape(-1, 4, channels)
        x = (x @ x.transpose(1, 2)).softmax(-1) @ self.mix(x)
        x = x.view(batch, height // 2, width // 2, 2, 2, channels).transpose(2, 3).reshape(batch, height, width, -1)
        return torch.roll(x, (1, 1), (1, 2))


def _image(size: int = 16) -> Callable[[Sizes], Inputs]:
    return lambda sizes: (torch.randn(sizes["batch"], 3, sizes.get("height", size), sizes.get("width", size)),)


def _tokens(sizes: Sizes) -> Inputs:
    return (torch.randint(0, 50, (sizes["batch"], sizes["length"])),)


def _masked_tokens(sizes: Sizes) -> Inputs:
    (tokens,) = _tokens(sizes)
    return tokens, _mask(sizes)


def _mask(sizes: Sizes) -> Tensor:
    mask = torch.ones(sizes["batch"], sizes["length"], dtype=torch.int64)
    mask[-1, sizes["length"] - 2 :] = 0
    return mask


def _vectors(width: int) -> Callable[[Sizes], Inputs]:
    return lambda sizes: (torch.randn(sizes["batch"], sizes["length"], width),)


_ONE, _TWO = {"batch": 2}, {"batch": 3}
_TEXT, _OTHER_TEXT = {"batch": 2, "length": 6}, {"batch": 3, "length": 9}
_PICTURE, _OTHER_PICTURE = {"batch": 2, "height": 16, "width": 16}, {"batch": 3, "height": 24, "width": 32}
_BATCH = ({0: "batch"},)
_SEQUENCE = ({0: "batch", 1: "length"},)
_PLANE = ({0: "batch", 2: "height", 3: "width"},)


def _picture(name: str, make: Callable[[], nn.Module]) -> SmallModel:
    return SmallModel(name, make, _image(), _PLANE, _PICTURE, _OTHER_PICTURE)


MODELS = (
    SmallModel("mlp", _mlp, lambda sizes: (torch.randn(sizes["batch"], 16),), _BATCH, _ONE, _TWO),
    _picture("cnn", _cnn),
    _picture("resnet", _resnet),
    _picture("mobilenet", _mobilenet),
    _picture("prelu", _prelu),
    _picture("upsample", _Upsample),
    _picture("unet", _UNet),
    _picture("convnext", _ConvNext),
    _picture("pools", _Pools),
    _picture("detector", _Detector),
    _picture("deeplab", _DeepLab),
    _picture("super-resolution", _SuperResolution),
    SmallModel("ocr", _Ocr, _image(), ({0: "batch", 3: "width"},), _PICTURE, {"batch": 3, "height": 16, "width": 32}),
    SmallModel("windows", _Windows, _image(), _BATCH, _ONE, _TWO),
    SmallModel("lstm", lambda: _Recurrent(nn.LSTM, bidirectional=True), _tokens, _SEQUENCE, _TEXT, _OTHER_TEXT),
    SmallModel("gru", lambda: _Recurrent(nn.GRU, num_layers=2), _tokens, _SEQUENCE, _TEXT, _OTHER_TEXT),
    SmallModel("text-cnn", _TextCnn, _tokens, _SEQUENCE, _TEXT, _OTHER_TEXT),
    SmallModel("decoder", _Decoder, _tokens, _SEQUENCE, _TEXT, _OTHER_TEXT),
    SmallModel("roberta", _roberta, _masked_tokens, _SEQUENCE * 2, _TEXT, _OTHER_TEXT),
    SmallModel("encoder", _encoder, _vectors(16), _SEQUENCE, _TEXT, _OTHER_TEXT),
    SmallModel("bert", _bert, _masked_tokens, _SEQUENCE * 2, _TEXT, _OTHER_TEXT),
    SmallModel("gpt2", _gpt2, _masked_tokens, _SEQUENCE * 2, _TEXT, _OTHER_TEXT),
    SmallModel("llama", _llama, _masked_tokens, _SEQUENCE * 2, _TEXT, _OTHER_TEXT),
    SmallModel("vit", _vit, _image(), _BATCH, _ONE, _TWO),
    SmallModel(
        "softmax",
        _MaskedAttention,
        lambda sizes: (*_vectors(16)(sizes), _mask(sizes)),
        _SEQUENCE * 2,
        _TEXT,
        _OTHER_TEXT,
    ),
    SmallModel(
        "sdpa", _MaskedSdpa, lambda sizes: (*_vectors(16)(sizes), _mask(sizes)), _SEQUENCE * 2, _TEXT, _OTHER_TEXT
    ),
    SmallModel(
        "temporal",
        _Temporal,
        lambda sizes: (torch.randn(sizes["batch"], 8, sizes["length"]),),
        ({0: "batch", 2: "length"},),
        {"batch": 2, "length": 12},
        {"batch": 3, "length": 20},
    ),
    SmallModel(
        "speech",
        _Speech,
        lambda sizes: (torch.randn(sizes["batch"], 8, sizes["length"]),),
        ({0: "batch", 2: "length"},),
        {"batch": 2, "length": 12},
        {"batch": 3, "length": 20},
    ),
)
