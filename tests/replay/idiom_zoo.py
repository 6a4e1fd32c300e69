"""Models as users script and trace them: heads of detectors, decoders, masks, caches, skip connections, tables.

``PYTHONPATH=src:tests/replay python tests/replay/idiom_zoo.py`` compares, row by row, what
this exporter and torch.onnx's ``dynamo=False`` make of them.
"""

# TorchScript reads annotations when it compiles, so they have to be types and not their text. It does not know all
# forms that the linter asks for.
# ruff: noqa: B905
import math
import sys

import torch
import torch.nn.functional as F
from language_zoo import OPSET, Table  # noqa: F401
from torch import Tensor, nn

IDIOMS = Table()
scripted, traced, made = IDIOMS.scripted, IDIOMS.traced, IDIOMS.made


# --- detection -------------------------------------------------------------------------------------------------------


@scripted((3, 6), others=((7, 6),))
class DecodeBoxes(nn.Module):
    """Offsets from anchors to corners, clipped to the image."""

    def __init__(self):
        super().__init__()
        self.weights = (10.0, 10.0, 5.0, 5.0)
        self.clip = math.log(1000.0 / 16)

    def forward(self, x: Tensor) -> Tensor:
        anchors, deltas = x[:, :2].abs() + 1, x[:, 2:]
        widths, heights = anchors[:, 0], anchors[:, 1]
        wx, wy, ww, wh = self.weights
        dx, dy = deltas[:, 0] / wx, deltas[:, 1] / wy
        dw = torch.clamp(deltas[:, 2] / ww, max=self.clip)
        dh = torch.clamp(deltas[:, 3] / wh, max=self.clip)
        w, h = torch.exp(dw) * widths, torch.exp(dh) * heights
        boxes = torch.stack([dx - w * 0.5, dy - h * 0.5, dx + w * 0.5, dy + h * 0.5], dim=1)
        return boxes.clamp(min=-1.0, max=1.0)


@scripted((6, 3), others=((9, 3),), further=(((1, 3),),))
class GreedySuppression(nn.Module):
    """Points by score, without those near one that was kept: a position read from a tensor in each turn of a loop."""

    def forward(self, x: Tensor) -> Tensor:
        order = x[:, 2].argsort(descending=True)
        kept: list[int] = []
        dropped = torch.zeros_like(x[:, 2], dtype=torch.bool)
        for i in range(order.size(0)):
            j = int(order[i])
            if not bool(dropped[j]):
                kept.append(j)
                dropped = dropped | ((x[:, :2] - x[j, :2]).abs().sum(-1) < 1.0)
        return torch.tensor(kept)


@scripted((5, 2), others=((7, 2),), further=(((1, 2),),))
class Tally(nn.Module):
    """Rows that are added up, and written to, at positions that a tensor says."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        places = x[:, 0].argsort()
        total, counts = torch.zeros(2), torch.zeros(x.size(0))
        for i in range(places.size(0)):
            total = total * 0.5 + x[int(places[i])]
            counts[int(places[i])] += total.sum()
        return total, counts


@scripted((2, 3, 4, 4), (2, 3, 2, 2), others=((1, 3, 4, 6), (1, 3, 2, 3)))
class AnchorGrid(nn.Module):
    """Anchors of each level of a pyramid, as SSD and RetinaNet lay them out."""

    strides: list[int]

    def __init__(self):
        super().__init__()
        self.strides = [8, 16]
        self.register_buffer("cell", torch.tensor([[-4.0, -4.0, 4.0, 4.0], [-8.0, -4.0, 8.0, 4.0]]))

    def level(self, height: int, width: int, stride: int) -> Tensor:
        xs = torch.arange(0, width, dtype=torch.float32) * stride
        ys = torch.arange(0, height, dtype=torch.float32) * stride
        y, x = torch.meshgrid(ys, xs, indexing="ij")
        shifts = torch.stack((x.reshape(-1), y.reshape(-1), x.reshape(-1), y.reshape(-1)), dim=1)
        return (shifts.view(-1, 1, 4) + self.cell.view(1, -1, 4)).reshape(-1, 4)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        anchors: list[Tensor] = []
        for features, stride in zip([a, b], self.strides):
            anchors.append(self.level(features.size(-2), features.size(-1), stride))
        return torch.cat(anchors)


@traced((1, 3, 8, 8), others=((2, 3, 12, 8),))
class YoloHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2 * 7, 1)
        self.register_buffer("anchors", torch.rand(1, 2, 1, 1, 2))

    def forward(self, x):
        b, _, h, w = x.shape
        y = self.conv(x).view(b, 2, 7, h, w).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
        gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((gx, gy), 2).view(1, 1, h, w, 2).float()
        xy = (y[..., 0:2] * 2 - 0.5 + grid) * 8
        wh = (y[..., 2:4] * 2) ** 2 * self.anchors
        return torch.cat((xy, wh, y[..., 4:]), -1).view(b, -1, 7)


@scripted((9, 5), others=((14, 5),))
class TopDetections(nn.Module):
    """The best of what passes the threshold, at most five."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = x[:, :4], x[:, 4].sigmoid()
        keep = torch.where(scores > 0.3)[0]
        boxes, scores = boxes[keep], scores[keep]
        n = min(scores.size(0), 5)
        scores, order = scores.topk(n)
        return boxes[order], scores


@scripted((6, 4), (5, 4), others=((3, 4), (8, 4)))
class BoxOverlap(nn.Module):
    def area(self, boxes: Tensor) -> Tensor:
        return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        lt = torch.max(a[:, None, :2], b[:, :2])
        rb = torch.min(a[:, None, 2:], b[:, 2:])
        inter = (rb - lt).clamp(min=0).prod(2)
        union = self.area(a)[:, None] + self.area(b) - inter
        return inter / union.abs().clamp(min=1e-6)


@scripted((2, 3, 8, 8), others=((1, 3, 12, 8),))
class HeadPerLevel(nn.Module):
    """A dict of feature maps through a shared head."""

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict({"p3": nn.Conv2d(3, 4, 1), "p4": nn.Conv2d(4, 4, 3, stride=2, padding=1)})
        self.head = nn.Conv2d(4, 2 * 3, 1)

    def features(self, x: Tensor) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        for name, layer in self.body.items():
            x = layer(x)
            out[name] = x
        return out

    def forward(self, x: Tensor) -> Tensor:
        flat: list[Tensor] = []
        for _, feature in self.features(x).items():
            logits = self.head(feature)
            n, _, h, w = logits.shape
            flat.append(logits.view(n, -1, 3, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, 3))
        return torch.cat(flat, dim=1)


@scripted((3, 20, 16), others=((3, 14, 24),))
class ResizeImage(nn.Module):
    """To a shorter side of at least so much, as detectors prepare their inputs."""

    def __init__(self):
        super().__init__()
        self.mean: list[float] = [0.4, 0.5, 0.6]
        self.size = 32

    def forward(self, image: Tensor) -> Tensor:
        mean = torch.as_tensor(self.mean, dtype=image.dtype)
        image = (image - mean[:, None, None]) / 0.25
        h, w = image.shape[-2:]
        return F.interpolate(image[None], size=[h * 2, w * 2], mode="bilinear", align_corners=False)[0]


# --- sequences, masks, lengths ---------------------------------------------------------------------------------------


@scripted((3, 6, 4), torch.tensor([6, 2, 4]), others=((2, 5, 4), torch.tensor([1, 5])))
class MaskByLengths(nn.Module):
    def lengths_to_mask(self, lengths: Tensor, longest: int | None = None) -> Tensor:
        if longest is None:
            longest = int(lengths.max().item())
        return torch.arange(longest, device=lengths.device)[None, :] < lengths[:, None]

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = self.lengths_to_mask(lengths, x.size(1))
        x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
        return x.sum(1) / lengths.unsqueeze(1).to(x.dtype)


@scripted((3, 6, 4), torch.tensor([6, 2, 4]), others=((2, 6, 4), torch.tensor([1, 5])))
class MaskOfLongest(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        longest = int(lengths.max().item())
        mask = torch.arange(longest)[None, :] < lengths[:, None]
        return mask.to(x.dtype).sum(1, keepdim=True) * x.mean(1)


@scripted((2, 5, 8), others=((3, 7, 8),))
class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(8, 24), nn.Linear(8, 8), 2
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))


@scripted((2, 5, 8), others=((3, 9, 8),))
class GrowingTable(nn.Module):
    """A table of positions that is made longer when a longer input comes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("pe", torch.zeros(1, 4, 8))
        self.extend(4)

    def extend(self, length: int) -> None:
        position = torch.arange(0, length, dtype=torch.float32).unsqueeze(1)
        scale = torch.exp(torch.arange(0, 8, 2, dtype=torch.float32) * -(math.log(10000.0) / 8))
        pe = torch.zeros(length, 8)
        pe[:, 0::2] = torch.sin(position * scale)
        pe[:, 1::2] = torch.cos(position * scale)
        self.pe = pe.unsqueeze(0)

    def forward(self, x: Tensor) -> Tensor:
        if self.pe.size(1) < x.size(1):
            self.extend(x.size(1))
        return x * math.sqrt(8.0) + self.pe[:, : x.size(1)]


@traced((2, 5, 8), others=((3, 9, 8),))
class RelativePositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 8)

    def forward(self, x):
        n = x.shape[1]
        steps = torch.arange(n)
        distance = (steps[None, :] - steps[:, None]).clamp(-4, 4) + 4
        return torch.einsum("bic,ijc->bij", x, self.table(distance))


@scripted((2, 1, 8), others=((3, 1, 8),))
class CacheInAttributes(nn.Module):
    """Keys of earlier steps in attributes, appended to in each call."""

    keys: Tensor | None

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)
        self.keys = None

    def step(self, x: Tensor) -> Tensor:
        new = self.proj(x)
        keys = self.keys
        if keys is not None:
            new = torch.cat([keys, new], dim=1)
        self.keys = new
        return new

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            keys = self.step(x)
            x = x + keys.mean(1, keepdim=True)
        return x


@scripted((2, 1, 8), (2, 4, 8), others=((2, 1, 8), (2, 6, 8)))
class CacheAsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        k = self.k(x)
        if past is not None:
            k = torch.cat([past, k], dim=1)
        att = torch.softmax(self.q(x) @ k.transpose(1, 2), -1)
        return att @ k, k


@scripted((2, 4), others=((5, 4),))
class GreedyDecoder(nn.Module):
    """A fixed number of steps, each fed with the best of the one before."""

    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(7, 4), nn.GRUCell(4, 4), nn.Linear(4, 7)
        self.steps = 4

    def forward(self, state: Tensor) -> Tensor:
        token = torch.zeros(state.size(0), dtype=torch.long)
        tokens: list[Tensor] = []
        for _ in range(self.steps):
            state = self.cell(self.embed(token), state)
            token = self.out(state).argmax(-1)
            tokens.append(token)
        return torch.stack(tokens, 1)


@scripted((1, 4), others=((1, 4),))
class DecodesUntilEnd(nn.Module):
    """Until the end token comes or the buffer is full."""

    def __init__(self):
        super().__init__()
        self.cell, self.out, self.embed = nn.GRUCell(4, 4), nn.Linear(4, 5), nn.Embedding(5, 4)

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        tokens = torch.zeros(1, 8, dtype=torch.long)
        token = torch.ones(1, dtype=torch.long)
        n = torch.zeros(1, dtype=torch.long)
        for i in range(8):
            if bool(token.eq(0).all()):
                break
            state = self.cell(self.embed(token), state)
            token = self.out(state).argmax(-1)
            tokens[:, i] = token
            n = n + 1
        return tokens, n


@scripted((2, 3), (2, 3, 5), others=((4, 3), (4, 3, 5)))
class BeamStep(nn.Module):
    def forward(self, scores: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, beams, words = logits.size()
        total = F.log_softmax(logits, -1) + scores.unsqueeze(-1)
        best, index = total.view(batch, -1).topk(beams, dim=-1)
        source = torch.div(index, words, rounding_mode="floor")
        return best, source, index % words


@scripted((2, 6, 4), others=((3, 6, 4),))
class CellsInLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(4, 5), nn.LSTMCell(5, 5)])

    def forward(self, x: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        states: list[tuple[Tensor, Tensor]] = []
        for _ in range(2):
            states.append((torch.zeros(x.size(0), 5), torch.zeros(x.size(0), 5)))
        outputs: list[Tensor] = []
        for step in x.unbind(1):
            for i, cell in enumerate(self.cells):
                h, c = cell(step, states[i])
                states[i] = (h, c)
                step = h
            outputs.append(step)
        return torch.stack(outputs, 1), states


@scripted((5, 2, 4), others=((9, 3, 4),))
class CellOverAnyLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4) * 0.3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(x.size(1), 4)
        outputs: list[Tensor] = []
        for t in range(x.size(0)):
            h = torch.tanh(x[t] + h @ self.weight)
            outputs += [h]
        return torch.stack(outputs), h


@scripted((5, 2, 4), others=((9, 3, 4),))
class BothDirections(nn.Module):
    """As the custom LSTMs of torch's benchmarks: one forwards, one on the reversed list."""

    def __init__(self):
        super().__init__()
        self.fw, self.bw = nn.GRUCell(4, 4), nn.GRUCell(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(1), 4)
        g = torch.zeros(x.size(1), 4)
        ahead: list[Tensor] = []
        back: list[Tensor] = []
        for i in range(x.size(0)):
            h = self.fw(x[i], h)
            ahead.append(h)
        for i in range(x.size(0)):
            g = self.bw(x[x.size(0) - 1 - i], g)
            back.append(g)
        return torch.cat([torch.stack(ahead), torch.stack(back).flip(0)], -1)


@scripted((2, 6, 4), torch.tensor([6, 3]), others=((3, 6, 4), torch.tensor([2, 6, 4])))
class LastOfEach(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 5, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y, _ = self.rnn(x)
        index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, y.size(2))
        return y.gather(1, index).squeeze(1)


@scripted((3, 7), others=((2, 5),))
class ShiftRight(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        shifted = x.new_zeros(x.shape)
        shifted[:, 1:] = x[:, :-1].clone()
        shifted[:, 0] = 2.0
        return shifted


@scripted((2, 9), others=((2, 13),))
class Windows(nn.Module):
    """Padded to whole windows, then cut."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.size(1)
        pad = (4 - n % 4) % 4
        x = F.pad(x, (0, pad))
        return x.view(x.size(0), -1, 4).mean(-1)


@scripted((2, 6, 3), others=((2, 8, 3),))
class PadToLongest(nn.Module):
    """Pieces of different lengths, padded to one."""

    def forward(self, x: Tensor) -> Tensor:
        pieces = [x[0, :2], x[1, :5], x[0, 1:4]]
        longest = max([piece.size(0) for piece in pieces])
        out = x.new_zeros(len(pieces), longest, x.size(2))
        for i, piece in enumerate(pieces):
            out[i, : piece.size(0)].copy_(piece)
        return out


@traced((2, 12, 4), others=((3, 12, 4),))
class Unfolds(nn.Module):
    def forward(self, x):
        frames = x.unfold(1, 4, 2)
        return frames.mean(-1), x[:, ::3], x.roll(1, 1)


# --- images ----------------------------------------------------------------------------------------------------------


class Down(nn.Module):
    def __init__(self, a: int, b: int):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.conv(x)
        return self.pool(x), x


class Up(nn.Module):
    def __init__(self, a: int, b: int):
        super().__init__()
        self.up = nn.ConvTranspose2d(a, b, 2, stride=2)
        self.conv = nn.Conv2d(b * 2, b, 3, padding=1)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        x = self.up(x)
        dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([skip, x], dim=1)).relu()


@scripted((1, 3, 9, 8), others=((2, 3, 11, 12),), tolerance=1e-3)
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.downs = nn.ModuleList([Down(3, 4), Down(4, 8)])
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.ups = nn.ModuleList([Up(8, 8), Up(8, 4)])

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for down in self.downs:
            x, skip = down(x)
            skips.append(skip)
        x = self.middle(x)
        for up in self.ups:
            x = up(x, skips.pop())
        return x


@traced((1, 3, 8, 8), others=((2, 3, 12, 8),), tolerance=1e-3)
class UNetWithReversedSkips(UNet):
    def forward(self, x):
        skips = []
        for down in self.downs:
            x, skip = down(x)
            skips.append(skip)
        x = self.middle(x)
        for up, skip in zip(self.ups, skips[::-1]):
            x = up(x, skip)
        return x


@scripted((2, 8, 1, 1), others=((3, 8, 1, 1),))
class Generator(nn.Module):
    """A DCGAN's, with few channels."""

    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            *(nn.ConvTranspose2d(8, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True)),
            *(nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True)),
            *(nn.ConvTranspose2d(4, 3, 4, 2, 1, bias=False), nn.Tanh()),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.main(x)


@scripted((2, 4, 5, 6), others=((3, 4, 7, 4),))
class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 4), nn.Hardsigmoid())

    def forward(self, x: Tensor) -> Tensor:
        b, c, _, _ = x.size()
        return x * self.fc(F.adaptive_avg_pool2d(x, 1).view(b, c)).view(b, c, 1, 1).expand_as(x)


@scripted((2, 4, 5, 6), others=((3, 4, 7, 4),))
class ChannelShuffle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        a, d = x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w).chunk(2, dim=1)
        return torch.cat((a, d.relu()), 1)


class DenseLayer(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.conv = nn.Conv2d(n, 2, 3, padding=1)

    def forward(self, features: list[Tensor]) -> Tensor:
        return self.conv(torch.cat(features, 1)).relu()


@scripted((2, 3, 5, 6), others=((3, 3, 7, 4),), tolerance=1e-3)
class DenseBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([DenseLayer(3 + 2 * i) for i in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, 1)


@scripted((2, 3, 9, 8), others=((3, 3, 9, 8),), tolerance=1e-3)
class WithAuxiliary(nn.Module):
    """Two results when training, one else, as torchvision's networks have it."""

    def __init__(self):
        super().__init__()
        self.body, self.aux = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)
        self.aux_logits = True

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        x = self.body(x)
        if self.training and self.aux_logits:
            out["aux"] = self.aux(x.mean((2, 3)))
        out["out"] = F.interpolate(x, size=(9, 8), mode="bilinear", align_corners=False)
        return out


@scripted((1, 3, 8, 8), others=((2, 3, 12, 8),), tolerance=1e-3)
class Pyramid(nn.Module):
    """Lateral and top-down connections over a list of maps."""

    def __init__(self):
        super().__init__()
        self.stems = nn.ModuleList([nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(4, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)])
        self.inner = nn.ModuleList([nn.Conv2d(4, 4, 1) for _ in range(3)])

    def pick(self, x: Tensor, which: int) -> Tensor:
        out = x
        for i, layer in enumerate(self.inner):
            if i == which:
                out = layer(x)
        return out

    def forward(self, x: Tensor) -> list[Tensor]:
        maps: list[Tensor] = []
        for stem in self.stems:
            x = stem(x)
            maps.append(x)
        last = self.pick(maps[-1], -1)
        results = [last]
        for i in range(len(maps) - 2, -1, -1):
            lateral = self.pick(maps[i], i)
            last = lateral + F.interpolate(last, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, last)
        return results


@scripted((2, 3, 8, 8), others=((2, 3, 6, 10),))
class CropAndFlip(nn.Module):
    def __init__(self):
        super().__init__()
        self.margin = 1

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[-2], x.shape[-1]
        top, left = (h - 4) // 2, (w - 4) // 2
        center = x[..., top : top + 4, left : left + 4]
        corners = [x[..., :4, :4], x[..., h - 4 :, : w - (w - 4)], center]
        out = torch.stack(corners + [corner.flip(-1) for corner in corners])
        return out[..., self.margin : -self.margin, :]


@traced((2, 3, 6, 6), (2, 6, 6, 2), others=((3, 3, 6, 6), (3, 6, 6, 2)), tolerance=1e-3)
class Warps(nn.Module):
    def forward(self, x, flow):
        _, _, h, w = x.shape
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        grid = torch.stack((xs, ys), -1).unsqueeze(0) + flow * 0.1
        return F.grid_sample(x, grid, align_corners=True)


# --- heads, losses, state --------------------------------------------------------------------------------------------


@scripted((4, 6), others=((7, 6),))
class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = F.softmax(self.gate(x), -1).topk(2, -1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            share = (weights * (chosen == i)).sum(-1, keepdim=True)
            out = out + share * expert(x)
        return out


@scripted((4, 6), others=((7, 6),))
class ExpertsByIndex(nn.Module):
    """Only the rows that chose an expert go through it."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = torch.where(chosen == i)[0]
            out[rows] = expert(x[rows])
        return out


@scripted((4, 6), others=((7, 6),))
class Normalizes(nn.Module):
    """Running statistics that only training updates."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.full((6,), 0.5))
        self.register_buffer("count", torch.tensor(3))
        self.momentum: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            factor = 1.0 / float(self.count) if self.momentum is None else self.momentum
            self.mean = self.mean + (x.mean(0) - self.mean) * factor
            self.count += 1
        return x - self.mean


@scripted((4, 6), others=((7, 6),))
class CountsCalls(nn.Module):
    """The value from before the write is what is returned."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        before = self.seen
        self.seen = self.seen + x.sum(0)
        return before + x * 2 + self.seen


@scripted((4, 6), others=((7, 6),))
class WritesBufferInBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.zeros(6))
        self.hits = 0

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.max() > 0.5):
            self.peak = torch.maximum(self.peak, x.max(0)[0])
            self.hits += 2
        return x + self.peak * self.hits


@scripted((4, 6), others=((7, 6),))
class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.models = nn.ModuleList([nn.Sequential(nn.Linear(6, 3), nn.Softmax(-1)) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        futures = [torch.jit.fork(model, x) for model in self.models]
        results = [torch.jit.wait(future) for future in futures]
        return torch.stack(results).mean(0)


@scripted((4, 6), torch.tensor([2, 0, 1, 2]), others=((3, 6), torch.tensor([1, 1, 0])))
class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.reduction = "mean"
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        log = F.log_softmax(self.fc(x), -1)
        loss = -log.gather(1, target.unsqueeze(1)).squeeze(1)
        if self.reduction == "mean":
            return loss.mean()
        elif self.reduction == "sum":
            return loss.sum()
        return loss


@scripted((3, 4, 4), others=((5, 4, 4),))
class PowerIteration(nn.Module):
    def forward(self, a: Tensor) -> Tensor:
        a = a @ a.transpose(1, 2)
        v = torch.ones(a.size(0), 4, 1)
        for _ in range(6):
            v = a @ v
            v = v / v.pow(2).sum(1, keepdim=True).sqrt()
        return (v.transpose(1, 2) @ a @ v).flatten()


@scripted((6,), others=((6,),))
class Converges(nn.Module):
    """Newton's method until it stands still."""

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        x = x.abs() + 1
        y = x
        n = 0
        while bool((y * y - x).abs().max() > 1e-3) and n < 50:
            y = 0.5 * (y + x / y)
            n += 1
        return y, n


@scripted((5, 3), others=((8, 3),))
class RowByRow(nn.Module):
    """Each row by its own rule."""

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for i in range(x.size(0)):
            if bool(x[i, 0] > 0):
                out[i] = x[i] * 2
            else:
                out[i] = -x[i]
        return out


@scripted((5, 3), others=((8, 3),))
class StopsAtThreshold(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.zeros(3)
        used = torch.zeros(1, dtype=torch.int64)
        i = 0
        while i < x.size(0) and bool(total.sum() < 1.0):
            total = total + x[i].abs()
            used += 1
            i += 1
        return total, used


@traced((3, 5), others=((6, 5),))
class TracedWrites(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[:, 1:3] = 0
        y[0] += 1
        y[y > 1] = 1
        y[:, -1:] *= 2
        return y


@traced((3, 5), torch.tensor([1, 0, 2]), others=((4, 5), torch.tensor([3, 3, 0])))
class TracedIndexing(nn.Module):
    def forward(self, x, index):
        return x[index], x[index, 1], x[:, None, index], x[..., -2], x[index][:, [0, 2]]


@traced((2, 4, 6), others=((3, 5, 6),))
class TransformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)

    def forward(self, x):
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), 1)
        return self.layer(x, src_mask=mask)


@made((2, 6), others=((5, 6),))
def HalfScripted(x: Tensor):
    """A traced model whose loop over experts is scripted."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 6)
            self.second = torch.jit.script(ExpertsByIndex().eval())

        def forward(self, x):
            return self.second(self.first(x).tanh())

    return torch.jit.trace(Model().eval(), x, check_trace=False)


# --- loops in which a tensor has other sizes each time ---------------------------------------------------------------


def _corners(count: int) -> Tensor:
    low = torch.linspace(0, 3, 2 * count).reshape(2, count).T
    return torch.cat([low, low + 1 + (torch.arange(count) % 3).unsqueeze(1)], 1)


@scripted(
    _corners(6),
    torch.linspace(0, 1, 6).sin(),
    others=(_corners(9), torch.linspace(1, 4, 9).sin()),
    further=[(_corners(1), torch.ones(1))],
)
def greedy_suppression(boxes: Tensor, scores: Tensor):
    """What is left to look at shrinks by what the data say."""
    order = scores.argsort(descending=True)
    keep = torch.jit.annotate(list[Tensor], [])
    while order.numel() > 0:
        first = order[0]
        keep.append(first)
        if order.numel() == 1:
            break
        rest = boxes[order[1:]]
        low, high = torch.maximum(boxes[first][:2], rest[:, :2]), torch.minimum(boxes[first][2:], rest[:, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        area = (rest[:, 2] - rest[:, 0]) * (rest[:, 3] - rest[:, 1])
        order = order[1:][shared <= 0.5 * area]
    return torch.stack(keep)


@scripted(torch.tensor(1), torch.tensor(3), others=(torch.tensor(2), torch.tensor(6)))
def beam_search(start: Tensor, steps: Tensor):
    """Sequences are reordered and lengthened in each step."""
    table = (torch.arange(25.0).reshape(5, 5) * 1.7).sin()
    found, scores = start.view(1, 1).expand(2, 1), torch.zeros(2)
    for i in range(int(steps)):
        following = torch.log_softmax(table[found[:, -1]], -1) + scores.unsqueeze(1)
        if i == 0:
            following = following[:1]
        scores, place = following.view(-1).topk(2)
        found = torch.cat([found[place // 5], (place % 5).unsqueeze(1)], 1)
    return found, scores


@scripted((1, 3, 4), others=((2, 9, 4),), further=[((1, 5, 4),)])
def table_that_grows(x: Tensor):
    table = torch.arange(16.0).reshape(4, 4)
    while table.size(0) < x.size(1):
        table = torch.cat([table, table + 1])
    return x + table[: x.size(1)]


@scripted((2, 32), (2, 1, 2, 4), torch.tensor(16), others=((3, 40), (2, 1, 3, 4), torch.tensor(8)))
class VoiceActivity(nn.Module):
    """The rate decides how many samples there are, and so how many steps."""

    def __init__(self):
        super().__init__()
        self.conv, self.lstm = nn.Conv1d(1, 4, 4, stride=2), nn.LSTM(4, 4)

    def forward(self, x: Tensor, state: Tensor, rate: Tensor):
        if int(rate) != 16:
            x = x[:, ::2]
        y = self.conv(x.unsqueeze(1)).relu()
        if state.numel() == 0:
            state = torch.zeros(2, 1, x.size(0), 4)
        y, (h, c) = self.lstm(y.permute(2, 0, 1), (state[0], state[1]))
        return y.mean(0), torch.stack([h, c])


if __name__ == "__main__":
    IDIOMS.compare(sys.argv[1:])
