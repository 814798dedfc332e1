"""JSON as strangers send it: refused where it is none, cleaned where no database would hold it."""

import pytest
from evenhand.errors import PayloadError
from evenhand.json_values import parse_json


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff\xfe", b'{"a": NaN}', b"[" * 200_000, b'{"a":' * 200_000, b"1" * 5000]
)
def test_json_that_is_none_is_refused(raw: bytes) -> None:
    with pytest.raises(PayloadError):
        parse_json(raw)


def test_json_with_characters_no_database_holds_is_cleaned() -> None:
    assert parse_json(b'{"a\\u0000": ["\\ud800x"]}') == {"a\ufffd": ["\ufffdx"]}
