"""What a list of flags promises, and what it does not."""

from __future__ import annotations

from fdr_core.audit import FEW_COINS, Audit


class Guarantee(str):
    """Reads as "kind: sentence"; the parts are ``kind`` and ``sentence``."""

    kind: str
    sentence: str

    def __new__(cls, kind: str, sentence: str) -> Guarantee:
        """Join the two parts."""
        guarantee = super().__new__(cls, f"{kind}: {sentence}")
        guarantee.kind, guarantee.sentence = kind, sentence
        return guarantee

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str's own is narrower
        """Let copies and pickles keep the parts."""
        return self.kind, self.sentence


def guarantee_of(
    verdict: Audit, *, cut: str, draws: int, aggregate: str, q: float, variance: str, by_likelihood: bool = False
) -> Guarantee:
    """State which guarantee holds for a detection."""
    share = f"{100 * q:g} %"
    if verdict.construction == "none":
        return Guarantee("none proven (nobody judged)", "Nobody was judged, so nobody is flagged; the audit says why.")
    if verdict.figures.get("forced"):
        return Guarantee(
            "none proven (sides not random)", "Coin flips were used although the audit does not support them."
        )
    if by_likelihood and verdict.construction == "paper":
        return Guarantee(
            "none proven (counted on copies)",
            f"Sides were not assigned by chance, so copies answer every question anew as honest annotators would; they "
            f"count how many honest annotators would be flagged, aiming at {share} of the flags. That rests on a model "
            f"of judging and has no proof: in simulations its rate of false flags stayed at or below about {share}, "
            "and somewhat above where honest annotators also answer at random now and then.",
        )
    caveat = _caveat(verdict, variance)
    if by_likelihood:
        return Guarantee(
            "none proven (counted on copies)",
            f"The knockoff copies count how many honest annotators would be flagged, aiming at {share} of the flags; "
            f"an annotator is flagged when most draws select it. That rule has no proof: in simulations its rate of "
            f"false flags stayed at or below about {share}.{caveat}",
        )
    if draws > 1 and aggregate == "majority":
        return Guarantee(
            "none proven (majority of draws)",
            f"Each draw aims at {share} false flags on average; an annotator is flagged when most draws select it. "
            f"That rule has no proof: in simulations its rate of false flags stayed at or below about {share}.{caveat}",
        )
    if cut == "knockoff" and aggregate != "evalues":
        return Guarantee(
            "modified FDR",
            f"The modified rate of false flags (false flags divided by flags plus 1/q) is at most {share} on average "
            f"over many data sets; for short lists the share of false flags itself can be higher.{caveat}",
        )
    return Guarantee(
        "FDR",
        f"Averaged over many data sets at most {share} of the flags are false; a single list can have more.{caveat}",
    )


def _caveat(verdict: Audit, variance: str) -> str:
    if verdict.construction == "paper":
        pooled = " (here pooled in two passes, which is measured, not proven)" if variance == "two-pass" else ""
        return f" This assumes equal Gaussian noise for all annotators{pooled}."
    if not verdict.shares_coins:
        return ""
    few = f", and only {verdict.figures['coins']} coins decided" if verdict.figures["coins"] < FEW_COINS else ""
    return f" Annotators share coins here{few}: the guarantee is then an approximation, checked by simulation."
