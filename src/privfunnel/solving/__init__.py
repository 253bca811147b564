"""The front doors, from a request to a solution or a curve.

``point`` has :func:`privfunnel.solve`, ``tracing`` :func:`privfunnel.trace`. ``dispatch`` says who is asked.
"""
