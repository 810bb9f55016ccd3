"""Data sets to start from. Each function gives a frozen `Dataset`; the same arguments give the same bits.

The notation normalises by √D inside the network, so inputs here have entries of order one, |x|² ≈ D.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from .errors import InputError, require, require_flag, require_integer, require_number, require_one_of
from .extras import require_extra
from .problem.dataset import Dataset
from .tabular import table

__all__ = [
    "GENERATORS",
    "delayed_match",
    "delayed_sum",
    "digit_rows",
    "digits",
    "flip_flop",
    "npz",
    "random_gaussian",
    "sine",
    "sphere",
    "table",
    "teacher_student",
]


def random_gaussian(
    points: int, dimension: int, seed: int = 0, *, outputs: int = 1, targets: str = "signs", test_points: int = 0
) -> Dataset:
    """Independent N(0, 1) inputs with random targets that do not depend on them.

    Args:
        points: P, the number of training points.
        dimension: D, the number of entries of an input.
        seed: random seed; the same seed gives the same data.
        outputs: C; y is (P,) for one output and (P, C) for more.
        targets: "signs" for ±1 with equal chance, "gaussian" for N(0, 1).
        test_points: how many test points to add.
    """
    _check_sizes(points, dimension, seed, outputs, test_points)
    require_one_of("targets", targets, ("signs", "gaussian"))
    rng = np.random.default_rng(seed)
    total = points + test_points
    x = rng.standard_normal((total, dimension))
    y = rng.standard_normal((total, outputs))
    return _split(x, np.where(y < 0, -1.0, 1.0) if targets == "signs" else y, points)


def sphere(points: int, dimension: int, seed: int = 0, *, outputs: int = 1, test_points: int = 0) -> Dataset:
    """Inputs uniform on the sphere |x|² = D, with independent targets ±1.

    Args:
        points: P, the number of training points.
        dimension: D, the number of entries of an input.
        seed: random seed; the same seed gives the same data.
        outputs: C; y is (P,) for one output and (P, C) for more.
        test_points: how many test points to add.
    """
    _check_sizes(points, dimension, seed, outputs, test_points)
    rng = np.random.default_rng(seed)
    total = points + test_points
    x = _on_sphere(rng.standard_normal((total, dimension)))
    return _split(x, rng.choice([-1.0, 1.0], size=(total, outputs)), points)


def teacher_student(
    points: int,
    dimension: int,
    seed: int = 0,
    *,
    hidden: int = 1,
    outputs: int = 1,
    noise: float = 0.0,
    signs: bool = False,
    test_points: int = 0,
) -> Dataset:
    """Inputs on the sphere |x|² = D, taught by a random network y = v·tanh(Ux/√D)/√hidden + noise.

    U (hidden, D) and v (C, hidden) are N(0, 1), one teacher for training and test points.

    Args:
        points: P, the number of training points.
        dimension: D, the number of entries of an input.
        seed: random seed; the same seed gives the same data.
        hidden: neurons of the teacher.
        outputs: C; y is (P,) for one output and (P, C) for more.
        noise: standard deviation of Gaussian noise on training targets; test targets are clean.
        signs: replace the targets by their signs.
        test_points: how many test points to add.
    """
    _check_sizes(points, dimension, seed, outputs, test_points)
    require_integer("hidden", hidden, 1)
    require_number("noise", noise, "a number, 0 or more", at_least=0)
    require_flag("signs", signs)
    _check_memory(hidden, dimension + outputs)
    rng = np.random.default_rng(seed)
    u, v = rng.standard_normal((hidden, dimension)), rng.standard_normal((outputs, hidden))
    x = _on_sphere(rng.standard_normal((points + test_points, dimension)))
    y = np.tanh(x @ u.T / np.sqrt(dimension)) @ v.T / np.sqrt(hidden)
    y[:points] += noise * rng.standard_normal((points, outputs))
    return _split(x, np.where(y < 0, -1.0, 1.0) if signs else y, points)


def digits(
    classes: Sequence[int] = (0, 1),
    points: int = 20,
    seed: int = 0,
    *,
    test_points: int = 0,
    targets: str | None = None,
    images: bool = False,
) -> Dataset:
    """Scikit-learn's 8×8 handwritten digits, the same number of each class (give or take one).

    Standard scaling: one mean over all pixels of all training points is subtracted and one standard
    deviation divides, so that |x|² ≈ D = 64 and no pixel that is nearly always dark is blown up.

    Args:
        classes: two or more different digits. With two, the first is −1 and the second +1.
        points: training points in all, drawn at random and different from the test points.
        seed: random seed of the choice of points.
        test_points: how many test points to add.
        targets: "signs" (±1, one column per class where there are more than two) or "one_hot"
            (one column per class, as cross entropy needs it). None is "signs" for two classes, else "one_hot".
        images: x as (P, 8, 8, 1) for a `CNN` in place of (P, 64).
    """
    classes = _check_classes(classes)
    require_integer("points", points, 1)
    require_integer("seed", seed, 0)
    require_integer("test_points", test_points, 0)
    targets = ("signs" if len(classes) == 2 else "one_hot") if targets is None else targets
    require_one_of("targets", targets, ("signs", "one_hot"))
    require_flag("images", images)

    pixels, labels = raw_digits()
    chosen = _balanced(labels, classes, points, test_points, np.random.default_rng(seed))
    x = pixels[chosen]
    x = (x - x[:points].mean()) / x[:points].std()
    one_hot = (labels[chosen][:, None] == np.array(classes)).astype(np.float64)
    signs = 2 * (one_hot[:, 1:] if len(classes) == 2 else one_hot) - 1
    return _split(x.reshape(-1, 8, 8, 1) if images else x, one_hot if targets == "one_hot" else signs, points)


def raw_digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's 1797 images (1797, 64), pixels 0 … 16, and their labels."""
    require_extra("digits", "the data set of digits")
    from sklearn.datasets import load_digits

    bunch: dict[str, np.ndarray] = load_digits()  # type: ignore[assignment]
    return bunch["data"], bunch["target"]


def delayed_sum(points: int, delay: int = 3, seed: int = 0, *, test_points: int = 0) -> Dataset:
    """Two numbers to be kept and added after a delay, for an `RNN` with readout "last".

    N(0, 1) numbers a and b come at frames 1 and 2, silence follows for `delay` frames, and at the last of T = delay + 3
    frames a second channel asks for the target (a + b)/√2. x is (P, T, 2), y (P,).

    Args:
        points: P, the number of training points.
        delay: frames of silence.
        seed: random seed; the same seed gives the same data.
        test_points: how many test points to add.
    """
    _check_task(points, seed, test_points, delay=(delay, 0))
    _check_memory(points + test_points, 2 * (delay + 3))
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((points + test_points, 2))
    x = np.zeros((len(numbers), delay + 3, 2))
    x[:, :2, 0], x[:, -1, 1] = numbers, 1.0
    return _split(x, numbers.sum(1, keepdims=True) / np.sqrt(2), points)


def flip_flop(
    points: int, frames: int = 10, seed: int = 0, *, bits: int = 1, chance: float = 0.3, test_points: int = 0
) -> Dataset:
    """Memory of the last pulse, for an `RNN` with readout "every".

    In every channel a pulse of ±1 comes at frame 1, and at later ones with probability `chance`; the target at every
    frame is the last pulse of each channel. x is (P, T, bits), y (P, T), or (P, T, bits) for several bits.

    Args:
        points: P, the number of training points.
        frames: T, the length of a sequence.
        seed: random seed; the same seed gives the same data.
        bits: the number of channels.
        chance: probability of a pulse at each frame but the first.
        test_points: how many test points to add.
    """
    _check_task(points, seed, test_points, frames=(frames, 1), bits=(bits, 1))
    _check_memory(points + test_points, 2 * frames * bits)
    require_number("chance", chance, "a number in [0, 1]", at_least=0, at_most=1)
    rng = np.random.default_rng(seed)
    shape = (points + test_points, frames, bits)
    pulses = rng.choice([-1.0, 1.0], size=shape) * (rng.random(shape) < chance)
    pulses[:, 0] = rng.choice([-1.0, 1.0], size=(len(pulses), bits))
    y = pulses.copy()
    for t in range(1, frames):
        y[:, t] = np.where(pulses[:, t] == 0, y[:, t - 1], pulses[:, t])
    return _split_frames(pulses, y, points)


def delayed_match(
    points: int, delay: int = 3, seed: int = 0, *, stimuli: int = 2, dimension: int = 4, test_points: int = 0
) -> Dataset:
    """Delayed match to sample, for an `RNN` with readout "last": +1 if the last stimulus is the first one, else −1.

    Stimuli are fixed N(0, 1) vectors; half of the points match. The first comes at frame 1, silence follows for `delay`
    frames, and the other comes at the last of T = delay + 2 frames. x is (P, T, dimension), y (P,).

    Args:
        points: P, the number of training points.
        delay: frames of silence between the two stimuli.
        seed: random seed; the same seed gives the same data.
        stimuli: how many different stimuli there are.
        dimension: entries of a stimulus.
        test_points: how many test points to add.
    """
    _check_task(points, seed, test_points, delay=(delay, 0), stimuli=(stimuli, 2), dimension=(dimension, 1))
    _check_memory(points + test_points, (delay + 2) * dimension)
    _check_memory(stimuli, dimension)
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((stimuli, dimension))
    total = points + test_points
    match = np.arange(total) % 2 == 0
    first = rng.integers(stimuli, size=total)
    last = np.where(match, first, (first + rng.integers(1, stimuli, size=total)) % stimuli)
    x = np.zeros((total, delay + 2, dimension))
    x[:, 0], x[:, -1] = vectors[first], vectors[last]
    return _split(x, np.where(match, 1.0, -1.0)[:, None], points)


def sine(points: int, frames: int = 20, seed: int = 0, *, periods: float = 2.0, test_points: int = 0) -> Dataset:
    """Sine waves whose frequency is given by the input, for an `RNN` with readout "every".

    The input is 1 in one channel and a number c, uniform in [−1, 1], in the other, at all frames t = 1 … T. The target
    is sin(2π·periods·(1 + c/2)·t/T). x is (P, T, 2), y (P, T).

    Args:
        points: P, the number of training points.
        frames: T, the length of a sequence.
        seed: random seed; the same seed gives the same data.
        periods: periods of the wave in T frames at c = 0.
        test_points: how many test points to add.
    """
    _check_task(points, seed, test_points, frames=(frames, 1))
    _check_memory(points + test_points, 3 * frames)
    require_number("periods", periods, "a number above 0", above=0)
    rng = np.random.default_rng(seed)
    cue = rng.uniform(-1, 1, size=(points + test_points, 1))
    x = np.ones((len(cue), frames, 2))
    x[:, :, 1] = cue
    y = np.sin(2 * np.pi * periods * (1 + cue / 2) * np.arange(1, frames + 1) / frames)
    return _split_frames(x, y[:, :, None], points)


def digit_rows(
    classes: Sequence[int] = (0, 1),
    points: int = 20,
    seed: int = 0,
    *,
    test_points: int = 0,
    targets: str | None = None,
) -> Dataset:
    """The images of `digits`, one row of 8 pixels per frame, for an `RNN` with readout "last": x is (P, 8, 8).

    Args:
        classes, points, seed, test_points, targets: as for `digits`.
    """
    flat = digits(classes, points, seed, test_points=test_points, targets=targets)
    x, x_test = (None if value is None else value.reshape(-1, 8, 8) for value in (flat.x, flat.x_test))
    return Dataset(x, flat.y, x_test, flat.y_test)  # type: ignore[arg-type]


def npz(path: str | Path) -> Dataset:
    """A NumPy .npz file with arrays `x` and `y`, and optionally `x_test` and `y_test`.

    Args:
        path: the file, as `np.savez(path, x=x, y=y)` writes it.
    """
    require(isinstance(path, (str, PathLike)), "path", path, "the path of an .npz file")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except OSError as error:
        raise InputError(
            f"path is '{path}', which cannot be read ({error.strerror or error}); allowed: an .npz file"
        ) from error
    except Exception as error:  # a file of another kind may fail with almost any error
        raise InputError(
            f"path is '{path}', which is not an .npz file of plain arrays; allowed: np.savez(path, x=…, y=…)"
        ) from error
    for name in ("x", "y"):
        require(name in arrays, f"the array {name} of '{path}'", "missing", "x, y and perhaps x_test, y_test")
    for name in arrays:
        require(name in ("x", "y", "x_test", "y_test"), f"'{path}'", f"a file with {name}", "x, y, x_test and y_test")
    return Dataset(**arrays)


GENERATORS: dict[str, Callable[..., Dataset]] = {
    generator.__name__: generator
    for generator in (
        random_gaussian,
        sphere,
        teacher_student,
        digits,
        npz,
        table,
        delayed_sum,
        flip_flop,
        delayed_match,
        sine,
        digit_rows,
    )
}


def _check_sizes(points: int, dimension: int, seed: int, outputs: int, test_points: int) -> None:
    sizes = (("points", points, 1), ("dimension", dimension, 1), ("seed", seed, 0), ("outputs", outputs, 1))
    for name, value, minimum in (*sizes, ("test_points", test_points, 0)):
        require_integer(name, value, minimum)
    _check_memory(points + test_points, dimension + outputs)


def _check_memory(rows: int, columns: int) -> None:
    """Refuse arrays that would not fit, before they are made."""
    from .numerics.memory import check_memory  # here, because it loads JAX

    check_memory(
        3 * 8 * rows * columns, "the data set", "take fewer points, dimensions, frames, outputs or hidden neurons"
    )


def _check_task(points: int, seed: int, test_points: int, **sizes: tuple[int, int]) -> None:
    """Sizes of a task with sequences; others than the usual ones by name, with their minimum."""
    for name, (value, minimum) in {
        "points": (points, 1), "seed": (seed, 0), "test_points": (test_points, 0), **sizes
    }.items():  # fmt: skip
        require_integer(name, value, minimum)


def _split_frames(x: np.ndarray, y: np.ndarray, points: int) -> Dataset:
    """As `_split`, for targets (P, T, C)."""
    y = y[:, :, 0] if y.shape[2] == 1 else y
    return Dataset(x, y) if len(x) == points else Dataset(x[:points], y[:points], x[points:], y[points:])


def _check_classes(classes: Sequence[int]) -> tuple[int, ...]:
    allowed = "two or more different digits from 0 to 9"
    require(isinstance(classes, (list, tuple)), "classes", classes, allowed)
    digits = [c for c in classes if isinstance(c, (int, np.integer)) and not isinstance(c, bool) and 0 <= c <= 9]
    require(len(set(digits)) == len(classes) >= 2, "classes", classes, allowed)
    return tuple(int(c) for c in digits)


def _balanced(
    labels: np.ndarray, classes: tuple[int, ...], points: int, test_points: int, rng: np.random.Generator
) -> np.ndarray:
    """Indices of `points` training and then `test_points` test points, shared evenly among the classes."""
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for position, digit in enumerate(classes):
        pool = rng.permutation(np.flatnonzero(labels == digit))
        wanted, wanted_test = (_share(n, position, len(classes)) for n in (points, test_points))
        if wanted + wanted_test > len(pool):
            largest = min(int(np.sum(labels == c)) for c in classes) * len(classes)
            raise InputError(
                f"points + test_points is {points + test_points}, but there are only {len(pool)} images of "
                f"digit {digit}; allowed: at most {largest} for these classes"
            )
        parts[0].append(pool[:wanted])
        parts[1].append(pool[wanted : wanted + wanted_test])
    return np.concatenate([rng.permutation(np.concatenate(part)) for part in parts])


def _share(total: int, position: int, parties: int) -> int:
    """What the party at `position` gets when `total` is dealt out in turn."""
    return total // parties + (position < total % parties)


def _on_sphere(x: np.ndarray) -> np.ndarray:
    return x * (np.sqrt(x.shape[1]) / np.linalg.norm(x, axis=1, keepdims=True))


def _split(x: np.ndarray, y: np.ndarray, points: int) -> Dataset:
    """The first `points` rows teach, the others test; a single output loses its axis."""
    y = y[:, 0] if y.shape[1] == 1 else y
    if len(x) == points:
        return Dataset(x, y)
    return Dataset(x[:points], y[:points], x[points:], y[points:])
