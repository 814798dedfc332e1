"""What attacks share: clients of an open service hold its token unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.opened import hold_the_token


@pytest.fixture(autouse=True, scope="session")
def open_doors_known() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        hold_the_token(patch)
        yield
