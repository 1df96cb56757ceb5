"""
Quantiles over silos: ours and those of others
==============================================

The table below has five quantiles of one skewed column over three different hospitals, by this
package and by the formulas that others have published. What counts is the rank: of 100 patients,
how many are on the wrong side?
"""

# %%
# Lactate in mmol/l, at a general practice, a hospital and an intensive care unit.
import matplotlib.pyplot as plt
import numpy as np

from securefedyj import SecureQuantiles

rng = np.random.default_rng(7)
silos = [
    np.round(rng.lognormal(center, spread, patients).clip(0.1, 30), 1)
    for center, spread, patients in ((0.0, 0.3, 2000), (0.6, 0.5, 700), (1.9, 0.4, 300))
]
pooled = np.sort(np.concatenate(silos))
quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)


# %%
# **DataSHIELD**, ``ds.quantileMean`` of dsBaseClient: the mean of the quantiles of each site, as R
# computes them, weighted by the numbers of values.
def datashield(q: float) -> float:
    sizes = [len(silo) for silo in silos]
    return float(np.average([np.quantile(silo, q) for silo in silos], weights=sizes))


# %%
# **NVIDIA FLARE**, federated statistics: a t-digest of each site with sqrt(n) clusters, merged, and
# the quantile interpolated between clusters. This is a t-digest of a few lines, with the limit to
# the size of a cluster of the paper (Dunning and Ertl, 2019); FLARE uses the package fastdigest,
# which differs in details.
def cluster(means: np.ndarray, weights: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(means)
    total, done, merged = weights.sum(), 0.0, [[means[order[0]], weights[order[0]]]]
    for mean, weight in zip(means[order[1:]], weights[order[1:]], strict=True):
        size = merged[-1][1] + weight
        q = (done + size / 2) / total
        if size <= 4 * total * q * (1 - q) / most:
            merged[-1] = [merged[-1][0] + (mean - merged[-1][0]) * weight / size, size]
        else:
            done += merged[-1][1]
            merged.append([mean, weight])
    return np.array(merged).T


def flare(q: float) -> float:
    digests = [cluster(x, np.ones(len(x)), round(len(x) ** 0.5)) for x in silos]
    means, weights = (np.concatenate(part) for part in zip(*digests, strict=True))
    order = np.argsort(means)
    middle = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(q * weights.sum(), middle, means[order]))


# %%
# **FedPS**: a KLL sketch of each site with k = 200, merged at the server. Where a level of the
# sketch is full, every second of its sorted values moves up and counts twice. Again in a few lines;
# FedPS uses the package datasketches. The result is random.
def compact(levels: list[list[float]], k: int = 200) -> list[list[float]]:
    for height in range(64):
        room = max(2, round(k * (2 / 3) ** (len(levels) - 1 - height)))
        if height == len(levels):
            return levels
        if len(levels[height]) > room:
            values = sorted(levels[height])
            if height + 1 == len(levels):
                levels.append([])
            odd = len(values) % 2
            levels[height + 1] += values[odd + int(rng.integers(2)) :: 2]
            levels[height] = values[:odd]
    return levels


def fedps(q: float) -> float:
    merged: list[list[float]] = []
    for silo in silos:
        sketch: list[list[float]] = [[]]
        for part in np.array_split(rng.permutation(silo), 50):
            sketch[0] += part.tolist()
            sketch = compact(sketch)
        merged += [[] for _ in range(len(sketch) - len(merged))]
        for height, values in enumerate(sketch):
            merged[height] += values
    kept = sorted((x, 2**height) for height, own in enumerate(compact(merged)) for x in own)
    values, weights = np.array(kept).T
    return float(values[np.searchsorted(np.cumsum(weights), q * weights.sum())])


# %%
# **This package**, under secret sharing. The values are recorded in steps of 0.1.
fed = SecureQuantiles(quantiles, bounds=(0, 40), resolution="0.1", minimum_values=5)
fed.fit([silo[:, None] for silo in silos])
exact = np.quantile(pooled, quantiles, method="inverted_cdf")
assert np.array_equal(fed.quantiles_[:, 0], exact)


# %%
# The patients of 100 that lie between a number and the true quantile: 0 if the number has the right
# rank. In the table they are in brackets.
def misplaced(q: float, value: float) -> float:
    below, upto = np.searchsorted(pooled, value, "left"), np.searchsorted(pooled, value, "right")
    rank = q * len(pooled)
    return 100 * max(below - rank, rank - upto, 0.0) / len(pooled)


methods = {"DataSHIELD": datashield, "NVIDIA FLARE": flare, "FedPS": fedps}
table = {name: [method(q) for q in quantiles] for name, method in methods.items()}
table["SecureQuantiles"] = fed.quantiles_[:, 0].tolist()
errors = {
    name: [misplaced(q, value) for q, value in zip(quantiles, row, strict=True)]
    for name, row in table.items()
}
print(f"{'pooled':16}" + "".join(f"{value:16.3f}" for value in exact))
for name, row in table.items():
    cells = zip(row, errors[name], strict=True)
    print(f"{name:16}" + "".join(f"{value:9.3f} ({off:4.1f})" for value, off in cells))
assert max(errors["SecureQuantiles"]) == 0
assert max(errors["DataSHIELD"]) > 5

# %%
# The mean of medians is not the median, however many patients there are. Sketches are close, but
# each site shows its sketch to the server: dozens or hundreds of its own values, or means of a few.
# Under secret sharing nothing is opened but the five numbers, and the number of values.
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for name, row in errors.items():
    ax.plot(quantiles, row, "o-", label=name)
ax.set(xlabel="quantile", ylabel="patients of 100 on the wrong side")
ax.legend()
plt.show()
