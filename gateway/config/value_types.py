"""The types of settings. Each type's description completes the sentence "must be ..."."""

from typing import Annotated, Literal

from msgspec import Meta

Host = Annotated[str, Meta(pattern=r"^[A-Za-z0-9.:_-]+\Z", description="a host name or an IP address")]
Port = Annotated[int, Meta(ge=0, le=65535, description="a port number from 0 to 65535")]
Count = Annotated[int, Meta(ge=1, le=100_000, description="a whole number from 1 to 100000")]
PerMinute = Annotated[int, Meta(ge=1, le=10_000_000, description="a whole number from 1 to 10000000")]
CountOrNone = Annotated[int, Meta(ge=0, le=100_000, description="a whole number from 0 to 100000")]
Access = Annotated[
    bool | Literal["errors"] | Annotated[float, Meta(ge=0, le=1)],
    Meta(description='true, false, "errors" or a share of the requests from 0 to 1'),
]
Networks = Annotated[tuple[str, ...], Meta(description='an array of addresses and networks, such as "10.0.0.0/8"')]
Workers = Annotated[int, Meta(ge=1, le=256, description="a whole number from 1 to 256")]
Retries = Annotated[int, Meta(ge=0, le=10, description="a whole number from 0 to 10")]
Days = Annotated[int, Meta(ge=1, le=3650, description="a whole number from 1 to 3650")]
DetailDays = Annotated[int, Meta(ge=7, le=3650, description="a whole number from 7 to 3650")]
Bytes = Annotated[int, Meta(ge=0, le=2**40, description="a whole number of bytes from 0 to 1099511627776")]
Seconds = Annotated[float, Meta(gt=0, le=86_400, description="a number of seconds above 0, at most 86400")]
SecondsOrNone = Annotated[float, Meta(ge=0, le=86_400, description="a number of seconds from 0 to 86400")]
Steps = Annotated[
    tuple[Seconds, ...],
    Meta(
        min_length=1, max_length=20, description="an array of 1 to 20 numbers of seconds, each above 0, at most 86400"
    ),
]
Units = Annotated[int, Meta(ge=0, le=1_000_000_000, description="a whole number from 0 to 1000000000")]
UnitPrice = Annotated[float, Meta(ge=0, le=1_000_000, description="a number from 0 to 1000000")]
HeaderText = Annotated[str, Meta(pattern=r"^[ -~]*\Z", description="text with only printable ASCII characters")]
HeaderName = Annotated[
    str, Meta(pattern=r"^x-[a-z0-9-]*[a-z0-9]-signature\Z", description="a header name such as x-<service>-signature")
]
KeyPrefix = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_-]{3}\Z", description="exactly 3 characters of A-Z, a-z, 0-9, _ and -")
]
VariableName = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?\Z",
        description="the name of an environment variable (never the secret itself)",
    ),
]

BaseAddress = Annotated[
    str,
    Meta(
        pattern=r"^(https?://[A-Za-z0-9.:\[\]_-]+(/[!-~]*)?)?\Z",
        description="a URL that starts with http:// or https://",
    ),
]

SmtpAddress = Annotated[
    str,
    Meta(
        pattern=r"^(smtps?://([!-9;=?A-~]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?)?\Z",
        description="a URL such as smtp://user@host:587, without a password",
    ),
]
MailAddress = Annotated[
    str, Meta(pattern=r"^([^@\s<>]+@[^@\s<>]+|[^<>\r\n]* <[^@\s<>]+@[^@\s<>]+>)?\Z", description="an e-mail address")
]

PackName = Annotated[
    str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}\Z", description="1 to 40 characters of a-z, 0-9, _ and -")
]
PackCredits = Annotated[
    int, Meta(ge=1, le=1_000_000_000_000, description="a whole number of credits from 1 to 1000000000000")
]
PriceCents = Annotated[
    int, Meta(ge=0, le=99_999_999, description="a whole number of the currency's smallest unit from 0 to 99999999")
]
Currency = Annotated[
    str,
    Meta(pattern=r"^[a-z]{3}\Z", description='a currency code of three lower-case letters (ISO 4217), such as "usd"'),
]
