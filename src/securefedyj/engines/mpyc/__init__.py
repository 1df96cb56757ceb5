"""Engine `mpyc`: Shamir sharing among all parties, on the MPyC library."""
