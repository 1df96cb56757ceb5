"""
A transcriptome
===============

Expression of many genes, at three hospitals, with few patients each: counts with long tails, and
many zeros. Here 200 genes are simulated; a run with 20,000 works in the same way.
"""

# %%
# Counts of a gene have a negative binomial distribution, and patients differ in how deeply they
# were sequenced. Values are counts per million.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import skew

from securefedyj import SecureFedYJ

rng = np.random.default_rng(7)
patients, genes = (40, 55, 70), 200
level, spread = rng.lognormal(3, 1.5, genes), rng.uniform(0.3, 2.5, genes)


def hospital(rows: int) -> np.ndarray:
    depth = rng.lognormal(0, 0.4, (rows, 1))
    mean = level * depth
    counts = rng.negative_binomial(1 / spread, 1 / (1 + mean * spread))
    return counts / (counts.sum(axis=1, keepdims=True)) * 1e6


silos = [hospital(rows) for rows in patients]
print(f"{np.mean(np.concatenate(silos) == 0):.0%} of all values are 0.")

# %%
# No value is negative, and none above a million.
fed = SecureFedYJ(bounds=(0, 2**20)).fit(silos)
assert fed.converged_.all()
print(f"lambda from {fed.lambdas_.min():.2f} to {fed.lambdas_.max():.2f}")
sent = max(map(fed.cost_.sent_by, fed.cost_.bytes_sent))
print(f"{fed.cost_.rounds} rounds, {sent / genes / 1e3:.0f} kB per gene at most")

# %%
# The usual log(1 + x) bends all genes equally, and most of these too strongly.
pooled = np.concatenate(silos)
skewness = {
    "as they are": skew(pooled),
    "log(1 + x)": skew(np.log1p(pooled)),
    "Yeo-Johnson": skew(np.concatenate([fed.transform(silo) for silo in silos])),
}
for name, values in skewness.items():
    print(f"{name:12} median of |skewness| {np.median(np.abs(values)):.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.boxplot(skewness.values(), tick_labels=skewness.keys())
left.axhline(0, color="grey", linewidth=0.8)
left.set(ylabel="skewness", title="200 genes")
right.plot(level, fed.lambdas_, ".")
right.set(xscale="log", xlabel="mean count of the gene", ylabel="lambda")
plt.show()
