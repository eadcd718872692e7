"""Commands about account owners: the users who sign in, and the packs that they buy."""
