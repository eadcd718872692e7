"""The people of an account: users, their sessions, passwords and second factors (decisions 22)."""
