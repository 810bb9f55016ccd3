"""Observations: unbiased kernels with the right errors from few neurons and noisy trials, files, and rsatoolbox."""

from __future__ import annotations

import numpy as np
import pytest

import widefield as wf
from widefield.errors import InputError, ResultFileError
from widefield.identification.covariance import noise_covariance
from widefield.measurement.kernels import dissimilarity_map, noise_variance, pairs_of, products

RNG = np.random.default_rng(0)
PATTERN = np.array([0.8, -0.5, 0.3])  # one neuron's responses to three stimuli
PAIRS = pairs_of("kernel", 3)


def noisy(count: int, trials: int, variance: float, seed: int) -> np.ndarray:
    """`count` neurons with the same responses and independent noise, (1, stimulus, neuron, trial)."""
    noise = np.random.default_rng(seed).standard_normal((1, 3, count, trials))
    return PATTERN[None, :, None, None] + np.sqrt(variance) * noise


@pytest.mark.parametrize("trials", [2, 3, 8])
def test_products_of_different_trials_are_unbiased(trials):
    single = products(noisy(50_000, trials, 1.5, trials), *PAIRS)[0]
    error = single.std(-1, ddof=1) / np.sqrt(single.shape[-1])
    truth = PATTERN[PAIRS[0]] * PATTERN[PAIRS[1]]
    # 18 entries in all: a deviation of 5 standard errors has a chance of 1e-5.
    assert np.all(np.abs(single.mean(-1) - truth) < 5 * error)
    # Products within a trial would be too large by the noise over the number of trials.
    naive = (noisy(50_000, trials, 1.5, trials).mean(-1) ** 2).mean(-1)[0] - PATTERN**2
    assert np.all(naive > 0.5 * 1.5 / trials)


def test_covariance_of_trial_noise_is_that_of_simulated_trials():
    noise = np.array([0.5, 1.0, 1.5])
    fresh = np.random.default_rng(3).standard_normal((1, 3, 200_000, 3))
    activity = PATTERN[None, :, None, None] + np.sqrt(noise)[None, :, None, None] * fresh
    found = np.cov(products(activity, *PAIRS)[0])
    expected = noise_covariance(np.outer(PATTERN, PATTERN), noise, 3, "kernel")
    # Errors of a covariance from 200 000 draws with fourth moments of products: below 1 % of the diagonal, five times.
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.all(np.abs(found - expected) < 0.05 * scale)
    change = dissimilarity_map(3)
    np.testing.assert_allclose(
        noise_covariance(np.outer(PATTERN, PATTERN), noise, 3, "rdm"), change @ expected @ change.T, atol=1e-12
    )


def test_kernels_of_few_neurons_are_unbiased_and_their_errors_right():
    rng = np.random.default_rng(4)
    root = np.linalg.cholesky(np.array([[1.0, 0.3, 0.1], [0.3, 0.8, -0.2], [0.1, -0.2, 1.2]]))
    values, errors = [], []
    for _ in range(400):
        activity = (root @ rng.standard_normal((3, 5)))[None, None, :, :, None] + rng.standard_normal((1, 1, 3, 5, 2))
        seen = wf.observe(activity, [0])
        values.append(seen.values.ravel())
        errors.append(seen.standard_errors("kernel").ravel())
    values, errors = np.array(values), np.array(errors)
    spread = values.std(0, ddof=1)
    truth = (root @ root.T)[PAIRS]
    # Six entries, 5 standard errors: 1 in 300 000.
    assert np.all(np.abs(values.mean(0) - truth) < 5 * spread / np.sqrt(400))
    # Squared standard errors are unbiased; over 400 recordings their mean is known to about 8 %.
    np.testing.assert_allclose(np.sqrt(np.mean(errors**2, 0)), spread, rtol=0.3)


def test_activity_without_trials_is_taken_as_it_is():
    activity = RNG.standard_normal((2, 3, 4, 7))  # stage, layer, stimulus, neuron
    seen = wf.observe(activity, [0, 5])
    expected = np.einsum("slin,sljn->slij", activity, activity) / 7
    np.testing.assert_allclose(seen.dataset["phi"].values, expected, atol=1e-12)
    assert seen.neurons == (7, 7, 7)
    assert seen.trials is None
    rdm = ((activity[:, :, :, None] - activity[:, :, None]) ** 2).mean(-1)
    np.testing.assert_allclose(seen.rdm()["rdm"].values, rdm, atol=1e-12)
    assert "3 stages" not in seen.summary()
    assert "7 neurons" in seen.summary()


def test_noise_variance_is_that_of_the_trials():
    assert abs(float(noise_variance(noisy(20_000, 4, 1.5, 9)).mean()) - 1.5) < 0.02


def test_layers_of_different_sizes_and_labels():
    seen = wf.observe({1: RNG.standard_normal((2, 3, 5)), -1: RNG.standard_normal((2, 3, 9))}, [0, 5])
    assert seen.layers == (1, -1)
    assert seen.neurons == (5, 9)


def test_observations_survive_a_file(tmp_path):
    seen = wf.observe(RNG.standard_normal((2, 2, 3, 6, 4)), [0, 7.5])
    seen.save(tmp_path / "seen.nc")
    again = wf.Observation.load(tmp_path / "seen.nc")
    np.testing.assert_array_equal(again.values, seen.values)
    np.testing.assert_array_equal(again.noise, seen.noise)
    assert (again.layers, again.neurons, again.trials) == (seen.layers, seen.neurons, seen.trials)
    kernels = wf.Observation.from_kernels(seen.matrices * 0 + np.eye(3), [0, 7.5], neurons=[30, 40])
    kernels.save(tmp_path / "kernels.nc")
    again = wf.Observation.load(tmp_path / "kernels.nc")
    assert again.neurons == (30, 40)
    np.testing.assert_array_equal(again.matrices, kernels.matrices)
    (tmp_path / "other.nc").write_bytes(b"nothing")
    with pytest.raises(ResultFileError, match=r"other\.nc"):
        wf.Observation.load(tmp_path / "other.nc")


@pytest.mark.parametrize(
    ("activations", "steps", "words"),
    [
        (np.zeros((2, 3, 4)), [0, 1], ["activations", "(2, 3, 4)", "trial"]),
        (np.full((1, 1, 2, 3), np.nan), [0], ["activations", "nan"]),
        (np.zeros((1, 1, 2, 3, 1)), [0], ["trials is 1", "2 or more"]),
        (np.zeros((1, 1, 2, 1)), [0], ["neurons is 1"]),
        (np.zeros((2, 1, 2, 3)), [0], ["steps", "2 training steps"]),
        (np.zeros((2, 1, 2, 3)), [5, 0], ["steps", "increasing"]),
        ({1: np.zeros((2, 2, 3)), 2: np.zeros((2, 4, 3))}, [0, 1], ["same stages, stimuli"]),
        ({0: np.zeros((2, 2, 3))}, [0, 1], ["layers", "from the output"]),
        ("text", [0], ["activations"]),
    ],
)
def test_wrong_activity_is_refused(activations, steps, words):
    with pytest.raises(InputError) as caught:
        wf.observe(activations, steps)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_wrong_kernels_are_refused():
    with pytest.raises(InputError, match=r"positive semidefinite at stage 0, layer index 0 .*wf\.observe"):
        wf.Observation.from_kernels([[[[1.0, 2.0], [2.0, 1.0]]]], [0])
    with pytest.raises(InputError, match="not symmetric"):
        wf.Observation.from_kernels([[[[1.0, 0.2], [0.1, 1.0]]]], [0])
    with pytest.raises(InputError, match="stage, layer, stimulus, stimulus"):
        wf.Observation.from_kernels(np.eye(2), [0])
    with pytest.raises(InputError, match="from which kernels do not follow"):
        wf.Observation(np.ones((1, 1, 1)), "rdm", np.zeros(1), (1,), 2).features("kernel")


def test_kernels_of_a_network_become_an_observation(problem, fake_result, tmp_path):
    phi = np.broadcast_to(np.eye(4), (4, 2, 4, 4))
    result = wf.Result.from_arrays(problem, {"phi": phi})
    seen = wf.Observation.from_result(result, steps=[0, 3], layers=[-1])
    assert seen.values.shape == (1, 2, 10)
    assert seen.neurons is None
    result.save(tmp_path / "network.nc")
    assert wf.Observation.load(tmp_path / "network.nc").stages == 4
    back = wf.Observation.from_result(result).result(problem)
    np.testing.assert_allclose(back["phi"].values, phi)
    with pytest.raises(InputError, match="one network"):
        wf.Observation.from_result(fake_result(problem))
    with pytest.raises(InputError, match="recorded steps"):
        wf.Observation.from_result(result, steps=[9])


def test_dissimilarities_are_those_of_rsatoolbox(problem):
    """On a dense network's activity, to rounding; and back."""
    rsatoolbox = pytest.importorskip("rsatoolbox")
    width, data = 30, problem.data
    h = np.zeros((4, 2, 4, 2, width))  # time, layer, sample, seed, neuron
    for seed, time in np.ndindex(2, 4):
        first, second = RNG.standard_normal((width, 3)), RNG.standard_normal((width, width))
        h[time, 0, :, seed] = data.x @ first.T / np.sqrt(3)
        h[time, 1, :, seed] = np.tanh(h[time, 0, :, seed]) @ second.T / np.sqrt(width)
    phi = np.einsum("tlpsn,tlqsn->stlpq", np.tanh(h), np.tanh(h)) / width
    nets = wf.Result.from_arrays(problem, {"phi": phi})
    rdms = wf.rsa.to_rdms(nets)
    assert rdms.n_rdm == 2 * 4 * 2
    vectors = rdms.get_vectors()
    for row, (seed, time, layer) in enumerate(np.ndindex(2, 4, 2)):
        assert rdms.rdm_descriptors["seed"][row] == seed
        assert rdms.rdm_descriptors["layer"][row] == layer + 1
        assert abs(rdms.rdm_descriptors["step"][row] - time) < 1e-9
        theirs = rsatoolbox.rdm.calc_rdm(rsatoolbox.data.Dataset(np.tanh(h[time, layer, :, seed])), method="euclidean")
        np.testing.assert_allclose(vectors[row], theirs.get_vectors()[0], rtol=1e-10, atol=1e-12)
    assert rdms.rdm_descriptors["rule"][0] == "fa"
    one = wf.Observation.from_result(wf.Result(nets.replicates.isel(seed=[0]), problem))
    back = wf.rsa.from_rdms(wf.rsa.to_rdms(one), neurons=width)
    np.testing.assert_allclose(back.values, one.features("rdm"))
    assert back.neurons == (width, width)
    np.testing.assert_allclose(back.values[1, 3], vectors[7], atol=1e-12)
    with pytest.raises(InputError, match="one RDM for every layer"):
        wf.rsa.from_rdms(wf.rsa.to_rdms(nets))
    with pytest.raises(InputError, match="no descriptor step"):
        wf.rsa.from_rdms(rsatoolbox.rdm.RDMs(np.ones((1, 6))))
