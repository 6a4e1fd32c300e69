"""Learning example inputs and varying axes from calls, and exporting with them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import DynamicCache
from transformers.modeling_outputs import BaseModelOutput

import onnxport
from onnxport.errors import InputError, OnnxExporterWarning

DYNAMIC = torch.export.Dim.DYNAMIC


class Model(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, pair: Any = None, mask: torch.Tensor | None = None, scale: float = 1.0, **rest: Any
    ) -> Any:
        y = x * scale
        if pair is not None:
            y = y + pair["a"].sum() + pair["b"][0].sum()
        if mask is not None:
            y = y + mask.sum()
        return {"y": y, "rest": [value + 1 for value in rest.values()]}


class TakesOutput(torch.nn.Module):
    def forward(self, output: BaseModelOutput) -> torch.Tensor:
        assert output.last_hidden_state is not None
        return output.last_hidden_state + 1


class Star(torch.nn.Module):
    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return args[0] + args[1]


def observed(model: torch.nn.Module, *calls: tuple[tuple[Any, ...], dict[str, Any]], **options: Any) -> Any:
    observer = onnxport.InputObserver(**options)
    with observer(model):
        for args, kwargs in calls:
            model(*args, **kwargs)
    return observer


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape)


CALLS: dict[str, tuple[torch.nn.Module, list[Any], Any]] = {
    "position": (Model(), [((ones(2, 3),), {}), ((ones(5, 3),), {})], ({0: DYNAMIC},)),
    "keyword": (Model(), [((), {"x": ones(2, 3)}), ((), {"x": ones(2, 4)})], {"x": {1: DYNAMIC}}),
    "mixed": (
        Model(),
        [((ones(2),), {"mask": ones(3)}), ((ones(2),), {"mask": ones(4)})],
        {"x": {}, "mask": {0: DYNAMIC}},
    ),
    "nested": (
        Model(),
        [((ones(2), {"a": ones(n), "b": [ones(n, 2)]}), {}) for n in (2, 3)],
        ({}, {"a": {0: DYNAMIC}, "b": [{0: DYNAMIC}]}),
    ),
    "default": (Model(), [((ones(n),), {"scale": 1.0}) for n in (2, 3)], ({0: DYNAMIC},)),
    "constant": (Model(), [((ones(n),), {"scale": 2.0}) for n in (2, 3)], {"x": {0: DYNAMIC}, "scale": None}),
    "rest": (Model(), [((ones(n),), {"z": ones(2, n)}) for n in (2, 3)], {"x": {0: DYNAMIC}, "z": {1: DYNAMIC}}),
    "star": (Star(), [((ones(n), ones(1)), {}) for n in (2, 3)], ({0: DYNAMIC}, {})),
    "model-output": (
        TakesOutput(),
        [((BaseModelOutput(last_hidden_state=ones(n, 2)),), {}) for n in (2, 3)],
        ([{0: DYNAMIC}],),
    ),
    "missing": (
        Model(),
        [((ones(2),), {}), ((ones(2),), {"mask": ones(3)}), ((ones(2),), {"mask": ones(5)})],
        {"x": {}, "mask": {0: DYNAMIC}},
    ),
}


@pytest.mark.filterwarnings("ignore:Each of the 2 observed", "ignore:Axis 0 of")
@pytest.mark.parametrize("row", CALLS)
def test_axes_that_vary_and_an_export_that_is_right_for_all_calls(row: str) -> None:
    model, calls, expected = CALLS[row]
    observer = observed(model, *calls)
    assert observer.num_obs() == len(calls)
    assert observer.infer_dynamic_shapes() == expected
    program = onnxport.export(model, **observer.for_export())
    assert [found["SUCCESS"] for found in observer.check_discrepancies(program)] == [True] * len(calls)


def test_arguments_in_each_form() -> None:
    x, mask = ones(2), ones(3)
    observer = observed(Model(), ((x,), {"mask": mask}), ((x,), {"mask": ones(4)}))
    assert set(observer.infer_arguments()) == {"x", "mask"}
    args, kwargs = observer.infer_arguments(0, as_args_kwargs=True)
    assert len(args) == 1 and list(kwargs) == ["mask"] and kwargs["mask"].shape == (3,)
    assert [tensor.shape[0] for tensor in observer.infer_arguments(1, flat=True)] == [2, 4]
    assert observer.infer_arguments({"x": x})["mask"].shape == (0,)
    assert observer.infer_arguments((x,))["mask"].shape == (0,)


@pytest.mark.parametrize("batch", [True, {"x"}, {0}])
def test_the_batch_axis_on_request(batch: Any) -> None:
    observer = observed(Model(), ((ones(1, 3),), {}))
    assert observer.infer_dynamic_shapes() == ({},)
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=batch) == ({0: DYNAMIC},)
    # An example of size 1 would decide what depends on the size.
    assert observer.for_export(set_batch_dimension_for=batch)["args"][0].shape == (2, 3)


def test_sizes_grow_together_and_sums_with_them() -> None:
    calls = [((ones(new, 2),), {"z": ones(past), "w": ones(past + new)}) for past, new in ((4, 1), (5, 1), (3, 2))]
    observer = observed(Model(), *calls)
    shapes = {name: tuple(value.shape) for name, value in observer.for_export()["kwargs"].items()}
    assert shapes == {"x": (2, 2), "z": (4,), "w": (6,)}


def test_values_are_kept_as_they_were_and_only_so_many() -> None:
    class InPlace(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1.0)

    model, observer, x = InPlace(), onnxport.InputObserver(), torch.zeros(2)
    with observer(model, store_n_calls=2) as same:
        assert same is observer
        for _ in range(3):
            model(x)
    assert [call.arguments["x"].tolist() for call in observer.calls] == [[0.0, 0.0], [1.0, 1.0]]
    assert [call.outputs[0].tolist() for call in observer.calls] == [[1.0, 1.0], [2.0, 2.0]]
    with observer(model, store_n_calls=1):
        model(x)
    assert observer.num_obs() == 3 and "forward" not in vars(model)


def test_another_method_and_an_integer_that_varies() -> None:
    class Other(torch.nn.Module):
        def encode(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x * n

    model, observer = Other(), onnxport.InputObserver()
    with observer(model, method_name="encode"):
        model.encode(ones(2), 3)
        model.encode(ones(2), 4)
    assert observer.infer_dynamic_shapes() == ({}, DYNAMIC)


def test_value_if_missing() -> None:
    calls = [((ones(2),), {}), ((ones(2),), {"mask": ones(3)})]
    with pytest.raises(InputError, match=r"mask\n.*value_if_missing=\{'mask': \.\.\.\}"):
        observed(Model(), *calls).infer_arguments(0)
    incomplete = observed(Model(), *calls)
    program = onnxport.export(Model(), **incomplete.for_export())
    assert [row["SUCCESS"] for row in incomplete.check_discrepancies(program)] == [False, True]
    assert "value_if_missing" in incomplete.check_discrepancies(program)[0]["error"]
    observer = observed(Model(), *calls, value_if_missing={"mask": torch.zeros(3)})
    assert observer.infer_arguments(0)["mask"].tolist() == [0.0, 0.0, 0.0]


ERRORS: dict[str, tuple[Any, str]] = {
    "nothing": (lambda: onnxport.InputObserver().infer_arguments(), "No call was observed"),
    "index": (lambda: observed(Model(), ((ones(2),), {})).infer_arguments(4), "no call 4; 1 call"),
    "ranks": (
        lambda: observed(Model(), ((ones(2),), {}), ((ones(2, 2),), {})).infer_dynamic_shapes(),
        "x had 1 and 2 dimensions",
    ),
}


@pytest.mark.parametrize("row", ERRORS)
def test_errors(row: str) -> None:
    act, message = ERRORS[row]
    with pytest.raises(InputError, match=message):
        act()


def test_a_method_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no method 'encode'"), onnxport.InputObserver()(Model(), method_name="encode"):
        pass


def test_discrepancies_are_rows() -> None:
    model = torch.nn.Linear(3, 2)
    observer = observed(model, ((ones(2, 3),), {}), ((ones(5, 3),), {}))
    fixed = onnxport.export(model, (ones(2, 3),))
    right, wrong = observer.check_discrepancies(fixed)
    assert right["SUCCESS"] and "fixed at 2" in wrong["error"] and not wrong["SUCCESS"]
    fixed.apply_weights({"bias": torch.full((2,), 9.0)})
    assert not observer.check_discrepancies(fixed)[0]["SUCCESS"]


def llama() -> tuple[LlamaConfig, torch.nn.Module]:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=99,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return config, LlamaForCausalLM(config).eval()


def test_a_language_model_that_generates() -> None:
    _, model = llama()
    observer = onnxport.InputObserver()
    with observer(model):
        model.generate(torch.randint(3, 99, (1, 7)), max_new_tokens=4, do_sample=False)
    assert [call.arguments["input_ids"].shape[1] for call in observer.calls] == [7, 1, 1]
    with pytest.warns(OnnxExporterWarning, match=r"No call was given an attention_mask.*attention_mask\[0, 0\] = 0"):
        arguments = observer.for_export(set_batch_dimension_for=True)
    program = onnxport.export(model, **arguments)
    assert all(row["SUCCESS"] for row in observer.check_discrepancies(program))
    graph = program.model.graph
    assert [f"{value.name}{value.shape}" for value in graph.inputs] == [
        "input_ids[batch,sequence]",
        "position_ids[batch,sequence]",
        *(f"past_key_values.{layer}.{kind}[batch,2,past,8]" for kind in ("key", "value") for layer in (0, 1)),
    ]
    assert [f"{value.name}{value.shape}" for value in graph.outputs] == [
        "logits[batch,1,99]",
        *(f"present.{layer}.{kind}[batch,2,past + sequence,8]" for kind in ("key", "value") for layer in (0, 1)),
    ]


def generated(model: Any, *prompts: tuple[int, int]) -> onnxport.InputObserver:
    """What is observed of generating four tokens each after prompts of these batch sizes and lengths."""
    observer = onnxport.InputObserver()
    with observer(model, store_n_calls=9):
        for batch, length in prompts:
            ids = torch.randint(3, 99, (batch, length))
            mask = torch.ones_like(ids)
            mask[0, 0] = 0 if batch > 1 else 1
            model.generate(ids, attention_mask=mask, max_new_tokens=3, do_sample=False)
    return observer


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
def test_a_padded_batch_shows_the_mask_and_all_axes() -> None:
    _, model = llama()
    observer = generated(model, (2, 7), (1, 4))
    assert observer.left_open() == []
    assert observer.describe().splitlines()[1:3] == [
        "input_ids: int64[batch, sequence]",
        "attention_mask: int64[batch, past + sequence]",
    ]
    program = onnxport.export(model, **observer.for_export())
    assert all(row["SUCCESS"] for row in observer.check_discrepancies(program))
    assert all(row["SUCCESS"] for row in generated(model, (3, 5)).check_discrepancies(program))


def test_a_window_that_was_always_full_may_be_shorter() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8, "vocab_size": 99}
    model = Gemma2ForCausalLM(
        Gemma2Config(**sizes, num_attention_heads=4, num_key_value_heads=2, sliding_window=4, eos_token_id=None)
    ).eval()
    observer = generated(model, (2, 7), (1, 8))
    assert "past_key_values.0.key: float32[batch, 2, window, 8]" in observer.describe()
    program = onnxport.export(model, **observer.for_export())
    for prompts in ((2, 2), (1, 1), (3, 9)):
        short = generated(model, (2, 5), prompts)
        assert all(row["SUCCESS"] for row in short.check_discrepancies(program))


GAPS: dict[str, tuple[list[Any], str]] = {
    "one call": ([((ones(2, 3),), {})], "One call was observed, with a batch of 2"),
    "one batch size": ([((ones(2, n),), {}) for n in (3, 4)], "Each of the 2 observed calls had a batch of 2"),
    "a twin": (
        [((ones(n, 3),), {"pair": {"a": ones(2), "b": [ones(4)]}}) for n in (2, 5)],
        r"Axis 0 of pair\['a'\] had a size of 2 in every call, though axis 0 of x had others",
    ),
    "an entry of a list": (
        [((ones(1, 3),), {"pair": {"a": ones(1), "b": [ones(1, n), ones(1, 4)]}}) for n in (4, 5)],
        r"Axis 1 of pair\['b'\]\[1\] had a size of 4 in every call, though axis 1 of pair\['b'\]\[0\] had",
    ),
}


@pytest.mark.filterwarnings("ignore:Each of the 2 observed calls had a batch of 1")
@pytest.mark.parametrize("row", GAPS)
def test_what_calls_leave_open_is_a_warning(row: str) -> None:
    calls, message = GAPS[row]
    observer = observed(Model(), *calls)
    with pytest.warns(OnnxExporterWarning, match=rf"(?s){message}.*with observer\(model\)"):
        observer.for_export()
    assert any("inside `with observer(model):`" in str(gap) for gap in observer.left_open())


def test_axes_of_tensors_that_are_not_text_are_not_tied() -> None:
    observer = observed(Star(), *[((ones(n, 3), ones(n, 3)), {}) for n in (2, 3)])
    assert observer.for_export()["dynamic_shapes"] == ({0: DYNAMIC}, {0: DYNAMIC})


def with_cache(config: LlamaConfig, batch: int, past: int, length: int) -> dict[str, Any]:
    cache = DynamicCache(config=config)
    for layer in range(2):
        cache.update(torch.randn(batch, 2, past, 8), torch.randn(batch, 2, past, 8), layer)
    return {
        "input_ids": torch.randint(3, 99, (batch, length)),
        "attention_mask": torch.ones(batch, past + length, dtype=torch.int64),
        "past_key_values": cache,
    }


def test_a_dynamic_cache_as_input_and_output() -> None:
    config, model = llama()
    kinds = ("key", "value")
    past = [[{0: "batch", 2: "past"}] * 2] * 2
    program = onnxport.export(
        model,
        kwargs=with_cache(config, 2, 5, 3),
        dynamic_shapes={
            "input_ids": {0: "batch", 1: "length"},
            "attention_mask": {0: "batch", 1: "total"},
            "past_key_values": past,
        },
        output_names=["logits", *(f"present.{layer}.{kind}" for kind in kinds for layer in range(2))],
    )
    graph = program.model.graph
    assert [f"{value.name}{value.shape}" for value in graph.inputs] == [
        "input_ids[batch,length]",
        "attention_mask[batch,total]",
        *(f"past_key_values.{layer}.{kind}[batch,2,past,8]" for kind in kinds for layer in range(2)),
    ]
    assert graph.outputs[1].name == "present.0.key"
    for sizes in [(2, 5, 3), (1, 7, 1), (3, 1, 4), (2, 0, 4)]:
        inputs = with_cache(config, *sizes)
        with torch.no_grad():
            expected = model(**copy.deepcopy(inputs))
        layers = expected.past_key_values.layers
        tensors = [expected.logits, *(layer.keys for layer in layers), *(layer.values for layer in layers)]
        torch.testing.assert_close(list(program(**inputs)), tensors, atol=1e-5, rtol=1e-4)
