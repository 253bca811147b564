"""Other problems with the funnel's ingredients: the bottleneck, guesses, χ², Gaussians, worst cases, columns."""
