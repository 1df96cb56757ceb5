"""
Cross-validation with a fitted transformation
=============================================

A consortium has fitted a transformation; a hospital has its ``parameters.json`` and wants to train
a classifier on rows of its own. The transformation stays as it is in every fold.
"""

# %%
# First the run, which writes the file. We are the third hospital.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import securefedyj
from securefedyj import ExpYJ, SecureFedYJ
from securefedyj.parameters import save

X, y = load_breast_cancer(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
first, second, ours = np.split(order, [250, 500])
run = SecureFedYJ(bounds=(0, 2**13), engine="clear").fit([X[first], X[second], X[ours]])

folder = tempfile.TemporaryDirectory()
file = Path(folder.name, "parameters.json")
save(run.transcript_, file)

# %%
# ``load`` returns a fitted transformer that stays fitted, also when a pipeline is cloned and fitted
# again in each fold.
consortium = securefedyj.load(file)
pipelines = {
    "scaled only": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "our own": make_pipeline(ExpYJ(), LogisticRegression(max_iter=1000)),
    "the consortium's": make_pipeline(consortium, LogisticRegression(max_iter=1000)),
}
assert np.array_equal(clone(consortium).fit(X[ours]).lambdas_, run.lambdas_)
scores = {
    name: cross_val_score(pipeline, X[ours], y[ours], cv=5, scoring="neg_log_loss")
    for name, pipeline in pipelines.items()
}
for name, values in scores.items():
    print(f"{name:20} log loss {-values.mean():.3f} ± {values.std():.3f}")

# %%
# With this few rows, the scores do not distinguish the three. But with the consortium's
# transformation, coefficients mean the same at each hospital, so models can be compared, or
# averaged.
#
# The transformation has seen the rows of all folds, though no labels. To get scores that do not
# depend on the rows that are held out, keep these out of the run.
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for fold in range(5):
    axes.plot([-values[fold] for values in scores.values()], "o-", label=f"fold {fold + 1}")
axes.set_xticks(range(len(scores)), scores)
axes.set(xlabel="transformation", ylabel="log loss")
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
folder.cleanup()
