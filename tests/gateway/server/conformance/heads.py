"""Line ends, header names and values, Host, and size limits."""

from tests.gateway.server.conformance.case import HOST, IN_STEP, SMUGGLED, Case, get

LINES = {
    "plain": Case(get(), IN_STEP),
    "empty lines first": Case(b"\r\n\r\n" + get(), IN_STEP),
    "bare LF line ends": Case(b"GET / HTTP/1.1\nHost: a\n\n", (400,)),
    "bare LF after a header": Case(b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", (400,)),
    "bare LF as the empty line": Case(b"GET / HTTP/1.1\r\nHost: a\r\n\n" + SMUGGLED, (400,)),
    "a bare CR as the empty line": Case(b"GET / HTTP/1.1\r\nHost: a\r\n\r" + SMUGGLED, (400,)),
    "two CRs after a header": Case(b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", (400,)),
    "a bare CR in a value": Case(b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", (400,)),
    "a folded line": Case(get(b"X: a\r\n b"), (400,)),
    "a folded line of spaces": Case(get(b"X: a\r\n "), (400,)),
    "a space before the first header": Case(b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", (400,)),
    "a tab before the first header": Case(b"GET / HTTP/1.1\r\n\tX: a\r\n" + HOST + b"\r\n", (400,)),
}

FIELDS = {
    "no value": Case(get(b"X:"), IN_STEP),
    "a tab and high bytes in a value": Case(get(b"X: a\tb\xff"), IN_STEP),
    "a colon in a value": Case(get(b"X: a:b"), IN_STEP),
    "names in capitals": Case(b"GET / HTTP/1.1\r\nHOST: a\r\nCONNECTION: Keep-Alive\r\n\r\n", IN_STEP),
    "a space before the colon": Case(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", (400,)),
    "a tab before the colon": Case(get(b"X\t: a"), (400,)),
    "a header without a colon": Case(get(b"X"), (400,)),
    "a header without a name": Case(get(b": x"), (400,)),
    "NUL in a value": Case(get(b"X: a\0b"), (400,)),
    "NUL in a name": Case(get(b"X\0: a"), (400,)),
    "a control character in a value": Case(get(b"X: a\x01"), (400,)),
    "DEL in a value": Case(get(b"X: a\x7f"), (400,)),
    "a control character in a name": Case(get(b"X\x01: a"), (400,)),
    "a bad character in a name": Case(get(b"X(Y): a"), (400,)),
    "a high byte in a name": Case(get(b"X\xff: a"), (400,)),
}

HOSTS = {
    "no Host": Case(b"GET / HTTP/1.1\r\n\r\n", (400,)),
    "two Hosts": Case(get(HOST[:-2]), (400,)),
    "two different Hosts": Case(get(b"Host: b.example"), (400,)),
    "two Hosts on HTTP/1.0": Case(get(HOST[:-2], version=b"HTTP/1.0"), (400,)),
    "an empty Host": Case(b"GET / HTTP/1.1\r\nHost:\r\n\r\n", IN_STEP),
    "a Host with a port": Case(b"GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n", IN_STEP),
    "an IPv6 Host": Case(b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", IN_STEP),
    "a space in Host": Case(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", (400,)),
    "a Host with a path": Case(b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", (400,)),
    "a Host with a user": Case(b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", (400,)),
    "a list of Hosts": Case(b"GET / HTTP/1.1\r\nHost: a b, c\r\n\r\n", (400,)),
}

CONNECTIONS = {
    "close": Case(get(b"Connection: close"), (200,)),
    "close among others": Case(get(b"Connection: keep-alive, Close"), (200,)),
    "close in a second header": Case(get(b"Connection: keep-alive", b"Connection: close"), (200,)),
    "a word like close": Case(get(b"Connection: closed"), IN_STEP),
    "HTTP/1.0": Case(b"GET / HTTP/1.0\r\n\r\n", (200,)),
    "HTTP/1.0 with keep-alive": Case(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", IN_STEP),
    "HTTP/1.0 with keep-alive and close": Case(b"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", (200,)),
    "a websocket": Case(
        get(
            b"Connection: Upgrade",
            b"Upgrade: websocket",
            b"Sec-WebSocket-Version: 13",
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ),
        IN_STEP,
    ),
    "h2c": Case(get(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: !"), IN_STEP),
    "Upgrade alone": Case(get(b"Upgrade: websocket"), IN_STEP),
    "pipelined": Case(get() * 20, (200,) * 20 + (404,)),
    "a rejected request after a valid one": Case(get() + get(b"X"), (200, 400)),
}

SIZES = {
    "a long target": Case(get(target=b"/" + b"a" * 20_000), (414,)),
    "an endless target": Case(b"GET /" + b"a" * 20_000, (414,)),
    "a large header": Case(get(b"X: " + b"a" * 40_000), (431,)),
    "an endless name": Case(b"GET / HTTP/1.1\r\n" + b"X" * 40_000, (431,)),
    "endless headers": Case(b"GET / HTTP/1.1\r\n" + b"X: aaaaaaa\r\n" * 4_000, (431,)),
    "many headers": Case(get(*[b"X: a"] * 100), (431,)),
    "an endless method": Case(b"G" * 40_000, (400,)),
}

CASES = LINES | FIELDS | HOSTS | CONNECTIONS | SIZES
