"""What several commands take, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

OnnxFile: TypeAlias = Annotated[Path, typer.Argument(help="The ONNX file.")]
Written: TypeAlias = Annotated[Path, typer.Argument(help="Where to save.")]
Inputs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        help="An input as [name=]size,size,...[:dtype], or as [name=]FILE (.npy, .npz, .pt, .safetensors). Without "
        "any, inputs are random, of the shapes that the file states.",
    ),
]
OpenSizes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--size", help="A size that the file leaves open: name=number, or name=number,number for several runs."
    ),
]
Tolerance: TypeAlias = Annotated[
    float | None,
    typer.Option(help="The largest absolute difference that is none; without it, what the element type allows."),
]
ExternalData: TypeAlias = Annotated[
    bool, typer.Option("--external-data", help="Save the weights in a file of their own.")
]
AllowPickle: TypeAlias = Annotated[
    bool, typer.Option("--allow-pickle", help="Run the code in a file that holds a pickle, if you trust it.")
]
