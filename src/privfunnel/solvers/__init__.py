"""The solvers: one algorithm a file, each a frozen keyword-only dataclass. :mod:`.registry` has their names."""
