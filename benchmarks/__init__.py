"""Benchmarks: scripts that measure, JSON that keeps what they measured, and a page written from the JSON."""
