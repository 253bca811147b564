"""The funnel as a nonlinear program in p(y|x), by general-purpose solvers from many starts."""
