"""Names that hide who is meant from everybody who does not hold this installation's key."""

import base64
import hashlib
import hmac
from collections.abc import Iterable

#: The name under which the store keeps this installation's key.
PSEUDONYM_KEY = "pseudonyms"


def pseudonym(key: str, project_id: int, annotator_id: str) -> str:
    """A stable name for one annotator of one project; another project gives another name."""
    digest = hmac.new(key.encode(), f"{project_id}:{annotator_id}".encode(), hashlib.sha256).digest()
    code = base64.b32encode(digest[:5]).decode()
    return f"annotator-{code[:4]}-{code[4:]}".lower()


def resolve(key: str, project_id: int, name: str, annotator_ids: Iterable[str]) -> str | None:
    """The annotator behind a pseudonym, or None if it is nobody's."""
    for annotator_id in annotator_ids:
        if hmac.compare_digest(pseudonym(key, project_id, annotator_id).encode(), name.encode()):
            return annotator_id
    return None
