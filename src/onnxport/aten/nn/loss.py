"""Losses: an elementwise formula and its reduction, or ONNX's own loss operators."""

from __future__ import annotations

import torch

from onnxport.aten.elementwise.activation import log_softmax
from onnxport.aten.linalg.products import linear
from onnxport.aten.reduction.reduce import any_, mean, reduced, sum_
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import product

_NONE, _MEAN, _SUM = 0, 1, 2
_NAMES = {_NONE: "none", _MEAN: "mean", _SUM: "sum"}
_REDUCTIONS = {name: number for number, name in _NAMES.items()}


def _reduced(op: Builder, loss: Tensor, reduction: int) -> Tensor:
    if reduction == _MEAN:
        return mean(op, loss, None)
    return sum_(op, loss, None) if reduction == _SUM else loss


@translates("aten::mse_loss", promote=("self", "target"))
def mse_loss(op: Builder, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    difference = self - target
    return _reduced(op, difference * difference, reduction)


@translates("aten::l1_loss", promote=("self", "target"))
def l1_loss(op: Builder, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    return _reduced(op, op.Abs(self - target), reduction)


@translates("aten::smooth_l1_loss", promote=("self", "target"))
def smooth_l1_loss(op: Builder, self: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    if beta == 0:
        return l1_loss(op, self, target, reduction)
    distance = op.Abs(self - target)
    return _reduced(op, op.Where(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta), reduction)


@translates("aten::huber_loss", promote=("self", "target"))
def huber_loss(op: Builder, self: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    distance = op.Abs(self - target)
    near, far = distance * distance * 0.5, (distance - 0.5 * delta) * delta
    return _reduced(op, op.Where(distance <= delta, near, far), reduction)


@translates("aten::binary_cross_entropy")
def binary_cross_entropy(op: Builder, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int) -> Tensor:
    # The logarithms are bounded, so that a sure mistake costs 100 and not infinity.
    lowest = op.like(-100, self)
    hit, miss = op.Max(op.Log(self), lowest), op.Max(op.Log(1 - self), lowest)
    loss = -(target * hit + (1 - target) * miss)
    return _reduced(op, loss if weight is None else loss * weight, reduction)


@translates("aten::binary_cross_entropy_with_logits", promote=("self", "target", "weight", "pos_weight"))
def binary_cross_entropy_with_logits(
    op: Builder, self: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    if pos_weight is None:
        loss = op.Softplus(self) - target * self
    else:
        loss = (1 - target) * self + ((pos_weight - 1) * target + 1) * op.Softplus(-self)
    return _reduced(op, loss if weight is None else loss * weight, reduction)


@translates("aten::margin_ranking_loss", promote=("input1", "input2", "target"))
def margin_ranking_loss(
    op: Builder, input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    behind = target * (input2 - input1)
    if not behind.is_float:
        # Whole numbers become floats with the margin, also where it is 0.
        behind = op.cast(behind, torch.get_default_dtype())
    return _reduced(op, op.Relu(behind if margin == 0 else behind + margin), reduction)


@translates("aten::hinge_embedding_loss", promote=("self", "target"))
def hinge_embedding_loss(op: Builder, self: Tensor, target: Tensor, margin: float, reduction: int) -> Tensor:
    zero, one = op.like(0, self), op.like(1, target)
    apart = op.Where(op.Equal(target, one), zero, op.Relu(op.like(margin, self) - self))
    close = op.Where(op.Equal(target, -one), zero, self)
    return _reduced(op, apart + close, reduction)


@translates("aten::soft_margin_loss", promote=("self", "target"))
def soft_margin_loss(op: Builder, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    return _reduced(op, op.Softplus(-target * self), reduction)


@translates("aten::multilabel_margin_loss")
def multilabel_margin_loss(op: Builder, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    # torch's decomposition counts the places behind the end of a list of labels too; each is compared with class 0.
    if self.rank < 2:
        self, target = (op.reshape(x, [1, product(x.shape)]) for x in (self, target))
    batch, classes = self.shape
    ends = op.CumSum(op.cast(target < 0, torch.int64), op.const(1, torch.int64))
    listed = op.Equal(ends, op.like(0, ends)).with_shape(target.shape)
    right = op.GatherElements(self, op.Where(listed, target, op.like(0, target)), axis=1).with_shape(target.shape)
    labels = op.Where(listed, target, op.like(-1, target)).with_shape(target.shape)
    numbers = op.Range(op.const(0, torch.int64), op.scalar(classes, torch.int64), op.const(1, torch.int64))
    matches = op.Equal(op.unsqueeze(labels, [2]), numbers).with_shape([batch, classes, classes])
    wrong = ~any_(op, matches, [1], keepdim=True)
    counted = op.unsqueeze(listed, [2]) & wrong
    margins = op.Relu(1 - op.unsqueeze(right, [2]) + op.unsqueeze(self, [1]))
    kept = op.Where(counted, margins, op.like(0, margins)).with_shape([batch, classes, classes])
    loss = reduced(op, "ReduceSum", kept, [1, 2], False) / op.scalar(classes, self.dtype)
    return op.reshape(_reduced(op, loss.with_shape([batch]), reduction), op.result_shapes()[0])


# Classes: ONNX's losses want a batch, and targets in int64


def _class_axis(x: Tensor) -> int:
    return 1 if x.rank > 1 else 0


def _by_class(
    op: Builder, op_type: str, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    target = op.cast(target, torch.int64)
    if not _class_axis(x):
        x, target = op.unsqueeze(x, [0]), op.reshape(target, [1])
    (loss,) = op.multi(op_type, x, target, weight, outputs=1, reduction=_NAMES[reduction], ignore_index=ignore_index)
    if reduction != _NONE:
        return loss.with_shape([])
    shape = op.result_shapes()[0]
    return op.Squeeze(loss, [0]).with_shape([]) if not shape else loss.with_shape(shape)


@translates("aten::nll_loss_nd", "aten::nll_loss", "aten::nll_loss2d")
def nll_loss(
    op: Builder, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    return _by_class(op, "NegativeLogLikelihoodLoss", self, target, weight, reduction, ignore_index)


@translates("aten::cross_entropy_loss")
def cross_entropy_loss(
    op: Builder,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    if target.is_float and target.rank == self.rank:
        return _with_probabilities(op, self, target, weight, reduction, label_smoothing)
    if label_smoothing == 0 and op.may_be_empty(self.shape):
        # onnxruntime's own operator does not take an empty batch.
        logarithms = op.LogSoftmax(self, axis=_class_axis(self))
        return _by_class(op, "NegativeLogLikelihoodLoss", logarithms, target, weight, reduction, ignore_index)
    if label_smoothing == 0:
        return _by_class(op, "SoftmaxCrossEntropyLoss", self, target, weight, reduction, ignore_index)
    return _smoothed(op, self, target, weight, reduction, ignore_index, label_smoothing)


@translates("torch_nn::_linear_cross_entropy_batch_chunked")
def linear_cross_entropy(
    op: Builder,
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    batch_chunk_size: Int,
    acc_policy: str,
    acc_dtype: torch.dtype,
    allow_retain_graph: bool,
    compute_input_grad: bool,
    compute_linear_weight_grad: bool,
    compute_linear_bias_grad: bool,
) -> tuple[Tensor, None, None, None]:
    """The scores' loss; how the batch is cut up saves memory in training, and the other results are gradients."""
    scores = linear(op, input, linear_weight, linear_bias).with_shape([*input.shape[:-1], linear_weight.shape[0]])
    loss = cross_entropy_loss(op, scores, target, weight, _REDUCTIONS[reduction], ignore_index, label_smoothing)
    return loss, None, None, None


@translates("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction")
def linear_cross_entropy_of_each(
    op: Builder,
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    batch_chunk_size: Int,
    acc_policy: str,
    acc_dtype: torch.dtype,
) -> Tensor:
    scores = linear(op, input, linear_weight, linear_bias).with_shape([*input.shape[:-1], linear_weight.shape[0]])
    return cross_entropy_loss(op, scores, target, weight, _REDUCTIONS["none"], ignore_index, 0.0)


def _per_class(op: Builder, weight: Tensor, x: Tensor) -> Tensor:
    """Weights of classes, to go with scores."""
    return op.unsqueeze(weight, list(range(1, x.rank - 1))) if x.rank > 2 else weight


def _share(op: Builder, smoothing: float, x: Tensor) -> float | Tensor:
    """What each class gets of the weight that is spread over all."""
    classes = x.shape[_class_axis(x)]
    if isinstance(classes, int):
        return smoothing / classes
    return op.Div(op.const(smoothing, x.dtype), op.scalar(classes, x.dtype))


def _with_probabilities(
    op: Builder, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, smoothing: float
) -> Tensor:
    axis = _class_axis(x)
    if smoothing:
        target = op.cast(target, x.dtype) * (1 - smoothing) + _share(op, smoothing, x)
    loss = log_softmax(op, x, axis) * op.cast(target, x.dtype)
    if weight is not None:
        loss = loss * _per_class(op, weight, x)
    total = -reduced(op, "ReduceSum", loss.with_shape(x.shape), [axis], False)
    if reduction == _NONE:
        return total
    summed = sum_(op, total, None)
    return summed if reduction == _SUM else summed / _count(op, total)


def _count(op: Builder, x: Tensor) -> Tensor:
    size: Int = product(x.shape)
    return op.scalar(size, x.dtype)


def _smoothed(
    op: Builder,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    smoothing: float,
) -> Tensor:
    """Some of the weight of the right class is spread over all."""
    axis = _class_axis(x)
    scores = log_softmax(op, x, axis).with_shape(x.shape)
    target = op.cast(target, torch.int64)
    ignored = op.Equal(target, op.like(ignore_index, target)).with_shape(target.shape)
    zero = op.like(0, x)
    known = op.Where(ignored, op.like(0, target), target).with_shape(target.shape)
    weighted = scores if weight is None else (scores * _per_class(op, weight, x)).with_shape(x.shape)
    right = op.squeeze(
        op.GatherElements(weighted, op.unsqueeze(known, [axis]), axis=axis).with_shape(
            [*x.shape[:axis], 1, *x.shape[axis + 1 :]]
        ),
        [axis],
    )
    spread = reduced(op, "ReduceSum", weighted, [axis], False)
    loss = op.Where(ignored, zero, right * (smoothing - 1) - spread * _share(op, smoothing, x))
    loss = loss.with_shape(target.shape)
    if reduction == _NONE:
        return loss
    summed = sum_(op, loss, None)
    if reduction == _SUM:
        return summed
    one = op.like(1, x)
    shares = one if weight is None else op.Gather(weight, known, axis=0)
    return summed / sum_(op, op.Where(ignored, zero, shares).with_shape(target.shape), None)
