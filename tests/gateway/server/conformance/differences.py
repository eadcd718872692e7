"""Where nginx (1.22 and later, as a proxy in front of us) and Hypercorn respond differently, and why.

nginx writes a new request for its upstream server, so no second server parses the client's bytes. Our server may be
behind a proxy that forwards them unchanged, so it rejects whatever two servers could parse differently.
"""

from types import MappingProxyType

from tests.gateway.server.conformance.case import IN_STEP

Statuses = tuple[int, ...]
WAITS = -1
"""Instead of a status: the server waits for more bytes, longer than a test can wait."""

_BOTH_READ = (200, 404, 404)
"""The following bytes are read as a request, which is correct by that server's rule for line ends."""

NGINX = MappingProxyType(
    {
        "a bare LF ends a line, as RFC 9112, 2.2 allows": {
            "bare LF line ends": IN_STEP,
            "bare LF after a header": IN_STEP,
            "bare LF as the empty line": _BOTH_READ,
            "a bare LF after a size": _BOTH_READ,
            "a bare LF in an extension": _BOTH_READ,
            "a bare LF after a chunk": _BOTH_READ,
            "a bare LF at the end": _BOTH_READ,
            "two CRs after a header": IN_STEP,
            "a request line with a bare LF": IN_STEP,
            "a bare LF after a trailer": _BOTH_READ,
        },
        "trailers and everything after a chunk's size are skipped unread": {
            "a space after a size": IN_STEP,
            "a tab after a size": IN_STEP,
            "a space before an extension": IN_STEP,
            "NUL in an extension": IN_STEP,
            "a trailer without a colon": IN_STEP,
            "a folded trailer": IN_STEP,
            "a space before a trailer's colon": IN_STEP,
            "NUL in a trailer": IN_STEP,
            "endless trailers": (200,),
        },
        "a chunk's size may have any number of zeros": {"a size with too many zeros": IN_STEP},
        "an unreadable header is dropped, and the rest is forwarded": {
            "a header without a colon": IN_STEP,
            "a bad character in a name": IN_STEP,
            "a high byte in a name": IN_STEP,
            "a rejected request after a valid one": (200, 200, 404),
        },
        "a request line may have more spaces, any version 1.x and any scheme": {
            "two spaces before the target": IN_STEP,
            "two spaces after the target": IN_STEP,
            "a space after the version": IN_STEP,
            "HTTP/1.2": IN_STEP,
            "HTTP/1.10": IN_STEP,
            "absolute form with another scheme": IN_STEP,
        },
        "the target's host replaces Host without a comparison, and may have a user": {
            "absolute form with another host": IN_STEP,
            "a Host with a user": IN_STEP,
            "absolute form with a port that Host lacks": IN_STEP,
        },
        "forwarded and rejected by us, but the client's connection stays open": {
            "a control character in a value": (400, 404),
            "DEL in a value": (400, 404),
            "a fragment": (400, 404),
            "a high byte in the target": (400, 404),
            "many headers": (431, 404),
            "an unknown method": IN_STEP,
        },
        "HTTP/0.9 is still supported": {"HTTP/0.9": (0,)},
        "stricter: no tab around a length, no empty Host, no asterisk, methods in capitals, close by prefix": {
            "spaces around a length": (400,),
            "an empty Host": (400,),
            "asterisk form": (400,),
            "CONNECT": (400,),
            "a word like close": (200,),
        },
        "another status for the same rejection": {
            "chunks twice in one header": (501,),
            "chunks and nothing": (501,),
            "gzip and chunks": (501,),
            "chunks not last": (501,),
            "an unknown coding": (501,),
            "identity": (501,),
            "no coding": (501,),
            "a quoted coding": (501,),
            "a vertical tab before chunked": (501,),
            "a large header": (400,),
            "an endless name": (400,),
            "endless headers": (400,),
            "an endless method": (414,),
            "the preface of HTTP/2": (400,),
        },
        "a 100 is sent although no body is announced": {"100-continue without a body": (100, 200, 404)},
        "expectations other than 100-continue are dropped": {
            "an unknown expectation": IN_STEP,
            "100-continue and a parameter": IN_STEP,
        },
    }
)

HYPERCORN = MappingProxyType(
    {
        "h11 accepts a bare LF as a line end, as RFC 9112, 2.2 allows": {
            "bare LF line ends": IN_STEP,
            "bare LF after a header": IN_STEP,
            "bare LF as the empty line": _BOTH_READ,
            "a bare LF at the end": _BOTH_READ,
            "a request line with a bare LF": IN_STEP,
            "a bare LF after a trailer": _BOTH_READ,
        },
        "h11 unfolds lines": {
            "a folded line": IN_STEP,
            "a folded line of spaces": IN_STEP,
            "a folded length": IN_STEP,
            "a folded coding": IN_STEP,
            "a folded trailer": IN_STEP,
        },
        "h11 accepts control characters in values and extensions, and spaces after a size": {
            "a control character in a value": IN_STEP,
            "DEL in a value": IN_STEP,
            "NUL in an extension": IN_STEP,
            "a bare CR in an extension": IN_STEP,
            "a space after a size": IN_STEP,
            "a tab after a size": IN_STEP,
        },
        "h11 accepts equal lengths as one, as RFC 9112, 6.3 allows": {
            "two equal lengths": IN_STEP,
            "a list of lengths": IN_STEP,
        },
        "Hypercorn has no time limit for a body": {
            "a length above 64 bits": (WAITS,),
            "a size above 64 bits": (WAITS,),
        },
        "h11 leaves Host, methods, targets and expectations to the app": {
            "a space in Host": IN_STEP,
            "a Host with a path": IN_STEP,
            "a Host with a user": IN_STEP,
            "a list of Hosts": IN_STEP,
            "an unknown method": IN_STEP,
            "100-continue twice": (100, 200, 404),
            "absolute form": (404, 404),
            "absolute form without a path": (404, 404),
            "absolute form on HTTP/1.0 without Host": (404,),
            "absolute form with another host": (404, 404),
            "absolute form without a host": (404, 404),
            "absolute form with a user": (404, 404),
            "absolute form in capitals": (404, 404),
            "absolute form with a port that Host lacks": (404, 404),
            "absolute form with another scheme": (404, 404),
            "authority form": (404, 404),
            "asterisk form with GET": (404, 404),
            "a target without a slash": (404, 404),
            "a fragment": (404, 404),
        },
        "h11 closes after every HTTP/1.0 response": {"HTTP/1.0 with keep-alive": (200,)},
        "h11 accepts no empty line before a request": {
            "empty lines first": (400,),
            "thousands of empty lines first": (400,),
            "an empty line after a body": (200, 400),
            "empty lines after chunks": (200, 400),
            "a bare LF between requests": (200, 400),
        },
        "it only limits the size of an incomplete head, and not the number of headers": {
            "an endless method": (404,),
            "a large header": IN_STEP,
        },
        "cleartext HTTP/2 is read and then rejected": {"HTTP/2.0": (505, 404), "the preface of HTTP/2": (505, 400)},
        "another status for the same rejection": {
            "an endless target": (400,),
            "an endless name": (400,),
            "endless headers": (400,),
            "HTTP/0.9": (400,),
        },
        "a 100 is sent although no body is announced": {"100-continue without a body": (100, 200, 404)},
    }
)
