"""Runs as one HTML file that needs nothing else: numbers with their evidence, plots, a gallery of samples."""

from pwcf.report.page.write import Page, report_run, write_page

__all__ = ["Page", "report_run", "write_page"]
