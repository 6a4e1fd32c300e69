"""Saves that are killed: run as ``python faults.py FOLDER KILLS``, prints what went wrong, line by line.

Forked children save a model over another and end at a step of the writer, or are killed from outside at a random
moment. After each the files must be one of the models with its own data, and the next save must clear up.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import programs
import torch

from onnxport.weights.disk import Disk
from onnxport.weights.saving import save_model


class Killing(Disk):
    """Ends the process before the call of that number, without a word to anybody."""

    def __init__(self, at: int) -> None:
        super().__init__(sync=False)
        self.left = at

    def __getattribute__(self, name: str):
        if name in ("write", "finish", "rename", "link", "remove", "finish_folder"):
            if self.left == 0:
                os._exit(9)
            self.left -= 1
        return super().__getattribute__(name)


def model(number: int):
    """A model that can be told by its version, of which all weights are that number; all have one size."""
    weights = [programs.initializer(f"w{i}", torch.full((40_000,), float(number))) for i in range(2)]
    made = programs.model([], [], [], weights)
    made.model_version = number
    return made


def whole(path: Path) -> str | None:
    """What is wrong with the files of a model, if anything."""
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            place = {entry.key: entry.value for entry in tensor.external_data}
            begin, size = int(place.get("offset", 0)), int(place["length"])
            content = (path.parent / place["location"]).read_bytes()[begin : begin + size]
        else:
            content = tensor.raw_data
        values = set(np.frombuffer(content, np.float32).tolist())
        if len(content) != 160_000 or values != {float(proto.model_version)}:
            return f"model {proto.model_version} has the weights {values} in {len(content)} bytes"
    return None


def forked(work) -> int:
    """The number of a child that does the work."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child


def check(folder: Path, path: Path, old: bool, what: str) -> None:
    """Print what is wrong after a kill, and after the save that follows."""
    if (fault := whole(path)) is not None:
        print(f"{what}: {fault}")
    save_model(model(5), path, external_data=old, disk=Disk(sync=False))
    expected = ["m.onnx", "m.onnx.data"] if old else ["m.onnx"]
    if sorted(os.listdir(folder)) != expected or whole(path) is not None:
        print(f"{what}: the next save leaves {sorted(os.listdir(folder))}, {whole(path)}")


def main(folder: Path, kills: int) -> None:
    path = folder / "m.onnx"
    kinds = list(itertools.product((True, False), (True, False)))
    for old, new in kinds:
        for step in itertools.count():
            save_model(model(1), path, external_data=old, disk=Disk(sync=False))
            child = forked(lambda new=new, step=step: save_model(model(2), path, external_data=new, disk=Killing(step)))
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            check(folder, path, old, f"step {step} of {old} -> {new}")
            if ended == 0:
                break
    chance = random.Random(0)
    numbers = itertools.cycle(kinds)
    for _ in range(kills):
        old, new = next(numbers)
        save_model(model(1), path, external_data=old, disk=Disk(sync=False))

        def forever(new: bool = new) -> None:
            for number in itertools.cycle((2, 3)):
                save_model(model(number), path, external_data=new, disk=Disk(sync=False))

        children = [forked(forever) for _ in range(2)]
        time.sleep(chance.uniform(0.001, 0.03))
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        check(folder, path, old, f"{old} -> {new}, killed at random")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
