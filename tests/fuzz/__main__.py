"""Run random programs and print what is wrong, in a few lines each."""

from __future__ import annotations

import argparse
import collections
import logging
import os
import sys
import warnings

import onnxport
from fuzz.examination import Examined, examine
from fuzz.isolation import Isolated, Judge
from fuzz.programs import SIZES, generate, inputs
from fuzz.shrink import shrunk

PROGRAMS_BETWEEN_SUMS = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; each further one has the next")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--statements", type=int, nargs=2, default=(20, 60), metavar=("FEWEST", "MOST"))
    parser.add_argument("--no-shrink", action="store_true", help="name the fault only")
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    # What is imported and learnt on the way is there for the forks; nothing runs in onnxruntime, whose threads don't.
    onnxport.export(generate(0, 30, 30).first(5).module(), inputs(SIZES[0]), verbose=False)
    judge = Isolated()
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(options.seed, options.seed + options.programs):
        program = generate(seed, *options.statements)
        examined = examine(program, judge)
        counts["programs"] += 1
        counts["statements"] += len(program.statements)
        counts["faults"] += examined.fault is not None
        _tell(seed, examined, counts, None if options.no_shrink else judge)
        if counts["programs"] % PROGRAMS_BETWEEN_SUMS == 0:
            print(f"up to seed {seed}: {_sums(counts)}")
        sys.stdout.flush()
    judge.end()
    print(_sums(counts))
    return 1 if counts["faults"] else 0


def _sums(counts: collections.Counter[str]) -> str:
    seconds = {"seconds of the processor, without the process at work": round(sum(os.times()[:4]))}
    return ", ".join(f"{count} {kind}" for kind, count in {**counts, **seconds}.items())


def _tell(seed: int, examined: Examined, counts: collections.Counter[str], judge: Judge | None) -> None:
    for each in examined.aside:
        counts[each.kind] += 1
        reason = " ".join(each.reason.split())
        print(f"seed {seed}: {each.kind}: `{each.statement}`: {reason[:300]}")
    fault = examined.fault
    if fault is not None:
        print(f"seed {seed}: {fault.kind}: {fault.detail[:600]}")
        if judge is not None:
            print(shrunk(examined.program, fault, judge).text())


if __name__ == "__main__":
    sys.exit(main())
