"""Drafter folders: weights, configuration and card, written whole and checked against a target when read."""
