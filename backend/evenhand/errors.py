"""Everything the service raises on purpose.

BackendError
├── SettingsError            the environment is wrong; start-up stops
├── RequestError             the caller sent something we cannot take (4xx)
│   ├── PayloadError         400: not JSON, wrong types, missing fields
│   ├── NotFoundError        404
│   ├── UnusableValueError   422: what was given does not fit, such as settings and label config
│   ├── UnauthorizedError    401
│   ├── ForbiddenError       403
│   ├── TooManyAttemptsError 429
│   ├── TooLargeError        413: more entries than are taken at once
│   ├── UnsupportedBodyError 415: a body that is not JSON
│   └── ConflictError        409
└── StoreError               503: the database cannot answer now
    ├── StoreBusyError       locked longer than we wait
    ├── StoreDamagedError    its file is not what was written: only a backup helps
    └── LeaseLostError       another process took over this piece of work
"""


class BackendError(Exception):
    """Root of all errors of the service; `code` is stable, the message is for people."""

    code = "internal_error"
    status = 500
    remedy = ""  # what to do next, where the message does not say it


class SettingsError(BackendError):
    """The environment does not describe a service that can start."""

    code = "bad_settings"


class RequestError(BackendError):
    """The caller sent something that cannot be accepted."""

    code = "bad_request"
    status = 400


class PayloadError(RequestError):
    """A body that is not what the protocol promises."""

    code = "bad_payload"


class NotFoundError(RequestError):
    """The thing asked for does not exist."""

    code = "not_found"
    status = 404


class UnusableValueError(RequestError):
    """What was given is readable but does not fit: settings against their label config, a name, a file."""

    code = "bad_configuration"
    status = 422


class UnauthorizedError(RequestError):
    """No credentials, or wrong ones."""

    code = "unauthorized"
    status = 401


class ForbiddenError(RequestError):
    """Known caller, refused action (for instance a missing CSRF token)."""

    code = "forbidden"
    status = 403


class ConflictError(RequestError):
    """The state changed under the caller."""

    code = "conflict"
    status = 409


class TooLargeError(RequestError):
    """More entries in one call than are accepted."""

    code = "too_large"
    status = 413


class UnsupportedBodyError(RequestError):
    """A body of a kind that is not accepted."""

    code = "unsupported_media_type"
    status = 415


class TooManyAttemptsError(RequestError):
    """Too many failed logins; try again after `retry_after` seconds."""

    code = "too_many_attempts"
    status = 429

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StoreError(BackendError):
    """The database cannot answer now."""

    code = "store_unavailable"
    status = 503
    retry_after = 5.0


class StoreBusyError(StoreError):
    """The database stayed locked for longer than we wait."""

    code = "store_busy"
    retry_after = 1.0


class StoreDamagedError(StoreError):
    """The database's file is not what was written."""


class LeaseLostError(StoreError):
    """Another process holds the lease this work was done under; drop the work."""

    code = "lease_lost"
    status = 409
