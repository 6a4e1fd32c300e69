"""Rows for aten/loss.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from cases import I, R, case

A = torch.ops.aten
REDUCTIONS = ("mean", "sum", "none")
F32, F64, F16 = torch.float32, torch.float64, torch.float16
SCORES, PIXELS = R("b", 5), R("b", 5, "n")
CLASSES, PIXEL_CLASSES = I("b"), I("b", "n")


def _chunked(x, w, y, v):  # type: ignore[no-untyped-def]
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2, allow_retain_graph=True)
    every = _all(F.linear_cross_entropy, x, w, y, weight=v, ignore_index=1, options=options)
    return (*every, F.linear_cross_entropy(x, w, y, linear_bias=v, options=options))


def _all(function, *args, **options):  # type: ignore[no-untyped-def]
    """The loss in all its reductions."""
    return tuple(function(*args, reduction=reduction, **options) for reduction in REDUCTIONS)


CASES = [
    case(
        "aten::mse_loss aten::l1_loss",
        lambda x, y: (*_all(F.mse_loss, x, y), *_all(F.l1_loss, x, y)),
        R("b", 4),
        R("b", 4),
        dtypes=(F32, F64, F16),
    ),
    case(
        "aten::smooth_l1_loss aten::huber_loss",
        lambda x, y: (
            *_all(F.smooth_l1_loss, x, y),
            *_all(F.smooth_l1_loss, x, y, beta=0.3),
            *_all(F.smooth_l1_loss, x, y, beta=0.0),
            *_all(F.huber_loss, x, y),
            *_all(F.huber_loss, x, y, delta=0.3),
        ),
        R("b", 4),
        R("b", 4),
    ),
    case(
        "aten::binary_cross_entropy",
        lambda x, y, w: (*_all(F.binary_cross_entropy, x, y), *_all(F.binary_cross_entropy, x, y, w)),
        R("n", 4, low=0, high=1, special=(0.0, 1.0, 0.0)),
        R("n", 4, low=0, high=1, special=(1.0, 0.0, 0.0)),
        R("n", 4, low=0, high=1),
    ),
    case(
        "aten::binary_cross_entropy_with_logits",
        lambda x, y, w: (
            *_all(F.binary_cross_entropy_with_logits, x, y),
            *_all(F.binary_cross_entropy_with_logits, x, y, w),
            *_all(F.binary_cross_entropy_with_logits, x, y, None, pos_weight=w),
        ),
        R("n", 4, low=-9, high=9, special=(90.0, -90.0)),
        R("n", 4, low=0, high=1),
        R(4, low=0.5, high=3),
    ),
    case(
        "aten::margin_ranking_loss aten::hinge_embedding_loss",
        lambda x, y, t: (
            *_all(F.margin_ranking_loss, x, y, t.sign()),
            *_all(F.margin_ranking_loss, x, y, t.sign(), margin=0.5),
            *_all(F.hinge_embedding_loss, x, t.sign(), margin=1.5),
        ),
        R("n", 4),
        R("n", 4),
        R("n", 4),
    ),
    *(
        case(
            "aten::margin_ranking_loss",
            lambda x, y, t: (
                *_all(F.margin_ranking_loss, x, y, t),
                *_all(F.margin_ranking_loss, x, y, t, margin=0.5),
                *_all(F.margin_ranking_loss, x, y, t, margin=-3.0),
            ),
            *[R("n", 4, dtype=dtype, low=0, high=9)] * 3,
            name=str(dtype).removeprefix("torch."),
        )
        for dtype in (torch.uint8, torch.int32)
    ),
    case("aten::soft_margin_loss", lambda x, t: _all(F.soft_margin_loss, x, t.sign()), R("n", 4), R("n", 4)),
    case(
        "aten::multilabel_margin_loss",
        lambda x, t: (*_all(F.multilabel_margin_loss, x, t), F.multilabel_margin_loss(x[0], t[0])),
        R("b", 5),
        I("b", 5, low=-1),
    ),
    # Classes
    case(
        "aten::nll_loss_nd",
        lambda x, y, w: (
            *_all(F.nll_loss, x, y),
            *_all(F.nll_loss, x, y, w),
            *_all(F.nll_loss, x, y, w, ignore_index=1),
        ),
        SCORES,
        CLASSES,
        R(5, low=0.5),
        dtypes=(F32, F64),
    ),
    case(
        "aten::nll_loss_nd", lambda x, y: _all(F.nll_loss, x, y, ignore_index=2), PIXELS, PIXEL_CLASSES, name="pixels"
    ),
    case("aten::nll_loss_nd", lambda x, y: _all(F.nll_loss, x, y[0]), R(5), I(1), name="unbatched"),
    case("aten::nll_loss", lambda x, y: A.nll_loss(x, y), SCORES, CLASSES),
    case("aten::nll_loss2d", lambda x, y: A.nll_loss2d(x, y, None, 2), R("b", 5, 3, "n"), I("b", 3, "n")),
    case(
        "aten::cross_entropy_loss",
        lambda x, y, w: (
            *_all(F.cross_entropy, x, y),
            *_all(F.cross_entropy, x, y, w),
            *_all(F.cross_entropy, x, y, w, ignore_index=1),
        ),
        SCORES,
        CLASSES,
        R(5, low=0.5),
        dtypes=(F32, F64),
    ),
    case("aten::cross_entropy_loss", lambda x, y: _all(F.cross_entropy, x, y), PIXELS, PIXEL_CLASSES, name="pixels"),
    case("aten::cross_entropy_loss", lambda x, y: _all(F.cross_entropy, x, y[0]), R(5), I(1), name="unbatched"),
    case(
        "aten::cross_entropy_loss",
        lambda x, y, w: (
            *_all(F.cross_entropy, x, y, label_smoothing=0.2),
            *_all(F.cross_entropy, x, y, w, ignore_index=1, label_smoothing=0.2),
        ),
        PIXELS,
        PIXEL_CLASSES,
        R(5, low=0.5),
        name="smoothed",
    ),
    case(
        "aten::cross_entropy_loss",
        lambda x, y, w: (
            *_all(F.cross_entropy, x, y.softmax(1)),
            *_all(F.cross_entropy, x, y.softmax(1), w, label_smoothing=0.2),
        ),
        PIXELS,
        PIXELS,
        R(5, low=0.5),
        name="probabilities",
    ),
    case(
        "aten::cross_entropy_loss",
        lambda x, y: (F.cross_entropy(x, y.softmax(0)), F.cross_entropy(x, y.argmax(), label_smoothing=0.1)),
        R(5),
        R(5),
        name="unbatched-smoothed",
    ),
    case(
        "torch_nn::_linear_cross_entropy_batch_chunked torch_nn::_linear_cross_entropy_batch_chunked_no_reduction",
        _chunked,
        R(6, 3),
        R(5, 3),
        I(6),
        R(5, low=0.5),
    ),
]
