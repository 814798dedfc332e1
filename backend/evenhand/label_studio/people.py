"""The users of Label Studio."""

from evenhand.json_values import clean
from evenhand.label_studio.client import LabelStudioClient


def user_names(client: LabelStudioClient) -> dict[str, tuple[str | None, str | None]]:
    """Name and address of every user, by id."""
    people = {}
    for user in client.users():
        user = clean(user)
        full_name = " ".join(str(user.get(part) or "").strip() for part in ("first_name", "last_name")).strip()
        email = str(user.get("email") or "") or None
        people[str(user.get("id"))] = (full_name[:200] or email, email)
    return people
