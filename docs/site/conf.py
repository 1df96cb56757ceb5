"""How Sphinx builds the site (`make docs`) from the pages that `stage.py` has put together."""

import re
from pathlib import Path

import securefedyj

HERE = Path(__file__).parent

project = "securefedyj"
author = "The securefedyj developers"
version = release = securefedyj.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = [str(HERE / "templates")]
default_role = "code"
highlight_language = "text"
# Pygments does not know commands over several lines.
suppress_warnings = ["misc.highlighting_failure"]

myst_heading_anchors = 4

autodoc_default_options = {
    "members": True,
    # scikit-learn has pages of its own.
    "inherited-members": "BaseEstimator, TransformerMixin, OneToOneFeatureMixin, _SetOutputMixin, "
    "ReprHTMLMixin, _HTMLDocumentationLinkMixin, _MetadataRequester, Exception",
    "exclude-members": "set_fit_request, set_inverse_transform_request, set_transform_request",
}
autodoc_member_order = "bysource"
autodoc_mock_imports = ["flwr", "nvflare"]
autodoc_typehints = "none"  # docstrings have them in words
autosummary_generate = True
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),
    "download_all_examples": False,
    "min_reported_time": 1e9,
    "plot_gallery": True,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "securefedyj"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_sidebars = {"**": ["contents.html"]}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button-field"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": False,
}


def setup(app) -> None:
    app.connect("autodoc-process-docstring", keep_bars, priority=600)  # after numpydoc


def keep_bars(app, what, name, obj, options, lines) -> None:
    """In docstrings, |lambda| is an absolute value, and no substitution of reStructuredText."""
    lines[:] = [re.sub(r"(?<![\w`])\||\|(?![\w`])", r"\|", line) for line in lines]
