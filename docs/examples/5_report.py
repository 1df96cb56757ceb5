"""
Reading a report
================

After a run each party has a page about it: ``report.html``, a single file that stays in the
organization, since it shows the party's own rows. This example makes one and shows it.
"""
# sphinx_gallery_thumbnail_path = "images/demo.svg"

# %%
# A run of three silos. Its transcript and cost are kept, as by ``securefedyj join``.
import html
import json
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from securefedyj import SecureFedYJ
from securefedyj.cli import main
from securefedyj.tables.files import write_table

cancer = load_breast_cancer()
names = ["mean area", "mean concavity", "radius error", "worst texture"]
X = cancer.data[:, [list(cancer.feature_names).index(name) for name in names]]
silos = [X[rows] for rows in np.array_split(np.argsort(X[:, 0]), 3)]

folder = tempfile.TemporaryDirectory()
here = Path(folder.name)
for k, silo in enumerate(silos):
    write_table(here / f"silo-{k + 1}.csv", names, silo)

fed = SecureFedYJ(bounds=[(0, 4096), (0, 1), (0, 4), (0, 64)], verified=True)
fed.fit([here / f"silo-{k + 1}.csv" for k in range(3)])
fed.transcript_.write(here / "transcript.jsonl")
(here / "cost.json").write_text(json.dumps(fed.cost_.to_json("silo 1")))

# %%
# The page of silo 1. In a terminal this is
# ``securefedyj report transcript.jsonl --data silo-1.csv --cost cost.json``.
transcript, data, cost, report = (
    str(here / name) for name in ("transcript.jsonl", "silo-1.csv", "cost.json", "report.html")
)
code = main(["report", transcript, "--data", data, "--cost", cost, "--output", report])
assert code == 0
page = Path(report).read_text(encoding="utf-8")
folder.cleanup()

# %%
# Read it from the top:
#
# - the **audit** must have passed: everything that was opened follows from the result;
# - **verified** shows whether a party that cheats would have been noticed;
# - each **feature** has its lambda, and whether that is certain;
# - the **plots** show the silo's own rows before and after, with the normal curve of all silos.
#   Where our patients differ from those of the others, they lie next to the curve, as they should;
# - **what it cost**: rounds, bytes and seconds.


class Shown:
    """A page within this one."""

    def _repr_html_(self) -> str:
        return f'<iframe class="report" title="The report" srcdoc="{html.escape(page)}"></iframe>'


Shown()
