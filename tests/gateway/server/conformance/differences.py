"""Where nginx (1.22 and later, as a proxy in front of us) and Hypercorn answer otherwise, and for what reason.

nginx writes every request anew for the server behind it, so that nobody reads its client's bytes a second time. We may
stand behind a proxy that hands bytes on, and therefore refuse whatever two readers could read differently.
"""

from types import MappingProxyType

from tests.gateway.server.conformance.case import IN_STEP

Statuses = tuple[int, ...]
WAITS = -1
"""In the place of a status: the server waits for more, without a bound that a test could wait for."""

_BOTH_READ = (200, 404, 404)
"""The bytes behind are read as a request, which by that server's reading of the line ends they are."""

NGINX = MappingProxyType(
    {
        "a bare LF ends a line, as RFC 9112, 2.2 allows": {
            "bare LF line ends": IN_STEP,
            "bare LF behind a header": IN_STEP,
            "bare LF as the empty line": _BOTH_READ,
            "a bare LF behind a size": _BOTH_READ,
            "a bare LF in an extension": _BOTH_READ,
            "a bare LF behind a chunk": _BOTH_READ,
            "a bare LF at the end": _BOTH_READ,
            "two CRs behind a header": IN_STEP,
            "a request line with a bare LF": IN_STEP,
            "a bare LF behind a trailer": _BOTH_READ,
        },
        "what stands behind a chunk's size, and trailers, are skipped unread": {
            "a blank behind a size": IN_STEP,
            "a tab behind a size": IN_STEP,
            "a blank before an extension": IN_STEP,
            "NUL in an extension": IN_STEP,
            "a trailer without a colon": IN_STEP,
            "a folded trailer": IN_STEP,
            "a blank before a trailer's colon": IN_STEP,
            "NUL in a trailer": IN_STEP,
            "endless trailers": (200,),
        },
        "a chunk's size may have any number of zeros": {"a size with too many zeros": IN_STEP},
        "a header it cannot read is dropped, and the rest handed on": {
            "a header without a colon": IN_STEP,
            "a bad character in a name": IN_STEP,
            "a high byte in a name": IN_STEP,
            "a refusal behind a good request": (200, 200, 404),
        },
        "a request line may have more blanks, any version 1.x and any scheme": {
            "two blanks before the target": IN_STEP,
            "two blanks behind the target": IN_STEP,
            "a blank behind the version": IN_STEP,
            "HTTP/1.2": IN_STEP,
            "HTTP/1.10": IN_STEP,
            "absolute form of another scheme": IN_STEP,
        },
        "the target's host stands for Host, which is not compared with it, and may have a user": {
            "absolute form with another host": IN_STEP,
            "a Host with a user": IN_STEP,
            "absolute form with a port that Host lacks": IN_STEP,
        },
        "handed on and refused by us; its client's connection stays": {
            "a control character in a value": (400, 404),
            "DEL in a value": (400, 404),
            "a fragment": (400, 404),
            "a high byte in the target": (400, 404),
            "many headers": (431, 404),
            "an unknown method": IN_STEP,
        },
        "HTTP/0.9 is still spoken": {"HTTP/0.9": (0,)},
        "stricter: no tab around a length, no empty Host, no asterisk, methods in capitals, close by prefix": {
            "blanks around a length": (400,),
            "an empty Host": (400,),
            "asterisk form": (400,),
            "CONNECT": (400,),
            "a word like close": (200,),
        },
        "another status for the same refusal": {
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
        "100 is answered though no body is announced": {"100-continue without a body": (100, 200, 404)},
        "expectations other than 100-continue are dropped": {
            "an unknown expectation": IN_STEP,
            "100-continue and a parameter": IN_STEP,
        },
    }
)

HYPERCORN = MappingProxyType(
    {
        "h11 takes a bare LF as a line end, as RFC 9112, 2.2 allows": {
            "bare LF line ends": IN_STEP,
            "bare LF behind a header": IN_STEP,
            "bare LF as the empty line": _BOTH_READ,
            "a bare LF at the end": _BOTH_READ,
            "a request line with a bare LF": IN_STEP,
            "a bare LF behind a trailer": _BOTH_READ,
        },
        "h11 unfolds lines": {
            "a folded line": IN_STEP,
            "a folded line of blanks": IN_STEP,
            "a folded length": IN_STEP,
            "a folded coding": IN_STEP,
            "a folded trailer": IN_STEP,
        },
        "h11 takes control characters in values and extensions, and blanks behind a size": {
            "a control character in a value": IN_STEP,
            "DEL in a value": IN_STEP,
            "NUL in an extension": IN_STEP,
            "a bare CR in an extension": IN_STEP,
            "a blank behind a size": IN_STEP,
            "a tab behind a size": IN_STEP,
        },
        "h11 takes equal lengths as one, as RFC 9112, 6.3 allows": {
            "two equal lengths": IN_STEP,
            "a list of lengths": IN_STEP,
        },
        "Hypercorn has no bound on the time of a body": {
            "a length past 64 bits": (WAITS,),
            "a size past 64 bits": (WAITS,),
        },
        "h11 leaves Host, methods, targets and expectations to the app": {
            "a blank in Host": IN_STEP,
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
            "absolute form of another scheme": (404, 404),
            "authority form": (404, 404),
            "asterisk form of GET": (404, 404),
            "a target without a slash": (404, 404),
            "a fragment": (404, 404),
        },
        "h11 closes behind every answer to HTTP/1.0": {"HTTP/1.0 with keep-alive": (200,)},
        "h11 takes no empty line before a request": {
            "empty lines first": (400,),
            "thousands of empty lines first": (400,),
            "an empty line behind a body": (200, 400),
            "empty lines behind chunks": (200, 400),
            "a bare LF between requests": (200, 400),
        },
        "its one limit of size is on a head that is not complete, and it has none of number": {
            "an endless method": (404,),
            "a large header": IN_STEP,
        },
        "HTTP/2 in the clear is read, and refused in its place": {
            "HTTP/2.0": (505, 404),
            "the preface of HTTP/2": (505, 400),
        },
        "another status for the same refusal": {
            "an endless target": (400,),
            "an endless name": (400,),
            "endless headers": (400,),
            "HTTP/0.9": (400,),
        },
        "100 is answered though no body is announced": {"100-continue without a body": (100, 200, 404)},
    }
)
