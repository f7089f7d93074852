"""Sign-in through an OpenID Connect provider: the page by authorization code, machines by device code."""
