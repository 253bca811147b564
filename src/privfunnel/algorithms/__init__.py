"""The solvers: one package or module an algorithm, each a frozen keyword-only dataclass; names in :mod:`.registry`."""
