"""A page to play with, served on this machine only: `widefield explore`."""
