"""What a caller may do: each route is for some kinds of caller, and a table of all of them is made from the code."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from flask import Flask

from evenhand.domain import Role

Access = Literal["public", "protocol", "webhook", "metrics", "account", "reader", "reviewer", "owner"]
#: Who calls: nobody known, whoever has the webhook secret, or somebody with a role.
Caller = Literal["stranger", "secret", "protocol", "reader", "reviewer", "owner"]
View = TypeVar("View", bound=Callable[..., Any])
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
ACCESS = "evenhand_access"
STATIC = "dashboard.static"
CALLERS: tuple[Caller, ...] = ("stranger", "secret", "protocol", "reader", "reviewer", "owner")
#: Who may call what. Label Studio's routes are its own: people have the API and the pages, and rights of their own.
ALLOWED: dict[Access, frozenset[Caller]] = {
    "public": frozenset(CALLERS),
    "protocol": frozenset({"protocol"}),
    "webhook": frozenset({"stranger", "secret", "protocol"}),
    "metrics": frozenset({"protocol", "reader", "reviewer", "owner"}),
    "account": frozenset({"reader", "reviewer", "owner"}),
    "reader": frozenset({"reader", "reviewer", "owner"}),
    "reviewer": frozenset({"reviewer", "owner"}),
    "owner": frozenset({"owner"}),
}
#: Routes of Label Studio, which nobody's role but its own opens.
LABEL_STUDIO_S: frozenset[Access] = frozenset({"protocol", "webhook"})


@dataclass(frozen=True)
class Right:
    """One line of the table: who may call which route with which method, and what that does."""

    route: str
    method: str
    who: tuple[Caller, ...]
    what: str


def access(needed: Access) -> Callable[[View], View]:
    """Mark who may call a view."""

    def mark(view: View) -> View:
        setattr(view, ACCESS, needed)
        return view

    return mark


def access_needed(app: Flask, endpoint: str | None, method: str = "GET") -> Access:
    """Who may call an endpoint; unmarked ones are for readers, and for owners where they change something."""
    if endpoint == STATIC:
        return "public"
    unmarked: Access = "reader" if method in SAFE_METHODS else "owner"
    needed: Access = getattr(app.view_functions.get(endpoint or ""), ACCESS, unmarked)
    return needed


def is_allowed(caller: Role | Caller, needed: Access) -> bool:
    """Whether a caller of this kind may."""
    return caller in ALLOWED[needed]


def rights(app: Flask) -> Iterator[Right]:
    """Every route and method of the service, in the order of their addresses."""
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        view = app.view_functions[rule.endpoint]
        what = "A file of the pages." if rule.endpoint == STATIC else (view.__doc__ or "").strip().partition("\n")[0]
        route = re.sub(r"<[^>]*?(\w+)>", r"{\1}", rule.rule)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            allowed = ALLOWED[access_needed(app, rule.endpoint, method)]
            yield Right(route, method, tuple(caller for caller in CALLERS if caller in allowed), what)
