"""One HTML file about runs; figures and tables for papers."""

from pwcf.report.all_figures import Written, write_figures
from pwcf.report.kinds import Choices
from pwcf.report.page import Page, write_page

__all__ = [
    "Choices",
    "Page",
    "Written",
    "write_figures",
    "write_page",
]
