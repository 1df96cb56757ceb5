"""
Pooled data, compared with scikit-learn
=======================================

``ExpYJ`` is used like scikit-learn's ``PowerTransformer``, and finds the same lambda for most
features. Where a feature is nearly always the same, it finds one that is better.
"""

# %%
# The pixels of handwritten digits. Those at the rim are almost always 0.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import PowerTransformer

from securefedyj import ExpYJ
from securefedyj.pooled.likelihood import log_likelihood

X = load_digits().data
ours = ExpYJ().fit(X)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # scikit-learn's overflow, which we look at below
    theirs = PowerTransformer().fit(X)

vary = np.ptp(X, axis=0) > 0
near = np.isclose(ours.lambdas_, theirs.lambdas_, rtol=1e-5) & vary
print(f"{vary.sum()} features vary; lambda is the same for {near.sum()} of them.")

# %%
# For the others, compare the log-likelihood, which both maximize.
missed = np.flatnonzero(vary & ~near)
for j in missed:
    gain = log_likelihood(X[:, j], ours.lambdas_[j]) - log_likelihood(X[:, j], theirs.lambdas_[j])
    found = f"{ours.lambdas_[j]:11.2f} instead of {theirs.lambdas_[j]:8.2f}"
    print(f"pixel {j:2}: {found}, log-likelihood higher by {gain:6.1f}")
    assert gain > 0

# %%
# ``converged_`` shows for each feature whether its lambda is certain.
assert ours.converged_.all()

# %%
# The log-likelihood of pixel 47 as a function of lambda, and where the two fits ended.
x, found = X[:, 47], {"ExpYJ": ours.lambdas_[47], "scikit-learn": theirs.lambdas_[47]}
grid = np.linspace(found["ExpYJ"] - 5, found["scikit-learn"] + 5, 200)
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(grid, [log_likelihood(x, lmbda) for lmbda in grid], color="grey")
for marker, (name, lmbda) in zip("oX", found.items(), strict=True):
    axes.plot(lmbda, log_likelihood(x, lmbda), marker, markersize=10, label=name)
axes.set(xlabel="lambda", ylabel="log-likelihood", title="Pixel 47 of the digits")
axes.legend()
plt.show()
