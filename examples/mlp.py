"""Export a small network that takes a tensor, a dict and a list, run it at another batch size, and check it.

Run by ``make demo``; leaves ``mlp.onnx`` in the current directory.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnxruntime
import torch
from rich.console import Console
from rich.table import Table

import onnxport

DESTINATION = Path("mlp.onnx")
INPUT_NAMES = ["tensor_input", "tensor_x", "list_input_index_0"]
TRACED_BATCH, OTHER_BATCH = 97, 5
TOLERANCE = 1e-5

Inputs = tuple[torch.Tensor, dict[str, torch.Tensor], list[torch.Tensor]]


class MLP(torch.nn.Module):
    """A perceptron over the concatenation of all its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.fc_combined = torch.nn.Linear(8 + 8 + 8, 8)
        self.fc0 = torch.nn.Linear(8, 8)
        self.fc1 = torch.nn.Linear(8, 4)
        self.fc2 = torch.nn.Linear(4, 2)
        self.fc3 = torch.nn.Linear(2, 2)

    def forward(
        self, tensor_x: torch.Tensor, input_dict: dict[str, torch.Tensor], input_list: list[torch.Tensor]
    ) -> torch.Tensor:
        """Return two numbers for each row of the inputs."""
        x = torch.cat([tensor_x, input_dict["tensor_x"], input_list[0]], dim=1)
        for layer in (self.fc_combined, self.fc0, self.fc1, self.fc2):
            x = torch.sigmoid(layer(x))
        return self.fc3(x)


def inputs(batch: int) -> Inputs:
    """Return inputs in the structure that the model takes."""
    return torch.rand(batch, 8), {"tensor_x": torch.rand(batch, 8)}, [torch.rand(batch, 8)]


def largest_difference(session: onnxruntime.InferenceSession, model: MLP, batch: int) -> float:
    """Run the file in onnxruntime and the model in eager, and compare."""
    tensor, mapping, sequence = inputs(batch)
    feeds = zip(INPUT_NAMES, (tensor, mapping["tensor_x"], sequence[0]), strict=True)
    (actual,) = session.run(["output"], {name: value.numpy() for name, value in feeds})
    with torch.no_grad():
        expected = model(tensor, mapping, sequence)
    if tuple(actual.shape) != tuple(expected.shape):
        return float("inf")
    return float((torch.from_numpy(actual) - expected).abs().max())


def main() -> None:
    """Export, print the graph, and check the file that was written."""
    torch.manual_seed(0)
    model = MLP().eval()
    program = onnxport.export(
        model,
        inputs(TRACED_BATCH),
        dynamic_shapes=({0: "batch_size"}, {"tensor_x": {0: "batch_size"}}, [{0: "batch_size"}]),
        input_names=INPUT_NAMES,
        output_names=["output"],
    )
    program.save(str(DESTINATION))
    print(program)

    session = onnxruntime.InferenceSession(str(DESTINATION), providers=["CPUExecutionProvider"])
    shapes = [value.shape for value in [*session.get_inputs(), *session.get_outputs()]]
    opset = program.model.opset_imports[""]
    checks = [
        ("opset", str(opset), opset >= 18),
        ("first axis of all inputs and of the output", str(shapes[0][0]), {s[0] for s in shapes} == {"batch_size"}),
    ]
    for batch in (TRACED_BATCH, OTHER_BATCH):
        difference = largest_difference(session, model, batch)
        checks.append((f"onnxruntime against eager, batch {batch}", f"{difference:.1e}", difference <= TOLERANCE))
    size = DESTINATION.stat().st_size
    checks.append((f"size of {DESTINATION}", f"{size:,} bytes", 0 < size < 20_000))

    table = Table("check", "found", "", title="mlp.onnx")
    for name, found, passed in checks:
        table.add_row(name, found, "[green]ok[/]" if passed else "[red]failed[/]")
    Console().print(table)
    sys.exit(0 if all(passed for *_, passed in checks) else 1)


if __name__ == "__main__":
    main()
