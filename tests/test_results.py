import os
import re

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

import widefield as wf
from widefield.errors import InputError
from widefield.results.comparison import Deviation, _check_sizes
from widefield.results.estimate import Estimate
from widefield.results.overview import Pair, overview_curves, overview_kernels
from widefield.results.panels import final_kernel, save_picture
from widefield.results.result import Result, make_result


def several_outputs(problem):
    data = wf.datasets.sphere(4, 3, outputs=2)
    return wf.Problem(data, problem.network, problem.rule, problem.richness, problem.training)


# Summary


def test_summary_tells_the_problem_and_the_numbers(problem, fake_result):
    result = fake_result(problem, width=123)
    text = result.summary()
    assert repr(result) == text
    for part in ("simulate", "MLP, 2 hidden layers, tanh", "fa (rho 0.5)", "4 points, 2 test points", "3 steps of 0.1"):
        assert part in text
    for part in ("squared loss", "width 123", "seed 0", "loss", "Φ with yyᵀ, layer 2", "gradient cosine, layer 1", "±"):
        assert part in text
    assert all(len(line) <= 100 for line in text.splitlines())
    html = result._repr_html_()
    assert html.count("<table>") == html.count("</table>") == 2
    assert "MLP, 2 hidden layers, tanh" in html


def test_a_summary_line_by_line(problem):
    network, training = wf.MLP(2, "tanh", residual=True), wf.Training(3, 0.125, weight_decay=0.0625, momentum=2.0)
    asked = wf.Problem(problem.data, network, wf.rules.FA(0.5), 0.25, training)
    arrays = {
        "loss": np.array([[2.0, 1.0, 1.0, 0.5], [2.0, 1.0, 1.0, 0.7]]),
        "phi_alignment": np.tile([[[0.5, 0.25]]], (2, 4, 1)),
        "f": np.zeros((2, 4, 4, 1)),
        "f_test": np.zeros((2, 4, 2, 1)),
    }
    info = {"width": 123, "ranks": [1, 2], "engine": "dense", "error": 0.123456}
    result = make_result(asked, "simulate", arrays, steps=np.arange(4), seed=7, info=info)
    assert result.summary().splitlines() == [
        "widefield result, method simulate",
        "  network   MLP, 2 hidden layers, tanh (residual True)",
        "  rule      fa (rho 0.5)",
        "  richness  0.25",
        "  data      4 points, 2 test points, 1 output",
        "  training  3 steps of 0.125, squared loss (weight_decay 0.0625, momentum 2)",
        "  run       width 123, engine dense, error 0.1235, seed 7",
        "",
        "                                    start  end",
        "  loss                              2      0.60 ± 0.10",
        "  alignment of Φ with yyᵀ, layer 1  0.5    0.5",
        "  alignment of Φ with yyᵀ, layer 2  0.25   0.25",
    ]
    html = result._repr_html_()
    assert [row.count("<td") for row in html.split("<tr>")[1:]] == [2] * 6 + [0] + [3] * 3
    assert html.count("<th") == 3
    assert "<table></table>" in make_result(asked, "lazy", steps=np.arange(1))._repr_html_()


def test_a_summary_counts_outputs_and_names_the_last_frame(fake_result, problem):
    assert "4 points, 2 outputs" in fake_result(several_outputs(problem)).summary()
    data = wf.Dataset(np.zeros((2, 3, 1)), np.ones((2, 3)))
    asked = wf.Problem(data, wf.RNN(readout="every"), "gd", 1.0, wf.Training(1, 0.1))
    exact = {"phi_alignment": np.array([[[0.1, 0.2, 0.3]], [[0.4, 0.5, 0.6]]]),
             "gradient_cosine": np.arange(18.0).reshape(2, 1, 3, 3)}  # fmt: skip
    text = make_result(asked, "linear", exact=exact, steps=np.arange(2)).summary()
    assert "1 hidden layer, tanh" in text
    assert re.search(r"Φ with yyᵀ, last frame +0\.3 +0\.6$", text, re.MULTILINE)
    assert re.search(r"gradient cosine, last frame +8 +17$", text, re.MULTILINE)


def test_summary_works_where_the_rule_cannot_be_found_again(tmp_path, problem, fake_result):
    asked = wf.Problem(problem.data, wf.MLP(1, lambda h: h**2), "gd", 1.0, problem.training)
    fake_result(asked).save(tmp_path / "own.nc")
    back = wf.load(tmp_path / "own.nc")
    assert "<lambda>" in back.summary()
    assert "&lt;lambda&gt;" in back._repr_html_()
    assert isinstance(back.plot(), Figure)
    with pytest.raises(InputError, match="cannot be found by name"):
        _ = back.problem


def test_summary_of_a_result_that_holds_little(problem):
    result = make_result(problem, "lazy", exact={"f": np.zeros((4, 4, 1))}, steps=np.arange(4))
    assert "lazy" in result.summary()
    assert isinstance(result.plot(), Figure)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.01234, 0.00041, "0.01234 ± 0.00041"),
        (12.3, 1.5, "12.3 ± 1.5"),
        (1234.0, 56.0, "1234 ± 56"),
        (0.5, 0.0, "0.5"),
        (0.5, float("nan"), "0.5"),
        (3e-12, 1e-13, "3e-12 ± 1e-13"),
        (0.5, 1e-7, "0.50000000 ± 0.00000010"),
        (0.5, 1e-8, "0.5 ± 1e-08"),
        (0.123456, 1e-14, "0.1235"),
        (-0.5, 1e-13, "-0.5"),
        (0.0, 0.25, "0.00 ± 0.25"),
    ],
)
def test_numbers_are_shown_to_the_digit_their_error_allows(value, error, text):
    assert str(Estimate(value, error)) == text


def test_differences_and_ratios_carry_the_errors_of_both():
    """Against the spread of 10⁵ draws, whose own relative error is 0.2 %; 2 % are 9 of those."""
    rng = np.random.default_rng(0)
    a, b = Estimate(2.0, 0.03), Estimate(1.5, 0.02)
    left, right = (rng.normal(e.value, e.error, 10**5) for e in (a, b))
    assert (a - b) == (0.5, pytest.approx(np.std(left - right), rel=0.02))
    assert (a / b) == (pytest.approx(4 / 3), pytest.approx(np.std(left / right), rel=0.02))
    assert Estimate(0.0, 0.3) / Estimate(2.0, 0.1) == (0.0, pytest.approx(0.15))


# Comparison


def shifted(result: Result, name: str, by: float) -> Result:
    return Result(result.dataset.assign({name: result[name] + by}).assign_attrs(result.dataset.attrs))


def test_comparison_of_a_result_with_itself_is_zero(problem, fake_result):
    result = fake_result(problem)
    rows = wf.compare(result, result).deviations
    assert [row.variable for row in rows] == [n for n in result.dataset if not n.endswith("_se") and n != "h_final"]
    assert all(row.largest == row.rms == row.relative == row.largest_in_errors == 0 for row in rows)


def test_comparison_gives_the_deviation_that_was_put_in(problem, fake_result):
    result = fake_result(problem)
    row = next(r for r in wf.compare(shifted(result, "loss", 0.25), result).deviations if r.variable == "loss")
    assert row.largest == pytest.approx(0.25)
    assert row.rms == pytest.approx(0.25)
    assert row.relative == pytest.approx(0.25 / np.sqrt(np.mean(result["loss"] ** 2)))
    # Both carry the same standard error, so the combined one is √2 of it.
    assert row.largest_in_errors == pytest.approx(0.25 / (np.sqrt(2) * float(result["loss_se"].min())))
    assert row.rms_in_errors == pytest.approx(np.sqrt(np.mean((0.25 / (np.sqrt(2) * result["loss_se"].values)) ** 2)))


def test_comparison_without_errors_and_at_common_times_only(problem, fake_result):
    dense = fake_result(problem)
    sparse = Result(dense.dataset.isel(time=[0, 2]).drop_vars([n for n in dense.dataset if str(n).endswith("_se")]))
    rows = {row.variable: row for row in wf.compare(sparse, sparse).deviations}
    assert np.isnan(rows["loss"].largest_in_errors)
    assert {row.variable: row.largest for row in wf.compare(dense, sparse).deviations} == dict.fromkeys(rows, 0.0)


def test_results_on_different_data_cannot_be_compared(problem, fake_result):
    other = wf.Problem(wf.datasets.sphere(6, 3), problem.network, "gd", 1.0, problem.training)
    with pytest.raises(InputError, match="sample has 4 entries in a and 6"):
        wf.compare(fake_result(problem), fake_result(other))
    with pytest.raises(InputError, match="outputs"):
        wf.compare(fake_result(problem), fake_result(several_outputs(problem)))


def test_what_was_zero_has_no_relative_deviation(problem):
    def result(value):
        return make_result(problem, "linear", exact={"loss": np.full(4, value)}, steps=np.arange(4))

    relative = [wf.compare(result(a), result(b)).deviations[0].relative for a, b in ((0, 0), (2, 0), (3, 2))]
    assert relative == [0.0, float("inf"), 0.5]


def test_labels_of_one_alone_make_no_points_common():
    labelled = xr.Dataset({"f": ("sample", np.zeros(3))}, coords={"sample": [0, 1, 2]})
    plain = xr.Dataset({"f": ("sample", np.zeros(4))})
    for pair in ((labelled, plain), (plain, labelled)):
        with pytest.raises(InputError, match="sample has"):
            _check_sizes(*pair)


def test_results_that_share_nothing_cannot_be_compared(problem):
    def result(steps, **exact):
        return make_result(problem, "linear", exact=exact, steps=steps)

    with pytest.raises(InputError, match="no variable in common"):
        wf.compare(result(np.arange(4), loss=np.ones(4)), result(np.arange(4), accuracy=np.ones(4)))
    with pytest.raises(InputError, match="a and b share no time"):
        wf.compare(result(np.array([0, 1]), loss=np.ones(2)), result(np.array([2, 3]), loss=np.ones(2)))


def test_the_chance_of_all_is_the_least_likely_times_all_entries(problem):
    """p-values of SciPy, entry by entry; `accuracy` agrees, `loss` differs, and what is exact is not counted."""
    rng = np.random.default_rng(6)
    left, right = ({"loss": rng.normal(m, 0.1, (12, 4)), "accuracy": rng.normal(1, 0.1, (12, 4))} for m in (1, 1.1))
    p = {name: stats.ttest_ind(left[name], right[name], equal_var=False).pvalue for name in left}
    found = wf.compare(*(make_result(problem, "test", one, {"test_loss": np.ones(4)}, steps=np.arange(4))
                         for one in (left, right)))  # fmt: skip
    assert found.chance == pytest.approx(8 * p["loss"].min())
    chances = [row.chance for row in found.deviations]
    assert chances[:2] == pytest.approx([4 * p["loss"].min(), min(1, 4 * p["accuracy"].min())])
    assert np.isnan(chances[2])
    assert found.table.attrs["chance"] == found.chance
    np.testing.assert_array_equal(found.table["rms"], [row.rms for row in found.deviations])
    lines = repr(found).splitlines()
    assert [line[:24].strip() for line in lines] == ["variable", "loss", "accuracy", "test_loss"]
    assert {len(line) for line in lines} == {24 + 6 * 14}


def test_the_shift_of_finite_width_is_told_from_a_disagreement(problem):
    """`shift` is asked for 1/N_a − 1/N_b, at the times of both."""
    asked = []

    class Expansion:
        dataset = make_result(problem, "test", exact={"loss": np.ones(4)}, steps=np.arange(4)).dataset

        def shift(self, name, over):
            asked.append((name, over))
            return 40 * over * np.arange(4.0), np.zeros(4)

    rng = np.random.default_rng(7)

    def networks(width, mean):
        arrays = {name: mean + rng.normal(0, 0.01, (12, 2)) for name in ("loss", "accuracy")}
        return make_result(problem, "test", arrays, steps=np.array([1, 3]), info={"width": width})

    # 40·(1/10 − 1/40)·t is 3 and 9.
    found = wf.compare(networks(10, np.array([5.0, 11.0])), networks(40, 2.0), Expansion())
    assert asked == [("loss", pytest.approx(1 / 10 - 1 / 40))]
    assert [row.verdict for row in found.deviations] == ["finite-width shift", "differ"]
    assert found.headings[-2:] == ("after shift", "verdict")
    rows = found.rows()
    assert [row[0] for row in rows] == ["loss", "accuracy"]
    assert [row[-1] for row in rows] == ["finite-width shift", "differ"]
    assert rows[0][-2] == f"{found.deviations[0].after_shift:.3g}"
    assert rows[1][-2] == "–"
    assert {len(line) for line in repr(found).splitlines()} == {24 + 6 * 14 + 2 * 20}
    theory = make_result(problem, "test", exact={"loss": np.full(4, 2.0)}, steps=np.arange(4))
    wf.compare(networks(10, 2.0), theory, Expansion())
    wf.compare(theory, networks(10, 2.0), Expansion())
    assert [over for _, over in asked[1:]] == [0.1, -0.1]
    with pytest.raises(InputError, match="a and b say no width"):
        wf.compare(theory, theory, Expansion())


@pytest.mark.parametrize(
    ("chance", "after", "verdict"),
    [(np.nan, np.nan, "–"), (0.01, np.nan, "agree"), (0.009, 0.01, "finite-width shift"), (0.009, 0.009, "differ")],
)
def test_a_deviation_in_words(chance, after, verdict):
    assert Deviation("loss", 1, 1, 1, 1, 1, chance, after).verdict == verdict
    assert Deviation("loss", 1, 1, 1, 1, 1, 1e-9).verdict == "differ"


# Pictures


def test_pictures_are_drawn_and_use_no_global_state(tmp_path, problem, fake_result):
    import matplotlib.pyplot as plt

    a, b = fake_result(problem, width=10), fake_result(problem, seed=1, width=20)
    assert a.plot.loss()._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert wf.compare(a, b).plot()._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    more = fake_result(several_outputs(problem))
    assert len(wf.compare(more, more).plot().axes) >= 12
    assert more.plot().axes
    assert plt.get_fignums() == []


def test_plot_shows_the_numbers(problem, fake_result):
    result = fake_result(problem)
    figure = result.plot()
    loss, alignment, cosine = figure.axes[:3]
    np.testing.assert_array_equal(loss.lines[0].get_ydata(), result["loss"].values)
    np.testing.assert_array_equal(alignment.lines[0].get_ydata(), result["entk_alignment"].values)
    np.testing.assert_array_equal(alignment.lines[2].get_ydata(), result["phi_alignment"].sel(layer=2).values)
    np.testing.assert_array_equal(cosine.lines[1].get_ydata(), result["gradient_cosine"].sel(layer=2).values)
    kernels = [np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images]
    np.testing.assert_array_equal(kernels[0], result["entk"].isel(time=-1).values)
    np.testing.assert_array_equal(kernels[1], result["phi"].isel(time=-1).sel(layer=2).values)
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in (loss, alignment, cosine))
    assert loss.collections, "the error band is missing"


def test_comparison_shows_the_difference_of_the_kernels(problem, fake_result):
    a, b = fake_result(problem), fake_result(problem, seed=1)
    images = [np.asarray(axes.images[0].get_array()) for axes in wf.compare(a, b).plot().axes if axes.images]
    np.testing.assert_allclose(images[2], (a["entk"] - b["entk"]).isel(time=-1).values)


def test_comparison_shows_the_numbers(problem, fake_result):
    a, b = fake_result(problem), fake_result(problem, seed=1)
    shown = wf.compare(a, b).plot().get_supxlabel()
    for row in wf.compare(a, b).deviations:
        assert re.search(rf"{row.variable} +{re.escape(f'{row.largest:.3g}')} ", shown)


def test_overviews_hold_every_problem(problem, fake_result):
    pairs = {name: Pair(fake_result(problem, seed), fake_result(problem, seed + 9)) for seed, name in enumerate("AB")}
    curves, kernels = overview_curves(pairs), overview_kernels(pairs)
    assert len(curves.axes[0].lines) == 2 * 2 + 1
    assert sum(bool(axes.images) for axes in kernels.axes) == 2 * 4


def test_kernels_of_several_outputs_are_drawn_as_their_mean(problem, fake_result):
    result = fake_result(several_outputs(problem))
    both = result["g_tilde"].isel(time=-1, layer=-1)
    mean = (both.isel(output=0, output_=0) + both.isel(output=1, output_=1)) / 2
    np.testing.assert_allclose(final_kernel(result, "g_tilde"), mean.values)
    assert len(overview_curves({"one": Pair(result, result)}).axes[2].lines) == 2


def test_saving_a_picture_checks_the_ending(tmp_path, problem, fake_result):
    figure = fake_result(problem).plot.loss()
    for ending in ("pdf", "svg"):
        save_picture(figure, tmp_path / f"page.{ending}")
        assert (tmp_path / f"page.{ending}").stat().st_size > 1000
    with pytest.raises(InputError, match="png"):
        save_picture(figure, tmp_path / "page.doc")
    assert len(os.listdir(tmp_path)) == 2


def images_of(figure) -> list[np.ndarray]:
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images]


def test_each_picture_shows_its_numbers(problem, fake_result):
    result = fake_result(problem)
    (loss,) = result.plot.loss().axes
    np.testing.assert_array_equal(loss.lines[0].get_ydata(), result["loss"].values)
    np.testing.assert_array_equal(loss.lines[1].get_ydata(), result["test_loss"].values)
    assert loss.get_legend() is not None
    alignment, cosine = result.plot.alignments().axes
    np.testing.assert_array_equal(alignment.lines[1].get_ydata(), result["phi_alignment"].sel(layer=1).values)
    np.testing.assert_array_equal(cosine.lines[1].get_ydata(), result["gradient_cosine"].sel(layer=2).values)
    assert len(images_of(result.plot.kernels("g"))) == 2 * 4
    kernels = result.plot.kernels("g", times=2)
    assert [axes.get_title() for axes in kernels.axes[:4]] == ["time 0", "time 0.3", "", ""]
    shown = images_of(kernels)
    expected = [result["g"].sel(layer=layer).isel(time=t).values for layer in (1, 2) for t in (0, -1)]
    np.testing.assert_array_equal(shown, expected)
    (first, last) = images_of(result.plot.kernels("entk", times=2))
    np.testing.assert_array_equal([first, last], result["entk"].isel(time=[0, -1]).values)
    for axes, layer in zip(result.plot.densities().axes, (1, 2), strict=True):
        h, density = axes.lines[0].get_data()
        assert abs(np.sum(density) * (h[1] - h[0]) - 1) < 1e-9
        values = result["h_final"].sel(layer=layer).values
        assert values.min() <= h[0] <= h[-1] <= values.max()
    other = fake_result(problem, seed=1)
    assert result.plot.comparison(other).get_supxlabel() == wf.compare(result, other).plot().get_supxlabel()


def test_rows_of_kernels_are_labelled_at_their_left(problem, fake_result):
    axes = fake_result(problem).plot.kernels("phi", times=3).axes
    labels = [one.get_ylabel() for one in axes if one.images]
    assert all(bool(label) == (k % 3 == 0) for k, label in enumerate(labels))
    assert any(labels)


def test_a_picture_of_what_is_not_there_says_so(problem, fake_result):
    result = fake_result(problem)
    for draw in (result.plot.kernels, result.plot.movie):
        with pytest.raises(InputError, match="name is 'loss'; allowed: one of entk, phi, g, g_tilde, g_tilde_tilde"):
            draw("loss")
    with pytest.raises(InputError, match="times is 0"):
        result.plot.kernels(times=0)
    outputs = wf.Result.from_arrays(problem, {"f": result["f"].values})
    for draw in (outputs.plot.alignments, outputs.plot.densities, outputs.plot.kernels):
        with pytest.raises(InputError, match="the result"):
            draw()
