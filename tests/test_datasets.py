import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widefield as wf
from widefield.datasets import GENERATORS
from widefield.errors import InputError

SMALL = {
    "random_gaussian": {"points": 5, "dimension": 7, "test_points": 3},
    "sphere": {"points": 5, "dimension": 7, "test_points": 3},
    "teacher_student": {"points": 5, "dimension": 7, "test_points": 3},
    "digits": {"points": 5, "test_points": 3},
}
# Sequences: their shapes of x and y without points, and the readout that they are for.
SEQUENCES = {
    "delayed_sum": ({"delay": 2}, (5, 2), (), "last"),
    "flip_flop": ({"frames": 6}, (6, 1), (6,), "every"),
    "delayed_match": ({"delay": 2, "dimension": 3}, (4, 3), (), "last"),
    "sine": ({"frames": 6}, (6, 2), (6,), "every"),
    "digit_rows": ({}, (8, 8), (), "last"),
}


@pytest.mark.parametrize("name", SMALL)
def test_generators_give_what_was_asked_and_the_seed_fixes_it(name):
    make = GENERATORS[name]
    data = make(seed=3, **SMALL[name])
    assert (data.points, data.test_points, data.outputs) == (5, 3, 1)
    assert data.y.shape == (5,)
    assert make(seed=3, **SMALL[name]) == data
    assert make(seed=4, **SMALL[name]) != data
    assert set(GENERATORS) == {*SMALL, *SEQUENCES, "npz", "table"}


@pytest.mark.parametrize("name", SMALL)
def test_test_points_are_not_training_points(name):
    data = GENERATORS[name](seed=3, **SMALL[name])
    assert data.x_test is not None
    assert not any(np.array_equal(a, b) for a in data.x for b in data.x_test)


@given(points=st.integers(1, 6), dimension=st.integers(1, 6), seed=st.integers(0, 2**31), outputs=st.integers(1, 3))
def test_sphere_has_radius_root_d_and_signs(points, dimension, seed, outputs):
    data = wf.datasets.sphere(points, dimension, seed, outputs=outputs)
    np.testing.assert_allclose(np.sum(data.x**2, axis=1), dimension, rtol=1e-12)
    assert np.all(np.abs(data.y) == 1)


def test_random_gaussian_has_unit_variance_and_the_chosen_targets():
    data = wf.datasets.random_gaussian(400, 50, seed=0)
    # 20,000 entries: mean and variance have standard errors 0.007 and 0.01; five of them, false alarm < 1e-6.
    assert abs(data.x.mean()) < 0.035
    assert abs(data.x.var() - 1) < 0.05
    assert set(np.unique(data.y)) == {-1.0, 1.0}
    gaussian = wf.datasets.random_gaussian(400, 2, seed=0, targets="gaussian", outputs=2)
    assert gaussian.y.shape == (400, 2)
    assert len(np.unique(gaussian.y)) == 800


def test_teacher_is_a_function_of_x_shared_by_training_and_test():
    data = wf.datasets.teacher_student(30, 2, seed=0, hidden=1, test_points=30)
    assert data.x_test is not None
    assert data.y_test is not None
    # One tanh neuron: y = v·tanh(u·x/√D), so u can be read off from the training points and must serve the others.
    amplitude = np.linspace(np.abs(np.r_[data.y, data.y_test]).max() * 1.0001, 4, 4000)
    residuals = []
    for v in amplitude:
        field = np.arctanh(data.y / v)
        u, *_ = np.linalg.lstsq(data.x / np.sqrt(2), field, rcond=None)
        residuals.append((np.linalg.norm(data.x @ u / np.sqrt(2) - field), v, u))
    _, v, u = min(residuals, key=lambda r: r[0])
    np.testing.assert_allclose(v * np.tanh(data.x_test @ u / np.sqrt(2)), data.y_test, atol=2e-3)


def test_teacher_noise_is_on_training_targets_only():
    clean = wf.datasets.teacher_student(200, 5, seed=2, test_points=20)
    noisy = wf.datasets.teacher_student(200, 5, seed=2, test_points=20, noise=0.5)
    np.testing.assert_array_equal(clean.y_test, noisy.y_test)
    # 200 draws: the standard deviation has a relative standard error of 5 %; five of them, false alarm < 1e-6.
    assert abs(np.std(noisy.y - clean.y) / 0.5 - 1) < 0.25
    signs = wf.datasets.teacher_student(20, 5, seed=2, signs=True)
    assert np.all(np.abs(signs.y) == 1)


def test_digits_are_balanced_scaled_and_labelled():
    data = wf.datasets.digits((3, 8), points=40, seed=1, test_points=10)
    assert data.x.shape == (40, 64)
    assert data.y.sum() == 0
    assert data.y_test is not None
    assert data.y_test.sum() == 0
    assert abs(data.x.mean()) < 1e-12
    assert abs(np.mean(data.x**2) - 1) < 1e-12


def test_digits_targets_follow_the_label():
    from sklearn.datasets import load_digits

    bunch = load_digits()
    data = wf.datasets.digits((7, 2, 5), points=31, seed=1, images=True)
    assert data.x.shape == (31, 8, 8, 1)
    assert data.y.sum(axis=0).tolist() == [11, 10, 10]
    scaled = bunch["data"] - bunch["data"].mean()
    for image, target in zip(data.x.reshape(31, 64), data.y, strict=True):
        # The scaling is affine, so the original is the image with correlation one.
        correlation = [np.corrcoef(image, other)[0, 1] for other in scaled]
        label = bunch["target"][int(np.argmax(correlation))]
        assert target[[7, 2, 5].index(label)] == 1
    signs = wf.datasets.digits((7, 2, 5), points=31, seed=1, targets="signs")
    np.testing.assert_array_equal(signs.y, 2 * data.y - 1)
    assert wf.datasets.digits((0, 1), points=4, targets="one_hot").y.shape == (4, 2)


def test_npz_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(4, 3)), "y": rng.normal(size=4), "x_test": rng.normal(size=(2, 3))}
    np.savez(tmp_path / "mine.npz", **arrays)
    assert wf.datasets.npz(tmp_path / "mine.npz") == wf.Dataset(**arrays)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (None, "cannot be read"),
        (b"not an archive", "not an .npz"),
        ({"x": np.ones((2, 2))}, "y"),
        ({"x": np.ones((2, 2)), "y": np.ones(2), "labels": np.ones(2)}, "labels"),
        ({"x": np.array([{}, 1], dtype=object), "y": np.ones(2)}, "not an .npz"),
    ],
)
def test_npz_says_what_is_wrong_with_a_file(tmp_path, content, names):
    path = tmp_path / "data.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.savez(path, **content)
    with pytest.raises(InputError, match=names):
        wf.datasets.npz(path)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: wf.datasets.random_gaussian(0, 3), "points"),
        (lambda: wf.datasets.random_gaussian(2, 0), "dimension"),
        (lambda: wf.datasets.random_gaussian(2, 3, seed=-1), "seed"),
        (lambda: wf.datasets.random_gaussian(2, 3, targets="x"), "targets"),
        (lambda: wf.datasets.sphere(2.5, 3), "points"),  # type: ignore[arg-type]
        (lambda: wf.datasets.sphere(2, 3, outputs=0), "outputs"),
        (lambda: wf.datasets.sphere(2, 3, test_points=-1), "test_points"),
        (lambda: wf.datasets.teacher_student(2, 3, hidden=0), "hidden"),
        (lambda: wf.datasets.teacher_student(2, 3, noise=-1.0), "noise"),
        (lambda: wf.datasets.teacher_student(2, 3, signs=1), "signs"),  # type: ignore[arg-type]
        (lambda: wf.datasets.digits((1,)), "classes"),
        (lambda: wf.datasets.digits((1, 1)), "classes"),
        (lambda: wf.datasets.digits((1, 10)), "classes"),
        (lambda: wf.datasets.digits(5), "classes"),  # type: ignore[arg-type]
        (lambda: wf.datasets.digits((0, 1), points=0), "points"),
        (lambda: wf.datasets.digits((0, 1), points=300, test_points=300), "points"),
        (lambda: wf.datasets.digits((0, 1), targets="both"), "targets"),
        (lambda: wf.datasets.digits((0, 1), images="yes"), "images"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_named(call, argument):
    with pytest.raises(InputError, match=argument):
        call()


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_fit_their_network(name):
    options, x, y, readout = SEQUENCES[name]
    make = GENERATORS[name]
    data = make(points=5, test_points=3, seed=3, **options)
    assert data.x_test is not None
    assert data.y_test is not None
    assert (data.x.shape, data.x_test.shape) == ((5, *x), (3, *x))
    assert (data.y.shape, data.y_test.shape) == ((5, *y), (3, *y))
    assert make(points=5, test_points=3, seed=3, **options) == data
    assert make(points=5, test_points=3, seed=4, **options) != data
    wf.Problem(data, wf.RNN(readout=readout), "gd", 1.0, wf.Training(1, 0.1))


def test_sequences_have_the_targets_that_their_inputs_tell():
    data = wf.datasets.delayed_sum(6, delay=2, seed=1)
    np.testing.assert_allclose(data.y, (data.x[:, 0, 0] + data.x[:, 1, 0]) / np.sqrt(2))
    assert np.all(data.x[:, 2:, 0] == 0)
    np.testing.assert_array_equal(data.x[:, :, 1], np.tile([0, 0, 0, 0, 1], (6, 1)))

    data = wf.datasets.flip_flop(20, frames=9, seed=1, bits=2)
    for point, bit in np.ndindex(20, 2):
        last = 0.0
        for t in range(9):
            last = data.x[point, t, bit] or last
            assert data.y[point, t, bit] == last
    # 20·2·8 draws with probability 0.3: five standard errors.
    assert abs((data.x[:, 1:] != 0).mean() - 0.3) < 5 * np.sqrt(0.21 / 320)

    data = wf.datasets.delayed_match(20, delay=2, seed=1, stimuli=3)
    same = np.all(data.x[:, 0] == data.x[:, -1], axis=1)
    np.testing.assert_array_equal(data.y, np.where(same, 1, -1))
    assert data.y.sum() == 0
    assert np.all(data.x[:, 1:-1] == 0)

    data = wf.datasets.sine(4, frames=10, seed=1, periods=1.5)
    frequency = 1.5 * (1 + data.x[:, 0, 1] / 2)
    for t in range(10):
        np.testing.assert_allclose(data.y[:, t], np.sin(2 * np.pi * frequency * (t + 1) / 10))

    rows, flat = wf.datasets.digit_rows(points=4, seed=2), wf.datasets.digits(points=4, seed=2)
    np.testing.assert_array_equal(rows.x.reshape(4, 64), flat.x)


@pytest.mark.parametrize(
    ("make", "word"),
    [(lambda: wf.datasets.delayed_sum(3, delay=-1), "delay is -1"),
     (lambda: wf.datasets.flip_flop(3, 0), "frames is 0"),
     (lambda: wf.datasets.flip_flop(3, chance=2.0), "chance is 2.0"),
     (lambda: wf.datasets.delayed_match(3, stimuli=1), "stimuli is 1"),
     (lambda: wf.datasets.sine(3, periods=0.0), "periods is 0.0")],
)  # fmt: skip
def test_wrong_sizes_of_sequences_are_refused(make, word):
    with pytest.raises(InputError, match=word):
        make()
