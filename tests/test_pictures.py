"""What pictures say: curves, colours, scales, labels and titles, from results whose numbers are known."""

from __future__ import annotations

import os

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import widefield as wf
from widefield.errors import InputError
from widefield.results.overview import Pair, overview_curves, overview_kernels
from widefield.results.panels import COLOURS, draw_curve, draw_density, finish_curves, grid, limit_of
from widefield.results.pictures import evenly, thumbnail
from widefield.results.result import Result, make_result


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def images_of(figure) -> list:
    return [axes.images[0] for axes in figure.axes if axes.images]


def one_layer(problem, **exact) -> Result:
    """A result of a single hidden layer and step that holds nothing but these arrays."""
    asked = wf.Problem(problem.data, wf.MLP(1, "tanh"), "gd", 1.0, wf.Training(1, 0.1))
    return make_result(asked, "linear", exact=exact, steps=np.arange(2))


# Curves


def test_curves_are_named_and_told_apart(problem, fake_result):
    loss, alignment, cosine = fake_result(problem).plot().axes[:3]
    assert legend(loss) == ["training", "test"]
    assert [line.get_linestyle() for line in loss.lines] == ["-", ":"]
    assert {line.get_color() for line in loss.lines} == {COLOURS[0]}
    assert legend(alignment) == ["$K$", r"$\Phi^{1}$", r"$\Phi^{2}$"]
    assert [line.get_color() for line in alignment.lines] == list(COLOURS[:3])
    assert legend(cosine) == [r"$\ell=1$", r"$\ell=2$"]
    assert [line.get_color() for line in cosine.lines] == list(COLOURS[:2])
    assert {line.get_linestyle() for line in (*alignment.lines, *cosine.lines)} == {"-"}
    assert alignment.get_ylabel() == r"alignment with $yy^\top$"


def test_two_results_have_a_colour_each_and_layers_a_style(problem, fake_result):
    a, b = fake_result(problem), fake_result(problem, seed=1, width=20)
    figure = wf.compare(a, b).plot()
    loss, alignment, cosine = figure.axes[:3]
    assert legend(loss) == ["simulate", "simulate test", "simulate, width 20", "simulate, width 20 test"]
    assert [line.get_color() for line in loss.lines] == [COLOURS[0]] * 2 + [COLOURS[1]] * 2
    assert legend(alignment) == ["$K$", r"$\Phi^{1}$", r"$\Phi^{2}$"]
    assert [line.get_linestyle() for line in alignment.lines] == ["-", "--", ":"] * 2
    assert [line.get_color() for line in alignment.lines] == [COLOURS[0]] * 3 + [COLOURS[1]] * 3
    assert [line.get_linestyle() for line in cosine.lines] == ["--", ":"] * 2
    np.testing.assert_array_equal(cosine.lines[3].get_ydata(), b["gradient_cosine"].sel(layer=2))
    assert figure.get_supxlabel().splitlines()[1] == "simulate − simulate, width 20"


def test_results_of_one_method_are_called_a_and_b(problem, fake_result):
    result = fake_result(problem)
    figure = wf.compare(result, result).plot()
    assert figure.get_supxlabel().splitlines()[1] == "A: simulate − B: simulate"
    assert [axes.get_title() for axes in figure.axes[3:6]] == [
        "final $K$, A: simulate", "final $K$, B: simulate", "difference of $K$",
    ]  # fmt: skip


def test_titles_name_the_method_and_the_width(problem, fake_result):
    assert fake_result(problem).plot().get_suptitle() == "simulate"
    assert fake_result(problem, width=123).plot.loss().get_suptitle() == "simulate, width 123"
    assert fake_result(problem, width=5).plot.kernels().get_suptitle() == "simulate, width 5"


def test_bands_are_two_standard_errors(problem, fake_result):
    result = fake_result(problem)
    axes = Figure().subplots()
    draw_curve(axes, result, "loss")
    [band] = axes.collections
    corners = {(round(x, 9), round(y, 9)) for x, y in band.get_paths()[0].vertices}
    value, error, time = (result[name].values for name in ("loss", "loss_se", "time"))
    for sign in (-2, 2):
        assert {(round(t, 9), round(y, 9)) for t, y in zip(time, value + sign * error, strict=True)} <= corners
    exact = make_result(problem, "linear", exact={"loss": np.arange(4.0)}, steps=np.arange(4))
    axes = Figure().subplots()
    draw_curve(axes, exact, "loss")
    assert not axes.collections


def test_losses_are_on_a_logarithmic_scale_where_they_can_be():
    for values, scale in (([4.0, 0.5, 2.0], "log"), ([1.0, 0.0, 2.0], "linear")):
        axes = Figure().subplots()
        axes.plot([0, 1, 2], values)
        axes.plot([], [], label="theory")
        finish_curves(axes, "loss", log=True)
        assert axes.get_yscale() == scale
    axes = Figure().subplots()
    axes.plot([0, 1], [4.0, 0.5])
    finish_curves(axes, "loss", log=True)
    assert axes.get_ylim()[0] == pytest.approx(0.25)
    assert axes.get_legend() is None
    finish_curves(axes, "loss")
    assert axes.get_xlabel() == "training time (steps × dt)"


def test_a_result_without_a_loss_shows_outputs_and_one_without_anything_says_so(problem):
    f = np.arange(8.0).reshape(2, 4, 1)
    [axes] = one_layer(problem, f=f).plot().axes
    np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], f[:, :, 0].T)
    assert axes.get_ylabel() == r"outputs $f_\mu$"
    assert all(line.get_linewidth() > 0 and line.get_color() == COLOURS[0] for line in axes.lines)
    nothing = one_layer(problem, h_final=np.zeros((1, 4, 3)))
    with pytest.raises(InputError, match="nothing that can be drawn"):
        nothing.plot()
    assert thumbnail(nothing) is None
    assert "<img" not in nothing._repr_html_()
    with pytest.raises(InputError, match="nothing in common that can be drawn"):
        wf.compare(one_layer(problem, f=f), one_layer(problem, f=f)).plot()


def test_the_picture_in_a_notebook_is_small(problem, fake_result):
    small = thumbnail(fake_result(problem))
    assert small is not None
    assert len(small.axes) == 3
    assert (*small.get_size_inches(), small.get_dpi()) == (3 * 4.2, 3.4, 60)


def test_recurrent_networks_are_drawn_at_their_last_frame():
    x, y = np.zeros((2, 3, 1)), np.ones((2, 3))
    asked = wf.Problem(wf.Dataset(x, y), wf.RNN(readout="every"), "gd", 1.0, wf.Training(1, 0.1))
    rng = np.random.default_rng(0)
    exact = {
        "phi": rng.uniform(size=(2, 1, 2, 2, 3, 3)),
        "phi_alignment": rng.uniform(size=(2, 1, 3)),
        "gradient_cosine": rng.uniform(size=(2, 1, 3, 3)),
    }
    result = make_result(asked, "linear", exact=exact, steps=np.arange(2))
    alignment, cosine, *kernels = result.plot().axes
    np.testing.assert_array_equal(alignment.lines[0].get_ydata(), exact["phi_alignment"][:, 0, -1])
    np.testing.assert_array_equal(cosine.lines[0].get_ydata(), exact["gradient_cosine"][:, 0, -1, -1])
    np.testing.assert_array_equal(kernels[0].images[0].get_array(), exact["phi"][-1, 0, :, :, -1, -1])


# Kernels


@pytest.mark.parametrize(
    ("kernels", "limit"),
    [([[0.25, -0.5]], 0.5), ([[0.25], [-3.0]], 3.0), ([[0.0]], 1.0), ([[np.nan]], 1.0), ([[np.inf]], 1.0)],
)
def test_colours_reach_to_the_largest_entry(kernels, limit):
    assert limit_of(*map(np.array, kernels)) == limit


def test_kernels_of_one_picture_share_their_colours(problem, fake_result):
    result = fake_result(problem)
    largest = float(np.abs(result["phi"]).max())
    for image in images_of(result.plot.kernels("phi")) + images_of(result.plot.movie("phi").figure):
        assert image.get_clim() == (-largest, largest)
    for name, image in zip(("entk", "phi", "g_tilde"), images_of(result.plot()), strict=True):
        last = result[name].isel(time=-1) if name == "entk" else result[name].isel(time=-1, layer=-1)
        assert image.get_clim()[1] == float(np.abs(last).max())
    other = fake_result(problem, seed=1)
    left, right, gap = images_of(wf.compare(result, other).plot())[:3]
    both = max(float(np.abs(one["entk"].isel(time=-1)).max()) for one in (result, other))
    assert left.get_clim() == right.get_clim() == (-both, both)
    assert gap.get_clim()[1] == float(np.abs((result["entk"] - other["entk"]).isel(time=-1)).max())


def test_kernels_have_symbols_and_times(problem, fake_result):
    result = fake_result(problem)
    assert [axes.get_title() for axes in result.plot().axes[3:6]] == [
        "final $K$", r"final $\Phi^L$", r"final $\tilde G^L$",
    ]  # fmt: skip
    figure = result.plot.kernels("g_tilde_tilde", times=2)
    assert [axes.get_ylabel() for axes in figure.axes[:4]] == [
        r"$\tilde{\tilde G}^{1}$", "", r"$\tilde{\tilde G}^{2}$", "",
    ]  # fmt: skip
    [first, *_] = result.plot.kernels("entk", times=1).axes
    assert (first.get_ylabel(), first.get_title()) == ("$K$", "time 0.3")


@pytest.mark.parametrize(
    ("count", "wanted", "found"),
    [(5, 3, [0, 2, 4]), (5, 1, [4]), (3, 7, [0, 1, 2]), (7, 4, [0, 2, 4, 6]), (1, 1, [0])],
)
def test_times_are_evenly_spaced_and_the_last_is_there(count, wanted, found):
    assert evenly(count, wanted).tolist() == found


def test_a_movie_shows_every_time_and_stays_at_its_end(tmp_path, problem, fake_result):
    result = fake_result(problem)
    movie = result.plot.movie("phi")
    np.testing.assert_array_equal(movie.times, result["time"].values)
    for number in range(4):
        shown = [image.get_array() for image in images_of(movie.frame(number))]
        np.testing.assert_array_equal(shown, result["phi"].isel(time=number).values)
        assert movie.figure.get_suptitle() == f"training time {0.1 * number:.3g}"
    assert [axes.get_title() for axes in movie.figure.axes[:2]] == [r"$\Phi^{1}$", r"$\Phi^{2}$"]
    movie.save(tmp_path / "phi.GIF")
    with Image.open(tmp_path / "phi.GIF") as file:
        pauses = []
        for number in range(file.n_frames):  # type: ignore[attr-defined]
            file.seek(number)
            pauses.append(file.info["duration"])
        assert pauses == [120, 120, 120, 1000]
        assert (file.size, file.info["loop"]) == ((round(2 * 4.2 * 80), round(3.4 * 80)), 0)
    short = result.plot.movie("entk", frames=2)
    np.testing.assert_allclose(short.times, result["time"].values[[0, -1]])
    short.save(tmp_path / "k.webp")
    assert Image.open(tmp_path / "k.webp").n_frames == 2  # type: ignore[attr-defined]
    html = short._repr_html_()
    assert html.startswith('<img src="data:image/gif;base64,')
    assert 'alt="kernels in the course of training"' in html
    with pytest.raises(InputError, match=r"\.webp"):
        movie.save(tmp_path / "phi.mp4")
    assert len(os.listdir(tmp_path)) == 2


# Densities


def test_densities_leave_out_the_outermost_thousandth():
    values = np.concatenate([np.linspace(0, 1, 9981), np.full(10, -50.0), np.full(10, 70.0)])
    axes = Figure().subplots()
    draw_density(axes, values)
    place, height = axes.lines[0].get_data()
    assert len(place) == 60
    assert -0.01 < place[0] < place[-1] < 1.01
    np.testing.assert_allclose(height, 1.0, atol=0.05)


def test_densities_at_the_start_are_drawn_where_they_were_recorded(problem):
    rng = np.random.default_rng(0)
    final, moving = rng.normal(size=(1, 4, 50)), rng.normal(3, 1, size=(2, 1, 4, 50))
    [alone] = one_layer(problem, h_final=final).plot.densities().axes
    assert alone.get_legend() is None
    assert alone.get_xlabel() == "preactivation $h^{1}$"
    [both] = one_layer(problem, h_final=final, h_particles=moving).plot.densities().axes
    assert legend(both) == ["start", "end"]
    expected = Figure().subplots()
    for values in (moving[0], final):
        draw_density(expected, values)
    for drawn, line in zip(both.lines, expected.lines, strict=True):
        np.testing.assert_array_equal(drawn.get_data(), line.get_data())


# Pages


def test_panels_are_in_reading_order_and_the_rest_stays_empty():
    seen = []
    figure = grid([seen.append] * 4, columns=3)
    assert seen == figure.axes[:4]
    assert [axes.axison for axes in figure.axes] == [True] * 4 + [False] * 2
    assert figure.get_size_inches().tolist() == [3 * 4.2, 2 * 3.4]
    assert figure.axes[3].get_subplotspec().colspan.start == 0  # type: ignore[union-attr]
    assert len(grid([seen.append] * 2, columns=3).axes) == 2


def test_places_without_a_curve_stay_empty_in_a_comparison(problem):
    result = one_layer(problem, loss=np.ones(2), phi=np.ones((2, 1, 4, 4)))
    figure = wf.compare(result, result).plot()
    assert [axes.axison for axes in figure.axes[:3]] == [True, False, False]
    assert len(images_of(figure)) == 3
    kernels = one_layer(problem, phi=np.ones((2, 1, 4, 4)))
    assert len([axes for axes in wf.compare(kernels, kernels).plot().axes if axes.get_label() != "<colorbar>"]) == 3


def test_overviews_show_theory_dashed_over_networks(problem, fake_result):
    pairs = {"GD": Pair(fake_result(problem), fake_result(problem, seed=1)),
             "FA": Pair(fake_result(problem, seed=2), fake_result(problem, seed=3))}  # fmt: skip
    loss, alignment, g_tilde, density = overview_curves(pairs).axes
    assert legend(loss) == ["GD", "FA", "theory, infinite width"]
    assert [line.get_linestyle() for line in alignment.lines] == ["-", "--"] * 2
    assert [line.get_color() for line in alignment.lines] == [COLOURS[0], "black", COLOURS[1], "black"]
    widths = [line.get_linewidth() for line in alignment.lines]
    assert widths[0] > widths[2] > widths[1]
    for axes, name in ((loss, "loss"), (alignment, "entk_alignment")):
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), pairs["GD"].networks[name])
        np.testing.assert_array_equal(axes.lines[3].get_ydata(), pairs["FA"].theory[name])
    kernel = pairs["GD"].theory["g_tilde"].isel(layer=-1).values
    np.testing.assert_allclose(g_tilde.lines[1].get_ydata(), np.einsum("tmm->t", kernel) / 4)
    expected = Figure().subplots()
    draw_density(expected, pairs["GD"].networks["h_final"].sel(layer=2).values)
    np.testing.assert_array_equal(density.lines[0].get_data(), expected.lines[0].get_data())
    for axes in (alignment, g_tilde, density):
        assert axes.get_legend() is None


def test_overviews_of_kernels_have_theory_above_networks_on_one_scale(problem, fake_result):
    pairs = {"GD": Pair(fake_result(problem), fake_result(problem, seed=1)),
             "FA": Pair(fake_result(problem, seed=2), fake_result(problem, seed=3))}  # fmt: skip
    axes = [one for one in overview_kernels(pairs).axes if one.images]
    for place, (name, result, pair) in enumerate(
        (name, getattr(pair, which), pair)
        for name in ("phi", "g_tilde") for which in ("theory", "networks") for pair in pairs.values()
    ):  # fmt: skip
        shown = axes[place].images[0]
        np.testing.assert_array_equal(shown.get_array(), result[name].isel(time=-1, layer=-1))
        assert shown.get_clim()[1] == max(float(np.abs(one[name].isel(time=-1, layer=-1)).max()) for one in pair)
    assert [one.get_title() for one in axes] == ["GD", "FA"] + [""] * 6
    assert [one.get_ylabel() for one in axes] == [
        r"$\Phi^L$, theory", "", r"$\Phi^L$, networks", "", r"$\tilde G^L$, theory", "", r"$\tilde G^L$, networks", "",
    ]  # fmt: skip
