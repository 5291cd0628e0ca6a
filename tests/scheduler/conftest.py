"""The PostgreSQL server of the catalog's tests, here too."""

from catalog.conftest import postgresql, postgresql_url

__all__ = ["postgresql", "postgresql_url"]
