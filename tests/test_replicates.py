"""Results keep their replicates: means and errors derive from them, and a user's own arrays become a result."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

import widefield as wf
from widefield.errors import InputError
from widefield.results.result import make_result
from widefield.results.statistics import Moments, exactly, in_errors, moments_of, welch


@pytest.fixture(scope="module")
def trained():
    data = wf.datasets.sphere(points=4, dimension=3, seed=1, test_points=2)
    problem = wf.Problem(data, wf.MLP(2, "tanh"), "gd", 1.0, wf.Training(3, 0.1))
    return wf.simulate(problem, 40, seeds=3, neurons=5, progress=False)


def test_mean_and_error_are_those_of_the_replicates(trained):
    runs = trained.replicates
    assert runs.sizes["seed"] == 3
    for name, values in runs.data_vars.items():
        assert "seed" in values.dims
        if name == "h_final":
            continue
        np.testing.assert_allclose(trained[name], values.mean("seed"), rtol=1e-13, atol=1e-15)
        se = values.std("seed", ddof=1) / np.sqrt(3)
        np.testing.assert_allclose(trained[f"{name}_se"], se, rtol=1e-9, atol=1e-14)
    assert not np.allclose(runs["phi"][0], runs["phi"][1])
    np.testing.assert_allclose(runs["loss"], 0.5 * (runs["delta"] ** 2).sum("sample"))


def test_neurons_of_all_networks_are_pooled(trained):
    single = trained.replicates["h_final"]
    assert single.dims == ("seed", "layer", "sample", "neuron")
    pooled = trained["h_final"]
    assert pooled.dims == ("layer", "sample", "neuron")
    for seed in range(3):
        np.testing.assert_array_equal(pooled[..., 5 * seed : 5 * seed + 5], single[seed])
    assert "h_final_se" not in trained


def test_labels_are_views_of_the_arrays(problem):
    kernels = np.random.default_rng(0).uniform(size=(5, 4, 2, 4, 4))
    result = make_result(problem, "test", {"phi": kernels}, steps=np.arange(4))
    assert np.shares_memory(result.replicates["phi"].values, kernels)


def test_a_single_run_has_no_error_and_an_exact_solution_is_one_replicate(problem):
    one = make_result(problem, "simulate", {"loss": np.ones((1, 4))}, steps=np.arange(4))
    assert "loss_se" not in one
    exact = make_result(problem, "linear", exact={"loss": np.arange(4.0)}, steps=np.arange(4))
    assert exact.replicates["loss"].dims == ("seed", "time")
    np.testing.assert_array_equal(exact.replicates["loss"].values, [np.arange(4.0)])


def test_means_alone_have_no_replicates(trained):
    with pytest.raises(InputError, match="means and standard errors only"):
        _ = wf.Result(trained.dataset).replicates


# A user's own arrays


def own_arrays(trained, networks=True):
    names = ("f", "f_test", "phi", "entk", "g", "g_tilde", "g_tilde_tilde", "h_final")
    runs = trained.replicates if networks else trained.replicates.isel(seed=0)
    return {name: runs[name].values for name in names}


def test_own_arrays_give_the_result_they_came_from(trained, tmp_path):
    own = wf.Result.from_arrays(trained.problem, own_arrays(trained), steps=[0, 1, 2, 3])
    assert set(own.dataset) == set(trained.dataset)
    for name in trained.dataset:
        np.testing.assert_allclose(own[name], trained[name], rtol=1e-12, atol=1e-14)
    assert "your own arrays" in own.summary()
    assert isinstance(own.plot(), Figure)
    own.save(tmp_path / "own.nc")
    xr.testing.assert_identical(wf.load(tmp_path / "own.nc").replicates, own.replicates)
    assert wf.compare(own, trained).chance == 1


def test_own_arrays_of_one_network_or_several_outputs(trained):
    one = wf.Result.from_arrays(trained.problem, own_arrays(trained, networks=False))
    assert "loss_se" not in one
    np.testing.assert_allclose(one["loss"], trained.replicates["loss"][0])
    data = wf.datasets.sphere(4, 3, outputs=2)
    problem = wf.Problem(data, wf.MLP(1, "tanh"), "gd", 1.0, wf.Training(3, 0.1))
    f = np.random.default_rng(0).normal(size=(6, 2, 4, 2))
    several = wf.Result.from_arrays(problem, {"f": f}, steps=[0, 3])
    expected = 0.5 * np.sum((f - data.y) ** 2, axis=(2, 3))
    np.testing.assert_allclose(several.replicates["loss"], expected)
    np.testing.assert_allclose(several["time"], [0, 0.3])


@pytest.mark.parametrize(
    ("arrays", "steps", "says"),
    [
        ({"f": np.zeros((3, 4))}, None, r"f has shape \(3, 4\); allowed: \(time 4, sample 4\).*networks"),
        ({"f": np.zeros((2, 2, 4, 4))}, None, r"f has shape \(2, 2, 4, 4\)"),
        ({"phi": np.zeros((4, 3, 4, 4))}, None, r"phi has shape.*layer 2"),
        ({"f_test": np.zeros((4, 3))}, None, r"f_test has shape.*test_sample 2"),
        ({"f": np.zeros((0, 4, 4))}, None, r"f has shape"),
        ({"f": np.zeros((2, 4, 4)), "loss": np.zeros(4)}, None, "f has an axis over networks in front and loss has"),
        ({"f": np.zeros((2, 4, 4)), "loss": np.zeros((3, 4))}, None, "the same number"),
        ({"f": np.full((4, 4), np.nan)}, None, "f is 'not finite"),
        ({"f": np.zeros((4, 4), complex)}, None, "f is 'of type complex128'"),
        ({"f": np.full((4, 4), "a")}, None, "f is 'of type"),
        ({"f": None}, None, "f is 'of type object'"),
        ({"f": np.ma.masked_all((4, 4))}, None, "masked"),
        ({"speed": np.zeros(4)}, None, "names from entk, phi"),
        ({3: np.zeros(4)}, None, "names from entk, phi"),
        ({}, None, "one or more"),
        (None, None, "a dictionary"),
        ({"f": np.zeros((2, 4))}, [1, 0], "increasing"),
        ({"f": np.zeros((2, 4))}, [-1, 0], "0 or more"),
        ({"f": np.zeros((2, 4))}, "often", "steps is"),
        ({"f": np.zeros((2, 4))}, [], "training steps"),
        ({"f": np.zeros((2, 4))}, [0, np.inf], "steps is"),
    ],
)
def test_own_arrays_that_do_not_fit_are_named(problem, arrays, steps, says):
    with pytest.raises(InputError, match=says):
        wf.Result.from_arrays(problem, arrays, steps)


def test_own_arrays_of_responses_and_of_recurrent_networks_have_their_sizes(problem):
    """Responses belong to the L − 1 layers below the last; of a recurrent network every frame may be read."""
    own = wf.Result.from_arrays(problem, {"response_a": np.ones((1, 3, 3, 4, 4))})
    assert own["response_a"].dims == ("inner_layer", "step", "step_", "sample", "sample_")
    with pytest.raises(InputError, match="inner_layer 1"):
        wf.Result.from_arrays(problem, {"response_a": np.ones((2, 3, 3, 4, 4))})
    data = wf.Dataset(np.zeros((2, 3, 1)), np.ones((2, 3)))
    recurrent = wf.Problem(data, wf.RNN(readout="every"), "gd", 1.0, wf.Training(1, 0.1))
    shapes = {"f": (2, 2, 3), "phi": (2, 1, 2, 2, 3, 3), "g": (2, 1, 2, 2, 3, 3, 3, 3)}
    own = wf.Result.from_arrays(recurrent, {name: np.ones(shape) for name, shape in shapes.items()})
    assert own["g"].dims[-4:] == ("frame", "frame_", "read", "read_")
    for name, shape in shapes.items():
        assert own[name].shape == shape
        with pytest.raises(InputError, match=f"{name} has shape"):
            wf.Result.from_arrays(recurrent, {name: np.ones((*shape[:-1], 4))})


def test_own_arrays_say_how_many_networks_they_are_of(problem):
    several = wf.Result.from_arrays(problem, {"loss": np.random.default_rng(0).uniform(size=(5, 4))})
    assert several.info["seeds"] == 5
    assert several.moments("loss").freedom == 4
    assert wf.Result.from_arrays(problem, {"loss": np.ones(4)}).info["seeds"] == 1


# Dissimilarities


def test_dissimilarities_are_squared_distances_between_activities(problem):
    """Of kernels made from activities φ (networks, times, layers, points, neurons)."""
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(5, 4, 2, 4, 30))
    kernels = np.einsum("...in,...jn->...ij", phi, phi) / 30
    result = make_result(problem, "test", {"phi": kernels}, steps=np.arange(4))
    expected = np.mean((phi[..., :, None, :] - phi[..., None, :, :]) ** 2, axis=-1)
    found = result.rdm("phi", layer=2)
    assert found["rdm"].dims == ("time", "sample", "sample_")
    np.testing.assert_allclose(found["rdm"], expected[:, :, 1].mean(0), atol=1e-12)
    se = expected[:, :, 1].std(0, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(found["rdm_se"], se, atol=1e-12)
    everywhere = result.rdm("phi")
    assert everywhere["rdm"].dims == ("time", "layer", "sample", "sample_")
    np.testing.assert_allclose(everywhere["rdm"], expected.mean(0), atol=1e-12)
    assert np.all(np.einsum("tlii->tli", everywhere["rdm"].values) == 0)


def test_dissimilarities_without_replicates_have_no_error(problem, trained):
    assert set(wf.Result(trained.dataset).rdm("g", layer=1).data_vars) == {"rdm"}
    np.testing.assert_allclose(wf.Result(trained.dataset).rdm("g")["rdm"], trained.rdm("g")["rdm"], atol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("entk",), "name is 'entk'; allowed: a kernel of one field, phi"),
        ((None,), "name is None"),
        (("g_tilde_tilde",), "does not hold; it has phi"),
        (("phi", 0), "layer is 0; allowed: one of 1, 2"),
        (("phi", 3), "layer is 3"),
        (("phi", True), "layer is True"),
        (("phi", "2"), "layer is '2'"),
    ],
)
def test_dissimilarities_that_cannot_be_are_refused(problem, arguments, says):
    result = make_result(problem, "test", {"phi": np.ones((2, 4, 2, 4, 4))}, steps=np.arange(4))
    with pytest.raises(InputError, match=says):
        result.rdm(*arguments)


# Comparison


def of_runs(problem, **arrays):
    return make_result(problem, "test", arrays, steps=np.arange(4))


def test_welch_is_that_of_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, (12, 30)), rng.normal(1, 2, (20, 30))
    p = stats.ttest_ind(a, b, equal_var=False).pvalue
    found = welch(moments_of(a), moments_of(b))
    assert found.smallest == pytest.approx(p.min())
    assert found.entries == 30
    assert found.chance == pytest.approx(30 * p.min())
    few = exactly(np.zeros(30))
    assert welch(moments_of(a[:3]), few).smallest == pytest.approx(stats.ttest_1samp(a[:3], 0).pvalue.min())


def test_with_fewer_than_twelve_runs_the_smaller_freedom_is_taken():
    """Student's t of 11 runs has 10 degrees of freedom; of 12 and more Welch's own."""
    rng = np.random.default_rng(3)
    b = rng.normal(1, 1, (30, 1))
    for count in (11, 12):
        a = rng.normal(0, 1, (count, 1))
        t = (a.mean() - b.mean()) / np.sqrt(a.var(ddof=1) / count + b.var(ddof=1) / 30)
        few = 2 * stats.t.sf(abs(t), 10)
        expected = few if count == 11 else stats.ttest_ind(a, b, equal_var=False).pvalue[0]
        assert welch(moments_of(a), moments_of(b)).smallest == pytest.approx(expected)


def test_deviations_in_standard_errors_by_hand():
    """(a − b)/√(se_a² + se_b²); equal constants are left out, different ones count as infinite."""
    a, b = (Moments(np.array(m), np.array(e), 5) for m, e in (([1.0, 7.0, 2.0], [0.3, 0.0, 0.0]),
                                                              ([2.0, 7.0, 3.0], [0.4, 0.0, 0.0])))  # fmt: skip
    np.testing.assert_allclose(in_errors(a, b), [2.0, np.inf])
    assert welch(a, b) == (0.0, 1)
    constant = Moments(np.ones(3), np.zeros(3), 5)
    assert welch(constant, constant) == (1.0, 0)  # nothing was tested
    # Errors below 1e-10 of the largest value are rounding, gaps below 1e-9 of it are none.
    scale, error = np.array([100.0, 1.0]), np.array([1e-9, 1e-9])
    for gap, deviates in ((5e-8, False), (2e-7, True)):
        found = in_errors(Moments(scale, error, 5), Moments(scale + np.array([0, gap]), error, 5))
        assert (found.size > 0) == deviates
    assert in_errors(Moments(scale, 20 * error, 5), Moments(scale + np.array([0, 1e-7]), error, 5)).max() < 10


@pytest.mark.parametrize("runs", [(3, 5), (12, 20)])
def test_chance_is_no_smaller_than_it_may_be(runs):
    """Of 2000 comparisons of equal means, 4 entries each, a share α or less has a chance below α.

    4 standard errors above α come once in 3·10⁴ such tests, of which there are six.
    """
    rng = np.random.default_rng(1)
    found = []
    for _ in range(2000):
        a, b = (moments_of(rng.normal(1, s, (n, 4))) for n, s in zip(runs, (1, 0.2), strict=True))
        found.append(welch(a, b).chance)
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(found) < level) < level + 4 * np.sqrt(level * (1 - level) / 2000)
    assert np.mean(np.array(found) < 0.5) > 0.15  # a bound, yet not an empty one


def test_chance_sees_what_differs(problem):
    rng = np.random.default_rng(2)
    a = of_runs(problem, loss=rng.normal(1, 0.1, (8, 4)))
    b = of_runs(problem, loss=rng.normal(1.5, 0.1, (8, 4)))
    found = wf.compare(a, b)
    assert found.chance < 1e-4
    row = found.table.sel(variable="loss")
    assert float(row["largest"]) == pytest.approx(0.5, abs=0.2)
    assert float(row["chance"]) == found.chance
    assert repr(found).splitlines()[0].split() == [
        "variable",
        "largest",
        "rms",
        "relative",
        "largest/s.e.",
        "rms/s.e.",
        "chance",
    ]
    exact = make_result(problem, "linear", exact={"loss": np.ones(4)}, steps=np.arange(4))
    assert wf.compare(a, exact).chance > 1e-3
    assert wf.compare(b, exact).chance < 1e-4


def test_no_chance_is_given_without_errors(problem):
    runs = np.random.default_rng(3).normal(1, 0.1, (8, 4))
    many, one = of_runs(problem, loss=runs), of_runs(problem, loss=runs[:1])
    exact = make_result(problem, "linear", exact={"loss": np.ones(4)}, steps=np.arange(4))
    other = make_result(problem, "linear", exact={"loss": np.full(4, 2.0)}, steps=np.arange(4))
    for a, b in ((many, one), (one, many), (one, one), (exact, exact), (exact, other), (one, exact)):
        found = wf.compare(a, b)
        assert np.isnan(found.chance)
        assert np.isnan(found.deviations[0].largest_in_errors)
        assert "–" in repr(found)


def test_entries_that_never_vary_must_agree(problem):
    runs = np.random.default_rng(4).normal(1, 0.1, (8, 4))
    runs[:, 0] = 0.5
    other = np.random.default_rng(5).normal(1, 0.1, (8, 4))
    other[:, 0] = 0.5
    assert wf.compare(of_runs(problem, loss=runs), of_runs(problem, loss=other)).chance > 1e-3
    other[:, 0] = 0.5001
    assert wf.compare(of_runs(problem, loss=runs), of_runs(problem, loss=other)).chance == 0


def test_times_may_differ_by_rounding(problem):
    a = make_result(problem, "lazy", exact={"loss": np.arange(4.0)}, steps=np.array([0, 1, 2, 3]))
    b = make_result(problem, "lazy", exact={"loss": np.array([0.0, 5.0])}, steps=np.array([0, 3 * (1 + 1e-15)]))
    assert float(a["time"][3]) != float(b["time"][1])
    assert wf.compare(a, b).deviations[0].largest == 2


def test_only_results_are_compared(trained):
    with pytest.raises(InputError, match=r"b is 'Dataset'; allowed: a widefield\.Result"):
        wf.compare(trained, trained.dataset)
