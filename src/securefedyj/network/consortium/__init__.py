"""The agreed file, `consortium.toml`: public, and the same at every party.

format = 1
name = "sepsis-2026"
engine = "replicated"              # or "mpyc": all parties compute, without verification
committee = ["north", "south", "coordinator"]
max_steps = 30                     # of the search for lambda
result_bits = 24                   # precision of mean and variance
levels_per_exchange = 4            # a level is one step of the search
minimum_values = 30
max_interruptions = 5              # one more ends a run
verified = true                    # detects a wrong result even if one member cheats
submitted = true                   # silos submit once; not written if they do not
claimed_points = 4096              # with submitted: up to this many points, no count is negative

[hub]                              # optional: something else may connect the parties
address = "hub.example.org:7443"
certificate = "-----BEGIN CERTIFICATE-----..."

[[party]]
name = "north"
role = "silo"                      # or "helper": has no data
fingerprint = "sha256:..."
certificate = "-----BEGIN CERTIFICATE-----..."
keys = "..."                       # for submissions: public ones, signed; only with submitted

[[feature]]
name = "lactate"
lower = 0.0
upper = 40.0
unit = "mmol/L"                    # optional, as all that follows and note
method = "yeo-johnson, quantiles"  # one or several; yeo-johnson if there is none
quantiles = "0.5, 0.95"            # of quantiles; or three instead of the quartiles of robust
resolution = "0.1"                 # of quantiles, 2^24 steps if there is none; and of a submission
digits = 3                         # significant ones, of the points of a submission
round = true                       # submits the point next to each value
"""

from securefedyj.network.consortium.entries import ConsortiumError, Feature, HubEntry, PartyEntry
from securefedyj.network.consortium.file import Consortium
from securefedyj.protocol.agreement import ENGINE

__all__ = ["ENGINE", "Consortium", "ConsortiumError", "Feature", "HubEntry", "PartyEntry"]
