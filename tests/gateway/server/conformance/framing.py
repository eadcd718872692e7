"""Where a body ends: lengths, chunks, both, and all ways to smuggle a second request."""

from tests.gateway.server.conformance.case import IN_STEP, SMUGGLED, Case, chunked, post

LENGTHS = {
    "a length": Case(post(b"Content-Length: 3", body=b"abc"), IN_STEP),
    "length zero": Case(post(b"Content-Length: 0"), IN_STEP),
    "no length": Case(post(), IN_STEP),
    "a length with leading zeros": Case(post(b"Content-Length: 0003", body=b"abc"), IN_STEP),
    "spaces around a length": Case(post(b"Content-Length: \t 3 \t", body=b"abc"), IN_STEP),
    "two equal lengths": Case(post(b"Content-Length: 1", b"Content-Length: 1", body=b"a"), (400,)),
    "two lengths": Case(post(b"Content-Length: 1", b"Content-Length: 2", body=b"ab"), (400,)),
    "a list of lengths": Case(post(b"Content-Length: 1, 1", body=b"a"), (400,)),
    "a signed length": Case(post(b"Content-Length: +1", body=b"a"), (400,)),
    "a negative length": Case(post(b"Content-Length: -1", body=b"a"), (400,)),
    "a hexadecimal length": Case(post(b"Content-Length: 0x1", body=b"a"), (400,)),
    "a length with an underscore": Case(post(b"Content-Length: 1_0", body=b"a" * 10), (400,)),
    "an empty length": Case(post(b"Content-Length:"), (400,)),
    "a length above 64 bits": Case(post(b"Content-Length: 99999999999999999999", body=b"a"), (400,)),
    "a length in two words": Case(post(b"Content-Length: 1 2", body=b"a"), (400,)),
    "a space before a length's colon": Case(post(b"Content-Length : 43", body=SMUGGLED), (400,)),
    "a folded length": Case(post(b"Content-Length:\r\n 43", body=SMUGGLED), (400,)),
}

CODINGS = {
    "chunks": Case(chunked(b"3\r\nabc\r\n0\r\n\r\n"), IN_STEP),
    "chunked in capitals": Case(post(b"Transfer-Encoding: CHUNKED", body=b"3\r\nabc\r\n0\r\n\r\n"), IN_STEP),
    "length and chunks": Case(
        post(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED), (400,)
    ),
    "chunks and length": Case(
        post(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n" + SMUGGLED), (400,)
    ),
    "a length of all bytes, and chunks": Case(
        post(b"Content-Length: 51", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED), (400,)
    ),
    "chunks twice": Case(post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), (400,)),
    "chunks twice in one header": Case(post(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"), (400,)),
    "chunks and nothing": Case(post(b"Transfer-Encoding: chunked,", body=b"0\r\n\r\n"), (400,)),
    "gzip and chunks": Case(post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), (400,)),
    "chunks not last": Case(post(b"Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"), (400,)),
    "an unknown coding": Case(post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), (400,)),
    "identity": Case(post(b"Transfer-Encoding: identity", b"Content-Length: 3", body=b"abc"), (400,)),
    "no coding": Case(post(b"Transfer-Encoding:", b"Content-Length: 3", body=b"abc"), (400,)),
    "a quoted coding": Case(post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"), (400,)),
    "a vertical tab before chunked": Case(post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"), (400,)),
    "a space before the coding's colon": Case(
        post(b"Transfer-Encoding : chunked", b"Content-Length: 5", body=b"0\r\n\r\n" + SMUGGLED), (400,)
    ),
    "a folded coding": Case(post(b"Transfer-Encoding:\r\n chunked", body=b"0\r\n\r\n"), (400,)),
    "a coding after a bare CR": Case(
        post(b"X: y\rTransfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n" + SMUGGLED), (400,)
    ),
    "a coding after a bare LF": Case(
        post(b"X: y\nTransfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n" + SMUGGLED), (400,)
    ),
    "a coding header with an underscore": Case(
        post(b"Transfer_Encoding: chunked", b"Content-Length: 3", body=b"abc"), IN_STEP
    ),
    "chunks on HTTP/1.0": Case(
        post(b"Transfer-Encoding: chunked", b"Connection: keep-alive", version=b"HTTP/1.0", body=b"0\r\n\r\n"), (400,)
    ),
}

CHUNKS = {
    "an extension": Case(chunked(b"3;a=b\r\nabc\r\n0;c\r\n\r\n"), IN_STEP),
    "a quoted extension": Case(chunked(b'3;a="b;c"\r\nabc\r\n0\r\n\r\n'), IN_STEP),
    "a trailer": Case(chunked(b"3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"), IN_STEP),
    "a length as a trailer": Case(chunked(b"3\r\nabc\r\n0\r\nContent-Length: 43\r\n\r\n"), IN_STEP),
    "a size with leading zeros": Case(chunked(b"003\r\nabc\r\n000\r\n\r\n"), IN_STEP),
    "a size that is not a number": Case(chunked(b"z\r\n" + SMUGGLED), (400,)),
    "a signed size": Case(chunked(b"+3\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a negative size": Case(chunked(b"-3\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a size with 0x": Case(chunked(b"0x3\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a size with an underscore": Case(chunked(b"0_3\r\nabc\r\n0\r\n\r\n"), (400,)),
    "no size": Case(chunked(b"\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a size above 64 bits": Case(chunked(b"10000000000000003\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a space after a size": Case(chunked(b"3 \r\nabc\r\n0\r\n\r\n"), (400,)),
    "a space before an extension": Case(chunked(b"3 ;a\r\nabc\r\n0\r\n\r\n"), (400,)),
    "an endless extension": Case(chunked(b"3;" + b"a" * 40_000), (400,)),
    "a bare LF after a size": Case(chunked(b"3\nabc\r\n0\r\n\r\n" + SMUGGLED), (400,)),
    "a bare CR after a size": Case(chunked(b"3\rabc\r\n0\r\n\r\n" + SMUGGLED), (400,)),
    "a bare LF in an extension": Case(chunked(b"3;a\nabc\r\n0\r\n\r\n" + SMUGGLED), (400,)),
    "a bare CR in an extension": Case(chunked(b"3;a\rb\r\nabc\r\n0\r\n\r\n"), (400,)),
    "NUL in an extension": Case(chunked(b"3;a\0\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a bare LF after a chunk": Case(chunked(b"3\r\nabc\n0\r\n\r\n" + SMUGGLED), (400,)),
    "a bare LF at the end": Case(chunked(b"3\r\nabc\r\n0\r\n\n" + SMUGGLED), (400,)),
    "a chunk longer than its size": Case(chunked(b"3\r\nabcd\r\n0\r\n\r\n"), (400,)),
    "a chunk shorter than its size": Case(chunked(b"5\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a trailer without a colon": Case(chunked(b"0\r\nX\r\n\r\n"), (400,)),
    "a folded trailer": Case(chunked(b"0\r\nX: a\r\n b\r\n\r\n"), (400,)),
    "a space before a trailer's colon": Case(chunked(b"0\r\nX : a\r\n\r\n"), (400,)),
    "NUL in a trailer": Case(chunked(b"0\r\nX: a\0\r\n\r\n"), (400,)),
    "endless trailers": Case(chunked(b"0\r\n" + b"X: a\r\n" * 8_000), (400,)),
    "no last chunk": Case(chunked(b"3\r\nabc\r\n"), (400,)),
}

CONTINUED = {
    "100-continue": Case(post(b"Expect: 100-continue", b"Content-Length: 3", body=b"abc"), (100, 200, 404)),
    "100-continue without a body": Case(post(b"Expect: 100-continue"), IN_STEP),
    "100-continue on HTTP/1.0": Case(
        post(b"Expect: 100-continue", b"Content-Length: 3", version=b"HTTP/1.0", body=b"abc"), (200,)
    ),
    "an unknown expectation": Case(post(b"Expect: gold", b"Content-Length: 1", body=b"a"), (417,)),
}

CASES = LENGTHS | CODINGS | CHUNKS | CONTINUED
