"""Commands for those who own accounts: the people who sign in, and the packs that they buy."""
