"""Describing a problem. Everything here is frozen and checked when it is made."""
