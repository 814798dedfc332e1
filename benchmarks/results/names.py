"""What methods are called in tables and figures."""

from __future__ import annotations

NAMES = {
    "evenhand": "Evenhand, exact list",
    "exact": "Evenhand, exact decision",
    "lbi": "knockoff LBI",
    "paper": "the paper, knockoff+, one draw",
    "paper-draw": "the paper from statistics, one draw",
    "binomial": "binomial + BH",
    "glm": "logistic GLM + BH",
    "storey": "our p-values + Storey",
    "sign-flip": "exact sign flips + BH",
    "statsmodels-glm": "statsmodels GLM",
    "noisy-bt": "NoisyBradleyTerry, top k",
    "knockpy": "knockpy, fixed X",
    "statsmodels-knockoff": "statsmodels knockoff",
    "paper-dense": "the paper, dense",
    "oracle": "oracle",
}
#: How annotators were judged, or how knockoffs were made.
WAYS = {
    "own coins": "by own coins",
    "shared coins": "by shared coins",
    "both orders": "by both orders",
    "sides fixed": "with sides held fixed",
    "none": "refused",
    "flip": "by flips",
    "paper": "by the paper's construction",
}
