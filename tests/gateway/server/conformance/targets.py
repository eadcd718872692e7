"""Methods, forms of a target, versions, and other protocols."""

from tests.gateway.server.conformance.case import HOST, IN_STEP, SMUGGLED, Case, get

TARGETS = {
    "absolute form": Case(get(target=b"http://a.example/"), IN_STEP),
    "absolute form without a path": Case(get(target=b"http://a.example"), IN_STEP),
    "absolute form on HTTP/1.0 without Host": Case(b"GET http://a.example/ HTTP/1.0\r\n\r\n", (200,)),
    "absolute form with another host": Case(get(target=b"http://b.example/"), (400,)),
    "absolute form without a host": Case(get(target=b"http:///"), (400,)),
    "absolute form with a user": Case(get(target=b"http://u:p@a.example/"), (400,)),
    "absolute form with another scheme": Case(get(target=b"ftp://a.example/"), (400,)),
    "authority form": Case(get(target=b"a.example:443"), (400,)),
    "asterisk form": Case(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", (404, 404)),
    "asterisk form with GET": Case(get(target=b"*"), (400,)),
    "two slashes": Case(get(target=b"//"), IN_STEP),
    "a target without a slash": Case(get(target=b"a"), (400,)),
    "no target": Case(b"GET HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "a fragment": Case(get(target=b"/#b"), (400,)),
    "a space in the target": Case(get(target=b"/a b"), (400,)),
    "a tab in the target": Case(get(target=b"/a\tb"), (400,)),
    "NUL in the target": Case(get(target=b"/\0"), (400,)),
    "DEL in the target": Case(get(target=b"/\x7f"), (400,)),
    "a high byte in the target": Case(get(target=b"/\xff"), (400,)),
    "a bare CR in the target": Case(get(target=b"/\r"), (400,)),
    "two spaces before the target": Case(get(target=b" /"), (400,)),
    "two spaces after the target": Case(get(target=b"/ "), (400,)),
    "a tab before the target": Case(b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
}

METHODS = {
    "an unknown method": Case(b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", (200,)),
    "a method in lower case": Case(b"get / HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "a method with a bad character": Case(b"G@T / HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "CONNECT": Case(b"CONNECT a.example:443 HTTP/1.1\r\n" + HOST + b"\r\n" + SMUGGLED, (501,)),
    "a space before the method": Case(b" " + get(), (400,)),
}

VERSIONS = {
    "HTTP/0.9": Case(b"GET /\r\n\r\n", (505,)),
    "HTTP/1.2": Case(get(version=b"HTTP/1.2"), (505,)),
    "HTTP/2.0": Case(get(version=b"HTTP/2.0"), (505,)),
    "HTTP/1.10": Case(get(version=b"HTTP/1.10"), (400,)),
    "HTTP/01.1": Case(get(version=b"HTTP/01.1"), (400,)),
    "http/1.1": Case(get(version=b"http/1.1"), (400,)),
    "RTSP": Case(b"OPTIONS / RTSP/1.0\r\n" + HOST + b"\r\n", (400,)),
    "a space after the version": Case(get(version=b"HTTP/1.1 "), (400,)),
    "no version number": Case(get(version=b"HTTX"), (400,)),
}

STRANGERS = {
    "the preface of HTTP/2": Case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (505,)),
    "a TLS hello": Case(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400,)),
    "an SSH hello": Case(b"SSH-2.0-OpenSSH_9.6\r\n", (400,)),
    "the PROXY protocol": Case(b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n", (400,)),
    "binary noise": Case(bytes(range(128, 256)), (400,)),
}

CASES = TARGETS | METHODS | VERSIONS | STRANGERS
