"""Mnemolog under one import name: the folders of this package are links to those beside it."""
