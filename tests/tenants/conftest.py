"""Servers that tell tenants apart."""

from tests.auth.conftest import serve as serve
