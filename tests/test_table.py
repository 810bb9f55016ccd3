"""`wf.datasets.table`, and whole numbers as targets."""

from __future__ import annotations

import numpy as np
import pytest

import widefield as wf

TABLE = """length;colour;grade;kind
1.0;red;0;a
2.0;white;1;b
3.0;red;2;c
5.0;red;1;a
"""


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "table.csv"
    found.write_text(TABLE, encoding="utf-8")
    return found


def test_words_become_one_hot_and_all_is_standardised(path):
    data = wf.datasets.table(path, "kind", inputs=["length", "colour"])
    length = np.array([1.0, 2, 3, 5])
    red = np.array([1.0, 0, 1, 1])
    expected = np.stack([(v - v.mean()) / v.std() for v in (length, red, 1 - red)], axis=1)
    np.testing.assert_allclose(data.x, expected, atol=1e-12)
    np.testing.assert_array_equal(data.y, np.eye(3)[[0, 1, 2, 0]])
    assert data.x_test is None


def test_whole_numbers_are_asked_back(path):
    with pytest.raises(wf.errors.InputError, match=r"classes=True .* classes=False"):
        wf.datasets.table(path, "grade", inputs=["length"])
    np.testing.assert_array_equal(
        wf.datasets.table(path, "grade", inputs=["length"], classes=True).y, np.eye(3)[[0, 1, 2, 1]]
    )
    np.testing.assert_array_equal(
        wf.datasets.table(path, "grade", inputs=["length"], classes=False).y, [0.0, 1.0, 2.0, 1.0]
    )
    # A target of other numbers needs no answer; the loss sees them as they are.
    np.testing.assert_array_equal(wf.datasets.table(path, "length", inputs=["grade"], classes=False).y, [1, 2, 3, 5])


@pytest.mark.parametrize(("test", "count"), [(0.25, 1), (2, 2), (0, 0)])
def test_split(path, test, count):
    data = wf.datasets.table(path, "kind", inputs=["length"], test=test, seed=3)
    assert (data.points, data.test_points) == (4 - count, count)
    assert data == wf.datasets.table(path, "kind", inputs=["length"], test=test, seed=3)
    # Mean and standard deviation are those of the training points; every row is there once.
    assert abs(data.x.mean()) < 1e-12
    assert abs(data.x.std() - 1) < 1e-12
    targets = data.y if data.y_test is None else np.concatenate([data.y, data.y_test])
    np.testing.assert_array_equal(targets.sum(0), [2, 1, 1])


def test_data_frame(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(path, sep=";")
    assert wf.datasets.table(frame, "kind") == wf.datasets.table(path, "kind")


def test_toml(path):
    file = path.parent / "problem.toml"
    file.write_text(
        "richness = 1.0\n[network]\nkind = 'mlp'\ndepth = 1\n[rule]\nname = 'gd'\n[training]\nsteps = 2\ndt = 0.1\n"
        "[data]\nkind = 'table'\npath = 'table.csv'\ntarget = 'kind'\ninputs = ['length']\ntest = 1\n",
        encoding="utf-8",
    )
    expected = wf.datasets.table(path, "kind", inputs=["length"], test=1)
    assert wf.Problem.from_toml(file).data == expected


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TABLE, {"target": "height"}, "target is 'height'; allowed: a column: length, colour, grade, kind"),
        (TABLE, {"target": "kind", "test": 4}, "test is 4"),
        (TABLE, {"target": "kind", "test": 1.5}, "test is 1.5"),
        (TABLE, {"target": "kind", "inputs": []}, "inputs"),
        (TABLE, {"target": "kind", "classes": False}, "has words"),
        ("a,b\n1,2\n3\n", {"target": "b"}, "row 2 .* has 1 values"),
        ("a,b\n1,x\n,y\n", {"target": "b"}, "column a has no value in row 2"),
        ("a,b\n1,x\ninf,y\n", {"target": "b"}, "column a is inf in row 2"),
        ("a,b\nu,x\nv,y\nw,x\n", {"target": "b"}, "3 different words"),
        ("a,b\n1,x\n2,x\n", {"target": "b"}, "always x"),
        ("a,a\n1,2\n", {"target": "a"}, "different names"),
        ("a,b\n", {"target": "b"}, "rows below"),
        ("", {"target": "b"}, "empty"),
    ],
)
def test_errors_name_the_column(tmp_path, text, options, message):
    file = tmp_path / "table.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(wf.errors.InputError, match=message):
        wf.datasets.table(file, **options)


def test_no_file():
    with pytest.raises(wf.errors.InputError, match="cannot be read"):
        wf.datasets.table("nowhere.csv", "y")
    with pytest.raises(wf.errors.InputError, match="path is 'int'"):
        wf.datasets.table(3, "y")


@pytest.mark.parametrize("labels", [[0, 1, 2], np.array([0, 1, 1]), np.array([True, False, True])])
def test_labels_are_no_targets(labels):
    x = np.ones((3, 2))
    with pytest.raises(wf.errors.InputError, match=r"np\.eye\(C\)\[y\]"):
        wf.Dataset(x, labels)
    with pytest.raises(wf.errors.InputError, match="y_test is whole numbers"):
        wf.Dataset(x, np.ones(3), x, labels)
    assert wf.Dataset(x, np.asarray(labels, dtype=float)).outputs == 1
    assert wf.Dataset(x, [1, -1, 1]).outputs == 1
    assert wf.Dataset(x, np.eye(3, dtype=int)).outputs == 3
