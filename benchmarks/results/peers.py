"""What people would use instead, on the same data: adapters of other packages and of what is done by hand."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.results.dense_paper import dense_paper
from benchmarks.results.design import dense, require_memory, rotated
from benchmarks.results.oracle import oracle
from benchmarks.results.quality import FIRST, CannotRunError, Method, repeat
from fdr_core.baselines import benjamini_hochberg, binomial_bh, glm_bh
from fdr_core.comparisons import Comparisons
from fdr_core.design import item_solver, ridge_for
from fdr_core.detection import Detection, detect
from fdr_core.errors import DesignError
from fdr_core.evidence import sign_flip_p_values
from fdr_core.selection import weighted_list
from fdr_core.simulate import Simulated
from fdr_core.statistics import SufficientStatistics
from harness.premises import EVERY
from harness.scenarios import Q, Scenario

Mask = NDArray[np.bool_]


def binomial(comparisons: Comparisons, seed: int, k: int) -> list[Any]:
    """Exact test of the clicks against one half, then Benjamini-Hochberg."""
    return binomial_bh(comparisons, Q).flagged


def glm(comparisons: Comparisons, seed: int, k: int) -> list[Any]:
    """Logistic regression with item and annotator effects, likelihood-ratio tests, then Benjamini-Hochberg."""
    try:
        return glm_bh(comparisons, Q).flagged
    except DesignError as error:
        raise CannotRunError(str(error).split(";")[0]) from error


def sign_flip(comparisons: Comparisons, seed: int, k: int) -> list[Any]:
    """Exact sign flips of consensus-adjusted residuals, then Benjamini-Hochberg: every annotator weighs the same."""
    statistics = SufficientStatistics.from_comparisons(comparisons)
    answers, sums = statistics.answers(), statistics.sums
    theta = item_solver(sums.laplacian, ridge=ridge_for(answers)).solve(sums.Dy)
    selected = benjamini_hochberg(sign_flip_p_values(answers, theta, len(sums.counts)), Q)
    return [label for label, is_chosen in zip(statistics.annotators, selected, strict=True) if is_chosen]


def exact_storey(result: Detection) -> list[Any]:
    """Evenhand's exact p-values, all alike in weight, with Storey's estimate of the honest."""
    p_value = result.annotators["p_value"].fillna(1.0).to_numpy()
    selected = weighted_list(p_value, np.ones(len(p_value)), q=Q, storey=True).flagged
    return result.annotators["annotator"][selected].tolist()


def storey(comparisons: Comparisons, seed: int, k: int) -> list[Any]:
    """The same on data."""
    return exact_storey(detect(comparisons, q=Q, lbi=None, consensus="least squares"))


def statsmodels_glm(comparisons: Comparisons, seed: int, k: int) -> list[Any]:
    """The same regression by statsmodels with its Wald tests, then Benjamini-Hochberg."""
    import statsmodels.api as sm

    D, A = dense(comparisons)
    X = np.column_stack([D[:, 1:], A > 0])
    y = (comparisons.outcome + 1.0) / 2.0
    with _quiet():
        fit = sm.GLM(y, X, family=sm.families.Binomial()).fit()
    p_value = np.nan_to_num(fit.pvalues[-comparisons.n_annotators :], nan=1.0)
    return _labels(comparisons, benjamini_hochberg(p_value, Q))


def noisy_bradley_terry(comparisons: Comparisons, seed: int, k: int) -> list[Any]:
    """crowd-kit's NoisyBradleyTerry: the k annotators with the largest fitted bias; it has no test of its own."""
    from crowdkit.aggregation import NoisyBradleyTerry

    with _quiet():
        model = NoisyBradleyTerry(random_state=seed).fit(crowdkit_frame(comparisons))
    distance = (model.biases_ - 0.5).abs().sort_values(ascending=False, kind="stable")
    return distance.index[:k].tolist()


def crowdkit_frame(comparisons: Comparisons) -> pd.DataFrame:
    """Answers as crowd-kit reads them; graded answers count by their sign, ties are left out."""
    sided = comparisons.outcome != 0
    left, right = comparisons.items[comparisons.left][sided], comparisons.items[comparisons.right][sided]
    worker = comparisons.annotators[comparisons.annotator][sided]
    label = np.where(comparisons.outcome[sided] > 0, left, right)
    return pd.DataFrame({"worker": worker, "left": left, "right": right, "label": label})


def knockpy(comparisons: Comparisons, seed: int, k: int) -> list[Any]:
    """knockpy's fixed-X sampler (equicorrelated) and LASSO path statistic, item scores rotated out first.

    Its own ``forward`` would centre the columns, which makes biases and scores inseparable; so it is handed knockoffs.
    """
    require_memory(len(comparisons), len(comparisons), "the square orthogonal matrix that it builds")
    X, y = rotated(comparisons)
    from knockpy.knockoff_filter import KnockoffFilter
    from knockpy.knockoffs import FXSampler

    with _quiet(), _seeded(seed):
        Xk = FXSampler(X, method="equicorrelated").sample_knockoffs()
        selected = KnockoffFilter(ksampler="fx", fstat="lsm").forward(X=X, y=y, Xk=Xk, fdr=Q)
    return _labels(comparisons, np.asarray(selected, dtype=bool))


def statsmodels_knockoff(comparisons: Comparisons, seed: int, k: int) -> list[Any]:
    """statsmodels' RegressionFDR (knockoff_regeffects: correlations), its knockoff+ column, item scores rotated out."""
    X, y = rotated(comparisons)
    from statsmodels.stats._knockoff import RegressionFDR
    from statsmodels.stats.knockoff_regeffects import CorrelationEffects

    with _quiet():
        result = RegressionFDR(y, X, CorrelationEffects(), rng=seed)
    passing = result.stats[(result.fdrp <= Q) & (result.stats > 0)]  # its own threshold() knows the plain cut only
    return _labels(comparisons, result.stats >= passing.min(initial=np.inf))


def paper_dense(comparisons: Comparisons, seed: int, k: int) -> list[Any]:
    """The paper's algorithm with dense matrices, ISS and knockoff+, one draw."""
    return _labels(comparisons, dense_paper(comparisons, np.random.default_rng(seed)))


PEERS = {
    "binomial": binomial,
    "glm": glm,
    "sign-flip": sign_flip,
    "storey": storey,
    "statsmodels-glm": statsmodels_glm,
    "noisy-bt": noisy_bradley_terry,
    "knockpy": knockpy,
    "statsmodels-knockoff": statsmodels_knockoff,
    "paper-dense": paper_dense,
}


def quality(method: str, scenario: str, runs: int) -> dict[str, Any]:
    """Error rate and power of a peer, or of the oracle."""
    return repeat(_oracle if method == "oracle" else _adapter(method), scenario, runs)


def glm_agreement(scenario: str, runs: int) -> dict[str, Any]:
    """How far the fast regression agrees with statsmodels': lists (Jaccard) and sizes."""
    jaccard, sizes = [], []
    for run in range(runs):
        comparisons = EVERY[scenario].simulate(FIRST + run).comparisons
        fast, slow = set(glm(comparisons, run, 0)), set(statsmodels_glm(comparisons, run, 0))
        jaccard.append(round(len(fast & slow) / len(fast | slow), 4) if fast | slow else 1.0)
        sizes.append([len(fast), len(slow)])
    return {"runs": runs, "jaccard": jaccard, "sizes": sizes}


def _adapter(name: str) -> Method:
    def run_peer(scenario: Scenario, truth: Simulated, run: int) -> tuple[list[Any], str]:
        k = int(truth.is_biased.sum())
        if name == "noisy-bt" and k == 0:
            raise CannotRunError("gives a ranking without a test, so it cannot say that nobody leans")
        return PEERS[name](truth.comparisons, run, k), name

    return run_peer


def _oracle(scenario: Scenario, truth: Simulated, run: int) -> tuple[list[Any], str]:
    return oracle(scenario, truth, run), "oracle"


def _labels(comparisons: Comparisons, selected: Mask) -> list[Any]:
    return list(comparisons.annotators[selected])


@contextmanager
def _quiet() -> Iterator[None]:
    """Let peers warn about their own arithmetic without ending the run."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global state for packages that know no other, and put it back."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
