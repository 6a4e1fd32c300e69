"""Fit the Chebyshev coefficients of special functions anew, with mpmath (which comes with torch, by way of sympy).

``make coefficients`` writes ``src/onnxport/aten/special/coefficients.py``. Each row below is one table: its name, how
the comment describes it, the function of u from 0 to 1 that is fitted, and how many coefficients it has. Run anew, the
last of the twelve digits may differ, and with it the bytes of the files that hold a table.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mpmath
from mpmath import mpf

TARGET = Path(__file__).parents[1] / "src" / "onnxport" / "aten" / "special" / "coefficients.py"
DIGITS = 25

Function = Callable[[mpf], mpf]

HEAD = '''"""Chebyshev coefficients of special functions, fitted to 25-digit values by ``tools/coefficients.py``.

Each table is a series in t = 2 u - 1 for u from 0 to 1; the comment says of which function, and how its argument
follows from u.
"""

from __future__ import annotations
'''


def _phase(order: int, x: mpf) -> mpf:
    return x - (2 * order + 1) * mpmath.pi / 4


def _along(order: int, x: mpf) -> mpf:
    """The factor of the cosine in sqrt(2 / (pi x)) (P cos - Q sin), which J is, with Y as the same wave turned."""
    phase = _phase(order, x)
    wave = mpmath.besselj(order, x) * mpmath.cos(phase) + mpmath.bessely(order, x) * mpmath.sin(phase)
    return wave * mpmath.sqrt(mpmath.pi * x / 2)


def _across(order: int, x: mpf) -> mpf:
    phase = _phase(order, x)
    wave = mpmath.bessely(order, x) * mpmath.cos(phase) - mpmath.besselj(order, x) * mpmath.sin(phase)
    return wave * mpmath.sqrt(mpmath.pi * x / 2) * x


def _k_regular(order: int, x: mpf) -> mpf:
    logarithm = mpmath.log(x / 2) * mpmath.besseli(order, x)
    return x * (mpmath.besselk(1, x) - logarithm) if order else mpmath.besselk(0, x) + logarithm


def _y_regular(order: int, x: mpf) -> mpf:
    singular = mpmath.log(x) * mpmath.besselj(order, x)
    if order:
        return (mpmath.bessely(1, x) - 2 / mpmath.pi * (singular - 1 / x)) / x
    return mpmath.bessely(0, x) - 2 / mpmath.pi * singular


def _airy_far(u: mpf) -> mpf:
    zeta = 4 * mpmath.sqrt(2) / 3 / u
    x = (3 * zeta / 2) ** (mpf(2) / 3)
    return mpmath.exp(zeta) * mpmath.sqrt(mpmath.sqrt(x)) * mpmath.airyai(x)


def _erfcx(u: mpf) -> mpf:
    x = 3 * u / (1 - u)
    # Far out exp(x x) overflows and erfc(x) vanishes; their product is the first terms of its series in 1 / x.
    scaled = mpmath.exp(x * x) * mpmath.erfc(x) if x < 1e4 else (1 - 1 / (2 * x * x)) / (x * mpmath.sqrt(mpmath.pi))
    return (3 + x) * scaled


def _erfinv(u: mpf) -> mpf:
    rest = mpmath.exp(4 - mpmath.exp(mpmath.log(4) + u * mpmath.log(27)))
    x = mpmath.sqrt(1 - rest)
    if x == 0:
        return mpmath.sqrt(mpmath.pi) / 2
    # For an argument that is 1 but for the last digits, by the equation for what is missing.
    guess = mpmath.sqrt(max(-mpmath.log(rest), mpf("1e-30")))
    missing = rest / (1 + x)
    if rest > mpf("1e-8"):
        return mpmath.erfinv(x) / x
    return mpmath.findroot(lambda y: mpmath.log(mpmath.erfc(y) / missing), guess) / x


TABLES: dict[str, tuple[str, Function, int]] = {
    "I0_NEAR": ("exp(-x) I0(x), x = 8 u", lambda u: mpmath.exp(-8 * u) * mpmath.besseli(0, 8 * u), 21),
    "I0_FAR": (
        "exp(-x) sqrt(x) I0(x), x = 8 / u",
        lambda u: mpmath.exp(-8 / u) * mpmath.sqrt(8 / u) * mpmath.besseli(0, 8 / u),
        9,
    ),
    "I1_NEAR": ("exp(-x) I1(x) / x, x = 8 u", lambda u: mpmath.exp(-8 * u) * mpmath.besseli(1, 8 * u) / (8 * u), 21),
    "I1_FAR": (
        "exp(-x) sqrt(x) I1(x), x = 8 / u",
        lambda u: mpmath.exp(-8 / u) * mpmath.sqrt(8 / u) * mpmath.besseli(1, 8 / u),
        9,
    ),
    "K0_NEAR": ("K0(x) + log(x / 2) I0(x), x = 2 sqrt(u)", lambda u: _k_regular(0, 2 * mpmath.sqrt(u)), 8),
    "K0_FAR": (
        "exp(x) sqrt(x) K0(x), x = 2 / u",
        lambda u: mpmath.exp(2 / u) * mpmath.sqrt(2 / u) * mpmath.besselk(0, 2 / u),
        11,
    ),
    "K1_NEAR": ("x (K1(x) - log(x / 2) I1(x)), x = 2 sqrt(u)", lambda u: _k_regular(1, 2 * mpmath.sqrt(u)), 8),
    "K1_FAR": (
        "exp(x) sqrt(x) K1(x), x = 2 / u",
        lambda u: mpmath.exp(2 / u) * mpmath.sqrt(2 / u) * mpmath.besselk(1, 2 / u),
        11,
    ),
    "J0_NEAR": ("J0(x), x = 8 sqrt(u)", lambda u: mpmath.besselj(0, 8 * mpmath.sqrt(u)), 13),
    "J1_NEAR": (
        "J1(x) / x, x = 8 sqrt(u)",
        lambda u: mpmath.besselj(1, 8 * mpmath.sqrt(u)) / (8 * mpmath.sqrt(u)),
        13,
    ),
    "Y0_NEAR": ("Y0(x) - 2/pi log(x) J0(x), x = 8 sqrt(u)", lambda u: _y_regular(0, 8 * mpmath.sqrt(u)), 14),
    "Y1_NEAR": (
        "(Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x, x = 8 sqrt(u)",
        lambda u: _y_regular(1, 8 * mpmath.sqrt(u)),
        13,
    ),
    "P0_FAR": ("the part of J0(x) in phase, x = 8 / sqrt(u)", lambda u: _along(0, 8 / mpmath.sqrt(u)), 6),
    "Q0_FAR": ("the part of J0(x) out of phase, times x", lambda u: _across(0, 8 / mpmath.sqrt(u)), 7),
    "P1_FAR": ("the part of J1(x) in phase", lambda u: _along(1, 8 / mpmath.sqrt(u)), 6),
    "Q1_FAR": ("the part of J1(x) out of phase, times x", lambda u: _across(1, 8 / mpmath.sqrt(u)), 7),
    "AIRY_NEAR": ("Ai(x), x = 10 u - 8", lambda u: mpmath.airyai(10 * u - 8), 33),
    "AIRY_FAR": ("exp(z) sqrt(sqrt(x)) Ai(x), z = 2/3 x sqrt(x) = 4/3 sqrt(2) / u", _airy_far, 11),
    "ERFCX": ("(3 + x) erfcx(x), x = 3 u / (1 - u)", _erfcx, 15),
    "ERFINV": ("erfinv(x) / x, log(4 - log(1 - x x)) = log(4) + u (log(108) - log(4))", _erfinv, 27),
}


def coefficients(name: str) -> list[float]:
    """A table: the series that equals the function at as many of Chebyshev's points as there are coefficients."""
    _, function, count = TABLES[name]
    with mpmath.workdps(DIGITS):
        angles = [mpmath.pi * (2 * at + 1) / (2 * count) for at in range(count)]
        values = [function((mpmath.cos(angle) + 1) / 2) for angle in angles]
        found = []
        for order in range(count):
            terms = [value * mpmath.cos(order * angle) for value, angle in zip(values, angles, strict=True)]
            found.append(mpmath.fsum(terms) * (2 if order else 1) / count)
        return [float(mpmath.nstr(value, 12)) for value in found]


def module() -> str:
    """The text of the module with all tables."""
    parts = [HEAD]
    for name, (described, _, _) in TABLES.items():
        rows = "".join(f"    {value!r},\n" for value in coefficients(name))
        parts.append(f"\n# {described}\n{name} = (\n{rows})\n")
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(module(), encoding="utf-8")
