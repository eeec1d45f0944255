"""Tables and plots of a benchmark; one HTML file about runs; figures and tables for papers."""

from pwcf.report.all_figures import Written, write_figures
from pwcf.report.bench import write_report
from pwcf.report.groups import OURS, Group, groups_of
from pwcf.report.kinds import Choices
from pwcf.report.page import Page, write_page

__all__ = [
    "OURS",
    "Choices",
    "Group",
    "Page",
    "Written",
    "groups_of",
    "write_figures",
    "write_page",
    "write_report",
]
