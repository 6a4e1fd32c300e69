"""Sizes of inputs by the names of their axes: those of the example, and others to compare at."""

from __future__ import annotations

EXAMPLE_SIZES = {
    "batch": 2,
    "images": 4,
    "sounds": 2,
    "sequence": 10,
    "decoder_sequence": 6,
    "height": 64,
    "width": 96,
    "frames": 48,
    "samples": 4000,
    "choices": 3,
    "objects": 5,
    "prompts": 3,
    "points": 4,
    "patches": 12,
}
OTHER_SIZES = (
    {
        "batch": 3,
        "images": 2,
        "sounds": 3,
        "sequence": 7,
        "decoder_sequence": 9,
        "height": 96,
        "width": 64,
        "frames": 64,
        "samples": 3100,
        "choices": 2,
        "objects": 4,
        "prompts": 2,
        "points": 3,
        "patches": 9,
    },
    {
        "batch": 1,
        "images": 1,
        "sounds": 1,
        "sequence": 16,
        "decoder_sequence": 1,
        "height": 128,
        "width": 160,
        "frames": 80,
        "samples": 5200,
        "choices": 4,
        "objects": 6,
        "prompts": 1,
        "points": 1,
        "patches": 20,
    },
)
