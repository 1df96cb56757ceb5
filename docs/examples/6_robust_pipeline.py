"""
A pipeline that outliers do not spoil
=====================================

One of three hospitals has written some sizes in a unit that is a thousand times smaller. Mean and
standard deviation over all hospitals follow these few rows; the median and the quartiles do not.
"""

# %%
# The rows of a table of tumours, at three hospitals. The third one has the wrong unit in every
# twentieth row.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from securefedyj import SecureColumnTransformer, SecureRobustScaler, SecureStandardScaler

cancer = load_breast_cancer()
names = ["mean radius", "mean texture", "mean smoothness"]
X = cancer.data[:, [list(cancer.feature_names).index(name) for name in names]]
rows = np.random.default_rng(0).permutation(len(X))
first, second, third, ours = np.split(rows, [150, 300, 450])
wrong = third[::20]
X_wrong = X.copy()
X_wrong[wrong, :2] *= 1000
silos = [X_wrong[first], X_wrong[second], X_wrong[third]]

# %%
# Both scalers are fitted in one run. A quantile is found on a grid: with the resolution in which
# the values are recorded, it is exact.
everything = slice(None)
fed = SecureColumnTransformer(
    [
        ("standard", SecureStandardScaler(bounds=[(0, 2**16), (0, 2**16), (0, 1)]), everything),
        ("robust", SecureRobustScaler(resolution=["0.001", "0.01", "0.00001"]), everything),
    ],
    minimum_values=5,
).fit(silos)
standard, robust = fed.named_transformers_["standard"], fed.named_transformers_["robust"]

print(f"{'':16}{'mean':>10}{'deviation':>12}{'median':>10}{'range':>10}")
for j, name in enumerate(names):
    print(
        f"{name:16}{standard.mean_[j]:10.4g}{standard.scale_[j]:12.4g}"
        f"{robust.center_[j]:10.4g}{robust.scale_[j]:10.4g}"
    )
pooled = np.concatenate(silos)
assert np.array_equal(robust.center_, np.quantile(pooled, 0.5, axis=0, method="inverted_cdf"))
assert np.allclose(standard.mean_, pooled.mean(axis=0))

# %%
# A fourth hospital uses the result in a pipeline. ``to_sklearn`` returns a fitted RobustScaler, and
# FrozenEstimator keeps it as it is.
scores = {}
for name, scaler in (("standard", standard), ("robust", robust)):
    model = make_pipeline(FrozenEstimator(scaler.to_sklearn()), LogisticRegression())
    scores[name] = model.fit(X[ours[::2]], cancer.target[ours[::2]]).score(
        X[ours[1::2]], cancer.target[ours[1::2]]
    )
    print(f"{name:10} accuracy {scores[name]:.3f}")
assert scores["robust"] > scores["standard"]

# %%
# Scaled by mean and standard deviation, all right values become almost the same number. A
# classifier with a penalty on large coefficients cannot tell them apart.
figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for ax, scaler, name in zip(axes, (standard, robust), scores, strict=True):
    ax.hist(scaler.transform(X[ours])[:, 0], bins=30)
    ax.set(title=f"{name}: {names[0]}", xlabel="scaled value", xlim=(-3, 3))
axes[0].set_ylabel("patients")
plt.show()
