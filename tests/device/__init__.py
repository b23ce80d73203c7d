"""Whole training steps on devices that are not here."""
