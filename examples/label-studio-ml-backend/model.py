"""The model as label-studio-ml's server mounts it: all it does is in Evenhand."""

from evenhand.sdk_model import EvenhandModel


class NewModel(EvenhandModel):
    """Predicts the corrected consensus of the latest run and takes annotation events; `evenhand worker` judges."""
