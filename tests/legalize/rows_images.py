"""Resizing, pooling, sampling, regions and signals."""

from __future__ import annotations

import itertools

import numpy as np
from rule_cases import BOTH, F, I, Literal, at_run_time, case, floats, ints, one_at_run_time, scalar

PLACES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")

RESIZE = [
    case("Resize", F(1, 2, 4, 5), None, floats(1, 1, 2, 3), mode="nearest"),
    case("Resize", F(1, 2, 4, 5), None, floats(1, 1, 2, 2), mode="nearest", dynamic=True),
    case("Resize", F(1, 2, 4, 5), None, floats(2.5, 0.6), axes=[2, 3], mode="linear"),
    case("Resize", F(1, 2, 4, 5), None, None, ints(7, 3), axes=[-2, -1], mode="linear"),
    case("Resize", F(1, 2, 4, 5), None, None, ints(7, 3), axes=[2, 3], mode="linear", dynamic=True, lowest=9),
    case(
        "Resize", F(1, 2, 4), None, None, ints(1, 2, 9), mode="linear", coordinate_transformation_mode="align_corners"
    ),
    case("Resize", F(1, 2, 4, 5), None, None, ints(1, 2, 7, 9), mode="cubic"),
    case("Resize", F(1, 2, 4, 5), None, floats(1, 1, 2, 2), mode="linear", coordinate_transformation_mode="asymmetric"),
    case("Resize", F(1, 2, 8, 9), None, None, ints(1, 2, 3, 4), mode="linear", antialias=1, exclude_outside=1),
    *[
        case("Resize", F(1, 1, 7, 5), None, None, ints(1, 1, 3, 11), nearest_mode=rounding, note="nearest")
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ],
    *[
        case(
            "Resize",
            F(1, 2, 6, 5),
            *how,
            mode=mode,
            coordinate_transformation_mode=place,
            dynamic=dynamic,
            note=note,
            lowest=9 if dynamic or note == "run-time" else 7,
        )
        for mode, place in itertools.product(("nearest", "linear", "cubic"), PLACES)
        for how, note in (
            ((None, floats(1, 1, 1.5, 0.6)), "scales"),
            ((None, None, ints(1, 2, 4, 9)), "sizes"),
            ((None, None, at_run_time(1, 2, 3, 8)), "run-time"),
        )
        for dynamic in BOTH
        if not (dynamic and note == "sizes")
    ],
    *[
        case(
            "Resize",
            F(1, 2, 6, 5),
            None,
            None,
            size,
            mode=mode,
            antialias=1,
            axes=[2, 3],
            dynamic=dynamic,
            note=note,
            lowest=9 if dynamic else lowest,
        )
        for mode in ("linear", "cubic")
        for size, note, lowest in ((ints(3, 9), "", 7), (at_run_time(3, 9), "run-time", 9))
        for dynamic in BOTH
    ],
    *[
        case(
            "Resize",
            F(1, 1, 7, 5),
            None,
            None,
            at_run_time(1, 1, 3, 11),
            nearest_mode=rounding,
            note="run-time",
            lowest=9,
        )
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ],
    case("Resize", F(1, 2, 6, 5), None, None, ints(1, 2, 4, 9), mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5),
    case("Resize", F(1, 1, 6, 5), None, None, at_run_time(1, 1, 4, 9), mode="cubic", exclude_outside=1, lowest=9),
    case("Resize", F(1, 2, 6), None, floats(1, 1, 2), mode="linear"),
    case("Resize", F(1, 1, 2, 3, 4), None, floats(1, 1, 2, 1, 2), mode="nearest"),
    case("Resize", I(1, 1, 4, 4, dtype=np.int32), None, floats(1, 1, 2, 2), mode="nearest"),
    case("Resize", I(1, 1, 4, 4, low=0, dtype=np.uint8), None, None, ints(1, 1, 3, 8), mode="nearest"),
    case("Resize", F(1, 1, 1, 4), None, None, ints(1, 1, 1, 1), mode="linear"),
    case(
        "Resize",
        F(1, 2, 4, 4),
        None,
        at_run_time(1, 1, 2, 2, dtype=np.float32),
        mode="nearest",
        note="run-time",
        lowest=9,
    ),
]

POOL = [
    case("MaxPool", F(1, 2, 7, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", F(1, 2, 8, 8), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, dilations=[1, 1]),
    case("MaxPool", F(1, 2, 8, 8), kernel_shape=[3, 3], dilations=[2, 2], lowest=10),
    case("AveragePool", F(1, 2, 8, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", F(1, 2, 7, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, dynamic=True),
    case("MaxPool", F(1, 2, 7, 8), kernel_shape=[1, 1], strides=[3, 3], ceil_mode=1, dynamic=True, lowest=9),
    case("MaxPool", F(1, 2, 7, 8), kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1, pads=[0, 0, 1, 1], lowest=9),
    case("MaxPool", F(1, 2, 8), kernel_shape=[3], strides=[2], ceil_mode=1, outputs=2, lowest=8),
    case(
        "AveragePool",
        F(1, 2, 7, 8),
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        pads=[1, 1, 1, 1],
        count_include_pad=1,
        dynamic=True,
    ),
    case(
        "AveragePool", F(1, 2, 7, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[0, 1, 0, 1], dynamic=True
    ),
    case(
        "AveragePool",
        F(1, 2, 7, 8),
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        count_include_pad=1,
        dynamic=True,
    ),
]

SAMPLING = [
    *[
        case("GridSample", F(2, 3, 4, 5), F(2, 3, 6, 2), mode=mode, padding_mode=padding, align_corners=corners)
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ],
    case("GridSample", F(2, 3, 4, 5), F(2, 3, 6, 2), mode="linear", dynamic=True),
    *[
        case("AffineGrid", F(2, rows, rows + 1), size, align_corners=corners, atol=1e-4, note=note, lowest=lowest)
        for corners in (0, 1)
        for rows, size, note, lowest in (
            (2, ints(2, 3, 4, 5), "", 7),
            (3, ints(2, 1, 2, 3, 4), "", 7),
            (2, np.array([2, 3, 4, 5]), "run-time", 9),
        )
    ],
    *[
        case(
            "GridSample",
            F(1, 2, 3, 4, 5),
            F(1, 2, 3, 2, 3),
            mode=mode,
            padding_mode=padding,
            align_corners=corners,
            atol=1e-4,
        )
        for mode in ("linear", "nearest")
        for padding in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ],
    case("GridSample", F(1, 2, 1, 4), F(1, 2, 3, 2), padding_mode="reflection", align_corners=1, note="of one row"),
    case(
        "GridSample",
        F(1, 2, 3, 4),
        F(1, 2, 3, 2) * 3,
        mode="cubic",
        padding_mode="reflection",
        dynamic=True,
        atol=1e-4,
    ),
    case("GridSample", F(1, 2, 3, 4, 5), F(1, 2, 3, 2, 3), dynamic=True, atol=1e-4),
]

REGIONS = [
    *[
        case("Col2Im", F(1, 2 * 6, count), ints(5, 7), ints(2, 3), note=note, **options)
        for count, note, options in (
            (4 * 5, "plain", {}),
            (2 * 3, "strides", {"strides": [2, 2]}),
            (3 * 3, "dilated", {"dilations": [2, 2]}),
            (6 * 7, "pads", {"pads": [1, 1, 1, 1]}),
            (3 * 4, "both", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        )
    ],
    case("Col2Im", F(2, 12, 20), np.array([5, 7]), ints(2, 3), note="run-time", lowest=9),
    *[
        case(
            "RoiAlign",
            F(2, 3, 8, 9),
            Literal(np.array([[0, 0, 6, 6], [1, 2, 7.5, 5], [3, 3, 3.2, 3.1], [-2, -1, 4, 20]], np.float32)),
            ints(0, 1, 1, 0),
            output_height=2,
            output_width=3,
            sampling_ratio=ratio,
            spatial_scale=scale,
            source=20,
            highest=21,
            coordinate_transformation_mode=place,
            atol=1e-4,
            lowest=7 if ratio else 9,
        )
        for ratio, scale, place in (
            (2, 1.0, "half_pixel"),
            (0, 0.5, "half_pixel"),
            (0, 1.0, "output_half_pixel"),
            (1, 0.7, "output_half_pixel"),
        )
    ],
    case(
        "RoiAlign",
        F(1, 3, 8, 9),
        Literal(np.zeros((0, 4), np.float32)),
        ints(),
        source=20,
        highest=21,
        note="no regions",
        lowest=9,
    ),
    *[
        case(
            "DeformConv",
            F(2, 4, 6, 7),
            F(6, 4 // groups, 3, 2),
            F(2, parts * 12, *size) * 2,
            bias,
            mask,
            group=groups,
            offset_group=parts,
            atol=1e-4,
            **options,
        )
        for groups, parts, size, bias, mask, options in (
            (1, 1, (4, 6), None, None, {}),
            (2, 2, (4, 6), F(6), None, {}),
            (1, 1, (3, 4), F(6), F(2, 6, 3, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
            (1, 2, (2, 5), None, F(2, 12, 2, 5), {"dilations": [2, 2]}),
        )
    ],
    case("DeformConv", F(1, 2, 5, 5), Literal(F(2, 2, 2, 2)), F(1, 8, 4, 4), dynamic=True, atol=1e-4),
]

WINDOW = np.hanning(8).astype(np.float32)


def half_spectrum(count: int) -> np.ndarray:
    spectrum = np.fft.rfft(F(2, count), axis=1)
    return np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)


SIGNAL = [
    *[
        case("DFT", F(2, 8, 3, parts), None, scalar(axis, np.int64), **options)
        for parts, axis, options in ((1, 1, {"onesided": 1}), (2, 1, {"inverse": 1}), (2, 2, {}), (1, -2, {}))
    ],
    *[case("DFT", F(2, 8, 1), scalar(length, np.int64), scalar(1, np.int64), note=str(length)) for length in (6, 11)],
    *[
        case(
            "DFT",
            F(2, 7, parts),
            one_at_run_time(count),
            scalar(1, np.int64),
            atol=1e-4,
            note=f"run-time {count}",
            **options,
            lowest=9,
        )
        for count in (5, 7, 10)
        for parts, options in ((1, {"onesided": 1}), (2, {"inverse": 1}), (2, {}), (1, {}))
    ],
    case("DFT", F(2, 8, 2, dtype=np.float64), None, scalar(1, np.int64)),
    case("DFT", F(2, 8, 2), None, scalar(1, np.int64), atol=1e-4),
    *[
        case(
            "DFT",
            half_spectrum(count),
            length,
            scalar(1, np.int64),
            inverse=1,
            onesided=1,
            atol=1e-4,
            note=note,
            lowest=lowest,
        )
        for count, length, note, lowest in (
            (8, None, "8", 7),
            (9, scalar(9, np.int64), "9", 7),
            (8, one_at_run_time(8), "run-time", 9),
        )
    ],
    *[
        case(
            "STFT",
            F(2, 30, parts),
            scalar(step, np.int64),
            window,
            frame,
            onesided=one,
            atol=1e-4,
            dynamic=dynamic,
            note=note,
        )
        for parts, step, window, frame, one, dynamic, note in (
            (1, 4, Literal(WINDOW), scalar(8, np.int64), 1, False, "window"),
            (1, 3, None, scalar(8, np.int64), 0, False, "plain"),
            (2, 4, Literal(WINDOW), scalar(8, np.int64), 0, False, "complex"),
            (1, 5, Literal(WINDOW), None, 1, False, "by window"),
        )
    ],
]

ROWS = RESIZE + POOL + SAMPLING + REGIONS + SIGNAL
