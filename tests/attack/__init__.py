"""What somebody who means ill can do to a server, and what the others notice of it."""
