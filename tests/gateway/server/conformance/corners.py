"""Attacks beyond the plain cases: bytes between requests, unread bodies, headers about headers."""

from tests.gateway.server.conformance.case import HOST, IN_STEP, SMUGGLED, Case, chunked, get, post

BETWEEN = {
    "an empty line after a body": Case(post(b"Content-Length: 3", body=b"abc\r\n"), IN_STEP),
    "empty lines after chunks": Case(chunked(b"3\r\nabc\r\n0\r\n\r\n\r\n\r\n"), IN_STEP),
    "an extra byte after a body": Case(post(b"Content-Length: 3", body=b"abcd"), (200, 400)),
    "NUL between requests": Case(get() + b"\0", (200, 400)),
    "a bare LF between requests": Case(get() + b"\n", IN_STEP),
    "thousands of empty lines first": Case(b"\r\n" * 3_000 + get(), IN_STEP),
}

UNASKED = {
    "a body of GET": Case(get(b"Content-Length: 43") + SMUGGLED, IN_STEP),
    "chunks of GET": Case(get(b"Transfer-Encoding: chunked") + b"2b\r\n" + SMUGGLED + b"\r\n0\r\n\r\n", IN_STEP),
    "a body of OPTIONS": Case(b"OPTIONS / HTTP/1.1\r\n" + HOST + b"Content-Length: 43\r\n\r\n" + SMUGGLED, IN_STEP),
    "a body of GET on HTTP/1.0": Case(get(b"Content-Length: 43", version=b"HTTP/1.0") + SMUGGLED, (200,)),
}

ABOUT = {
    "Connection names Content-Length": Case(
        post(b"Connection: keep-alive, Content-Length", b"Content-Length: 43", body=SMUGGLED), IN_STEP
    ),
    "Connection names Transfer-Encoding": Case(
        post(b"Connection: Transfer-Encoding", b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n"), IN_STEP
    ),
    "Connection names Host": Case(get(b"Connection: Host"), IN_STEP),
    "a method override": Case(get(b"X-HTTP-Method-Override: DELETE"), IN_STEP),
    "TE and Trailer": Case(get(b"TE: trailers, gzip;q=0.5", b"Trailer: X-Sum"), IN_STEP),
    "100-continue twice": Case(
        post(b"Expect: 100-continue", b"Expect: 100-continue", b"Content-Length: 1", body=b"a"), (400,)
    ),
    "100-continue in capitals, with chunks": Case(
        post(b"Expect: 100-CONTINUE", b"Transfer-Encoding: chunked", body=b"1\r\na\r\n0\r\n\r\n"), (100, 200, 404)
    ),
    "100-continue and a parameter": Case(post(b"Expect: 100-continue;a", b"Content-Length: 1", body=b"a"), (417,)),
}

WRITTEN = {
    "a request line with a bare LF": Case(b"GET / HTTP/1.1\nHost: a.example\r\n\r\n", (400,)),
    "a request line with two CRs": Case(b"GET / HTTP/1.1\r\r\nHost: a.example\r\n\r\n", (400,)),
    "no space after the method": Case(b"GET/ HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "an empty target": Case(b"GET  HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "a tab before the version": Case(b"GET /\tHTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "absolute form in capitals": Case(get(target=b"HTTP://A.EXAMPLE/"), IN_STEP),
    "absolute form with a port that Host lacks": Case(get(target=b"http://a.example:80/"), (400,)),
    "a vertical tab after a length": Case(post(b"Content-Length: 3\x0b", body=b"abc"), (400,)),
    "a form feed before a length": Case(post(b"Content-Length:\x0c3", body=b"abc"), (400,)),
    "a length in full-width digits": Case(post("Content-Length: \uff13".encode(), body=b"abc"), (400,)),
    "a space before a size": Case(chunked(b" 3\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a tab after a size": Case(chunked(b"3\t\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a size with too many zeros": Case(chunked(b"0" * 20 + b"3\r\nabc\r\n0\r\n\r\n"), (400,)),
    "a bare LF after a trailer": Case(chunked(b"0\r\nX: a\n\r\n" + SMUGGLED), (400,)),
    "a coding as a trailer": Case(chunked(b"0\r\nTransfer-Encoding: chunked\r\n\r\n"), IN_STEP),
    "the maximum number of headers": Case(get(*[b"X: a"] * 99), IN_STEP),
}

CASES = BETWEEN | UNASKED | ABOUT | WRITTEN
