"""One HTML file about runs; figures and tables for papers."""

from pwcf.report.all_figures import WrittenFiles, write_figures
from pwcf.report.page import Page, write_page
from pwcf.report.registry import FIGURES, TABLES, Choices

__all__ = ["FIGURES", "TABLES", "Choices", "Page", "WrittenFiles", "write_figures", "write_page"]
