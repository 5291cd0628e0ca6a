"""The scheduler: the process nobody watches, which keeps every stream table as fresh as its schedule says."""
