"""Benchmarks: networks x metrics x attacks x budgets, as a grid whose cells are run folders.

``pwcf.bench.execution.run_cells`` works on the cells; it is not imported here, for it loads a network library.
"""

from pwcf.bench.grid import Cell, Net, make_cells, record_grid

__all__ = ["Cell", "Net", "make_cells", "record_grid"]
