"""Names for the arrays that all of the core passes around."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Words = NDArray[np.uint64]
