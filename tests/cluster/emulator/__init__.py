"""A small cluster on one machine, made of Linux namespaces."""
