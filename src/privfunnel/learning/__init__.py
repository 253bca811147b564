"""What learns: a transformer for scikit-learn's pipelines, and deep funnels for data that no table holds."""
