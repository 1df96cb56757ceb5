"""
Three silos
===========

Three hospitals have rows of the same table, and may not pool them. ``SecureFedYJ`` fits as if they
did. Here all three are on one machine; the protocol is the real one.
"""

# %%
# The hospitals differ: the first has the patients with the smallest tumours, the last those with
# the largest. A transformation that each fits to its own rows would not be comparable.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from securefedyj import ExpYJ, SecureFedYJ

cancer = load_breast_cancer()
names = ["mean area", "mean concavity", "radius error", "worst texture"]
X = cancer.data[:, [list(cancer.feature_names).index(name) for name in names]]
silos = [X[rows] for rows in np.array_split(np.argsort(X[:, 0]), 3)]

alone = [ExpYJ().fit(silo).lambdas_ for silo in silos]

# %%
# Bounds are agreed on before anybody looks at the data. They are public.
fed = SecureFedYJ(bounds=[(0, 4096), (0, 1), (0, 4), (0, 64)]).fit(silos)

print(f"{'':16}{'alone':^30}{'together':>10}")
for j, name in enumerate(names):
    print(f"{name:16}" + "".join(f"{own[j]:10.3f}" for own in alone) + f"{fed.lambdas_[j]:10.3f}")

# %%
# The result has the same bits however the rows are split, and is that of the pooled fit.
swapped = SecureFedYJ(bounds=fed.bounds).fit([X[:10], X[10:300], X[300:]])
assert np.array_equal(fed.lambdas_, swapped.lambdas_)
assert np.allclose(fed.lambdas_, ExpYJ().fit(X).lambdas_, rtol=1e-8)

# %%
# What each party has learned, and the cost.
print(fed.transcript_.audit().statement())
print()
sent = max(map(fed.cost_.sent_by, fed.cost_.bytes_sent))
print(f"{fed.cost_.rounds} rounds, {sent:,} bytes sent by the party that sent most")

# %%
# Each silo transforms its own rows. Together they have mean 0 and variance 1.
labels = ["hospital 1", "hospital 2", "hospital 3"]
figure, (before, after) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for axes, tables in ((before, silos), (after, [fed.transform(silo) for silo in silos])):
    axes.hist([table[:, 0] for table in tables], bins=25, stacked=True, label=labels)
before.set(title="mean area", ylabel="patients")
after.set(title="mean area, transformed")
after.legend()
plt.show()
