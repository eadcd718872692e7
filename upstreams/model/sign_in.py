"""Ready-made ways to sign in to an upstream: with an application's client credentials, and with an app password.

SIGN_IN = client_credentials("/oauth2/token", source="sign_in", extra={"scope": "read"})
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from upstreams.model import fields
from upstreams.model.errors import UnexpectedBody
from upstreams.model.params import Credentials, Value
from upstreams.model.steps import Answer, Call, Headers, Session, SessionSteps, SignInSteps

SessionHeaders = Callable[[Credentials, str], Headers]
"""Returns the headers of a session, from the credentials and the token."""
_TOKEN_MAX: Final = 8_192
"""The maximum length of a token. Each call contains the token."""
_TOKEN_S: Final = 3_600.0
"""How long a token is valid if the upstream does not say, in seconds."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """The steps of a sign-in, and the credentials that they use.

    A session that all nodes share stays valid until one of these credentials changes.
    """

    steps: SignInSteps
    names: tuple[str, ...]

    def __call__(self, credentials: Credentials) -> SessionSteps:
        """Return the steps."""
        return self.steps(credentials)


def basic(user: str, password: str) -> tuple[str, str]:
    """Return the header for Basic authentication (RFC 7617)."""
    return "authorization", f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def bearer(_credentials: Credentials, token: str) -> Headers:
    """Return the header that contains a bearer token (RFC 6750)."""
    return (("authorization", f"Bearer {token}"),)


def client_credentials(
    path: str,
    *,
    source: str = "",
    names: tuple[str, str] = ("identifier", "password"),
    form: tuple[str, str] | None = None,
    user: tuple[str, str] | None = None,
    extra: Mapping[str, Value] | None = None,
    headers: SessionHeaders = bearer,
) -> SignIn:
    """Sign an application in (RFC 6749, 4.4): a POST to `path`, which returns `access_token` and `expires_in`.

    - `names` are the credentials with the application's id and secret. They are sent as Basic authentication, or as the
      two members `form` of the form, such as `("client_id", "client_secret")`.
    - `user` are the credentials with the name and the password of a user, for upstreams that require one (RFC 6749,
      4.3).
    - `extra` contains more members of the form, such as a scope.
    - `headers` makes the headers of the session.
    """

    def steps(credentials: Credentials) -> SessionSteps:
        identifier, secret = (credentials[name] for name in names)
        members: dict[str, Value] = {"grant_type": "client_credentials", **(extra or {})}
        if user is not None:
            members |= {"grant_type": "password"}
            members |= {name: credentials[one] for name, one in zip(("username", "password"), user, strict=True)}
        signature: Headers = ()
        if form is None:
            signature = (basic(identifier, secret),)
        else:
            members |= dict(zip(form, (identifier, secret), strict=True))
        answer = yield Call(path, source=source, method="POST", form=members, headers=signature, only_reads=True)
        token = _token(answer, "access_token")
        ttl_s = fields.count(fields.obj(answer.body), "expires_in") or _TOKEN_S
        return Session(headers(credentials, token), ttl_s)

    return SignIn(steps, (*names, *(user or ())))


def app_password(
    path: str,
    *,
    source: str = "",
    names: tuple[str, str] = ("identifier", "password"),
    members: tuple[str, str] = ("identifier", "password"),
    at: str,
    ttl_s: float,
    headers: SessionHeaders = bearer,
) -> SignIn:
    """Sign in with a user name and an app password: a POST to `path` with a JSON object, which returns a token.

    - `names` are the credentials, and `members` the members of the object that contain them.
    - `at` is the member of the answer with the token, which is valid for `ttl_s` seconds.
    - `headers` makes the headers of the session.

    The POST is never repeated, because upstreams limit the sign-ins of a user.
    """

    def steps(credentials: Credentials) -> SessionSteps:
        login = {member: credentials[name] for member, name in zip(members, names, strict=True)}
        answer = yield Call(path, source=source, method="POST", json=login)
        return Session(headers(credentials, _token(answer, at)), ttl_s)

    return SignIn(steps, names)


def _token(answer: Answer, member: str) -> str:
    token = fields.text(fields.obj(answer.body), member)
    if token is None or len(token) > _TOKEN_MAX:
        raise UnexpectedBody("the sign-in returned no access token")
    return token
