"""How the gate handles failed tests: most of them get a second try, critical ones do not."""
