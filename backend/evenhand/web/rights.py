"""What a caller may do: four roles, each with the rights of the ones before it but for Label Studio's own."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from flask import Flask

from evenhand.domain import ROLES, Role

Access = Literal["public", "protocol", "webhook", "account", "reader", "reviewer", "owner"]
View = TypeVar("View", bound=Callable[..., Any])
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
ACCESS = "evenhand_access"
#: Who may call what; "public" needs nobody.
ALLOWED: dict[Access, frozenset[Role]] = {
    "webhook": frozenset(ROLES),
    "protocol": frozenset(ROLES),
    "account": frozenset(ROLES) - {"protocol"},
    "reader": frozenset({"reader", "reviewer", "owner"}),
    "reviewer": frozenset({"reviewer", "owner"}),
    "owner": frozenset({"owner"}),
}


def access(needed: Access) -> Callable[[View], View]:
    """Mark who may call a view."""

    def mark(view: View) -> View:
        setattr(view, ACCESS, needed)
        return view

    return mark


def access_needed(app: Flask, endpoint: str | None, method: str = "GET") -> Access:
    """Who may call an endpoint; unmarked ones are for readers, and for owners where they change something."""
    if endpoint == "dashboard.static":
        return "public"
    unmarked: Access = "reader" if method in SAFE_METHODS else "owner"
    needed: Access = getattr(app.view_functions.get(endpoint or ""), ACCESS, unmarked)
    return needed


def is_allowed(role: Role, needed: Access) -> bool:
    """Whether a role suffices."""
    return needed == "public" or role in ALLOWED[needed]
