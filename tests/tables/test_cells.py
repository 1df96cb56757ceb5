"""Cells: what is a number, what is missing, and what is refused where."""

from __future__ import annotations

import numpy as np
import pytest

from securefedyj import ExpYJ
from securefedyj.tables.cells import BELOW_LIMIT, BadCellsError
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import read_table
from tests.refusals import refused
from tests.tables.csv_text import csv_of


def test_missing_cells_are_known_in_any_case_and_with_spaces(tmp_path):
    path = csv_of(tmp_path, 'a\n1\n na \nNaN\nNULL\nn/a\n""\n2\n')
    np.testing.assert_array_equal(
        read_table(path)[:, 0], [1, np.nan, np.nan, np.nan, np.nan, np.nan, 2]
    )


def test_text_is_an_error_that_says_where(tmp_path):
    path = csv_of(tmp_path, 'name,a\n"two\nlines",1\nx,12 mmol\n')
    with refused("SFY-TAB-100", naming=("t.csv", "'a'", "line 4", "'12 mmol'")):
        read_table(path, ["a"])


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999", "1_000", "0x10", "1 000", "?"])
def test_cells_that_python_would_read_otherwise_are_refused(cell, tmp_path):
    with refused("SFY-TAB-100"):
        read_table(csv_of(tmp_path, f"a\n{cell}\n"))


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["3,14", "2"], "'3,14' would be 3.14 with --decimal ,."),
        (["10,286"], "'10,286' would be 10286 with --thousands , or 10.286 with --decimal ,;"),
        (["10,286", "1,5"], "'10,286' would be 10.286 with --decimal ,."),
        (["1,234,567"], "'1,234,567' would be 1234567 with --thousands ,."),
        (["1.234,5"], "'1.234,5' would be 1234.5 with --decimal , --thousands .."),
        (["1,5", "1.234,5"], "'1,5' would be 1.5 with --decimal , --thousands .."),
        (["1 234", "7"], "'1 234' would be 1234 with --thousands \" \"."),
        (["1\u202f234,5"], 'would be 1234.5 with --decimal , --thousands " ".'),
        (["1'234.5"], 'would be 1234.5 with --thousands "\'".'),
        (
            ["1,5", "1,234.5"],
            "give --missing=1,5 --m",
        ),
        (["<0.5", "?"], "'<0.5' is below a limit of detection: give --below-limit half, zero or"),
        (["=A2/2"], "these formulas without their values: open it in Excel, and save it again."),
        (["$(ls)"], "give --missing='$(ls)'."),
        (['"a\nb"'], "give --missing=TEXT."),
    ],
)
def test_every_way_to_read_the_cells_of_a_column_is_named(cells, said, tmp_path):
    with refused("SFY-TAB-100") as error:
        read_table(csv_of(tmp_path, "a;b\n" + "".join(f"{cell};2\n" for cell in cells)))
    assert said in str(error.value)


def test_advice_after_a_wrong_option_leads_back(tmp_path):
    path = csv_of(tmp_path, "a;b\n1.234;2\n")
    with refused("SFY-TAB-100") as error:
        read_table(path, dialect=Dialect(decimal=","))
    assert "'1.234' would be 1234 with --decimal , --thousands . or 1.234 with --decimal .;" in str(
        error.value
    )


def test_the_same_advice_is_given_once_for_all_columns(tmp_path):
    names = [f"c{j}" for j in range(9)]
    rows = ["1,5;" * 8 + "?", "2,5;" * 8 + "?"]
    with pytest.raises(BadCellsError) as error:
        read_table(csv_of(tmp_path, "\n".join([";".join(names), *rows, ""])))
    said = error.value.columns
    assert said["c0"].endswith(
        "'1,5' would be 1.5 with --decimal , (also in c1, c2, c3, c4, c5 and 2 more)."
    )
    assert said["c1"] == "2 cells are not finite numbers: '1,5' (line 2), '2,5' (line 3)."
    many = "\n".join(f"{k},5;{k},5" for k in range(9))
    with pytest.raises(BadCellsError) as error:
        read_table(csv_of(tmp_path, f"a;b\n{many}\n"))
    assert error.value.columns["a"].count("(line ") == 6
    assert error.value.columns["b"] == "9 cells are not finite numbers: '0,5' (line 2), others."
    assert said["c8"].endswith("give --missing='?'.")
    assert sum("--decimal" in text for text in said.values()) == 1


def test_distinct_texts_of_all_columns_are_counted(tmp_path):
    rows = [("1", "2"), ("?", "x"), ("?", "3"), ("low", "y"), ("4", "5"), ("?", "6")]
    path = csv_of(tmp_path, "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    with refused("SFY-TAB-100") as error:
        read_table(path)
    assert (
        "column 'a', 4 cells are not finite numbers: '?' (3 times, first in line 3), 'low' ("
        in str(error.value)
    )
    assert "column 'b', 2 cells are not finite numbers: 'x' (line 3), 'y' (line 5)." in str(
        error.value
    )


@pytest.mark.parametrize(
    ("way", "expected"),
    [("half", [0.25, 0.1, 4.0]), ("zero", [0.0, 0.0, 4.0]), ("missing", [np.nan, np.nan, 4.0])],
)
def test_a_value_below_a_limit_becomes_what_was_chosen(way, expected, tmp_path):
    dialect = Dialect(decimal=",", below_limit=way)
    path = csv_of(tmp_path, "a;b\n<0,5;1\n ≤ 0,2;1\n4;1\n")
    np.testing.assert_array_equal(read_table(path, ["a"], dialect=dialect)[:, 0], expected)
    with refused("SFY-TAB-100", naming="'<-1'"):
        read_table(csv_of(tmp_path, "a;b\n<-1;1\n"), ["a"], dialect=dialect)
    with refused("SFY-TAB-053"):
        Dialect(below_limit="none")


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_what_each_way_does_to_lambda_is_what_the_page_says(share):
    x = np.random.default_rng(1).lognormal(size=4000)
    limit = np.quantile(x, share)
    of = {
        way: ExpYJ().fit(np.where(x < limit, below(limit), x)[:, None]).lambdas_[0]
        for way, below in BELOW_LIMIT.items()
    }
    true = ExpYJ().fit(x[:, None]).lambdas_[0]
    assert of["missing"] < true < of["zero"]
    assert abs(of["half"] - true) < min(abs(of["missing"] - true), abs(of["zero"] - true))
