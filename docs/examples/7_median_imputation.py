"""
Missing values, filled with the median of all hospitals
=======================================================

A hospital that measures little has no good median of its own. With ``SecureQuantiles`` all fill
their gaps with the same number, and none shows its values.
"""

# %%
# Three hospitals measure lactate in steps of 0.1 mmol/l and C-reactive protein in whole mg/l. The
# second treats the severe cases; the third hardly ever measures.
import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from securefedyj import SecureColumnTransformer, SecureFedYJ, SecureQuantiles

rng = np.random.default_rng(3)
silos, complete = [], []
for patients, severity, measured in ((400, 0.0, 0.8), (150, 1.0, 0.9), (120, 0.2, 0.1)):
    lactate = np.round(rng.lognormal(0.4 + severity, 0.5, patients).clip(0.1, 30), 1)
    crp = np.round(rng.lognormal(2 + 1.5 * severity, 1, patients).clip(1, 600))
    frame = pd.DataFrame({"patient": "p", "lactate": lactate, "crp": crp})
    complete.append(frame.copy())
    silos.append(frame.where(rng.random(frame.shape) < measured))

# %%
# Medians and a Yeo-Johnson transformation of both columns, in one run. Columns are found by their
# names, so the others may hold anything. A quantile is the value of a patient: with less than five
# values on either side it would not be opened.
columns = ["lactate", "crp"]
fed = SecureColumnTransformer(
    [
        (
            "filled",
            SecureQuantiles((0.5,), bounds=[(0, 40), (0, 1000)], resolution=["0.1", 1]),
            columns,
        ),
        ("normal", SecureFedYJ(), columns),
    ],
    minimum_values=5,
).fit(silos)
filled, normal = fed.named_transformers_["filled"], fed.named_transformers_["normal"]

pooled = pd.concat(silos)[columns]
assert np.array_equal(filled.quantiles_[0], pooled.quantile(0.5, interpolation="lower"))
print("median over all hospitals:", dict(zip(columns, filled.quantiles_[0].tolist(), strict=True)))
for k, silo in enumerate(silos):
    own = silo[columns].median().tolist()
    print(f"hospital {k + 1}: {silo[columns].count().tolist()} values, own medians {own}")

# %%
# The transformation ignores missing values in its fit, so it is the same with and without them
# filled. In a pipeline, filling comes first.
prepare = make_pipeline(FrozenEstimator(filled), FrozenEstimator(normal))
prepare.set_output(transform="pandas").fit(silos[2][columns])
Z = prepare.transform(silos[2][columns])
assert np.isfinite(Z).to_numpy().all()

# %%
# For people without this package, the same as objects of scikit-learn.
steps = [FrozenEstimator(step.to_sklearn()) for step in (filled, normal)]
theirs = make_pipeline(*steps).set_output(transform="pandas").fit(silos[2][columns])
print("SimpleImputer.statistics_:", theirs[0].statistics_)
assert np.allclose(theirs.transform(silos[2][columns]), Z)

# %%
# A median is a summary, not a measurement: after filling, the column varies less. Where that
# matters, add a column that says what was missing.
for name in columns:
    before, after = silos[2][name].isna().mean(), complete[2][name].std()
    kept = pd.DataFrame(filled.transform(silos[2][columns]), columns=columns)[name].std()
    print(f"{name}: {before:.0%} missing; deviation {after:.3g} if complete, {kept:.3g} filled")
