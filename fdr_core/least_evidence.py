"""The least that a flag rests on, whatever the weights of a list allow: a p-value, and how often a side was seen.

Whoever has less gets p-value 1 in the list. A p-value that only grows stays valid, so the list keeps its proof.
"""

#: Largest own p-value of somebody who is flagged; the last digits of a convolution are not exact.
P_VALUE = 0.05 + 1e-9
#: Fewest coins under which a side was chosen; with both orders pairs answered inconsistently, without coins pairs.
UNITS = 6
