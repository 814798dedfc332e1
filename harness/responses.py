"""Responses for adapters that stand in for a server."""

from collections.abc import Mapping

import requests


def make_response(status: int, body: str, headers: Mapping[str, str] | None = None) -> requests.Response:
    """A response as requests would build it."""
    response = requests.Response()
    response.status_code = status
    response._content = body.encode()
    response.headers.update(
        {"Content-Type": "application/json" if body[:1] in "[{" else "text/html", **(headers or {})}
    )
    return response


def to_request(response: requests.Response, request: requests.PreparedRequest) -> requests.Response:
    """The response as the answer to this request."""
    response.request = request
    response.url = str(request.url)
    return response
