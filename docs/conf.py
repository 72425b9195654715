"""Settings of the documentation site: `make docs` builds it into out/docs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")

# the line above is for the modules of this folder
from site_parts import missing_libraries  # noqa: E402

import deadtime  # noqa: E402

project = "deadtime"
author = "The deadtime developers"
copyright = "the deadtime developers"
release = version = deadtime.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "site_parts"]
exclude_patterns = ["Thumbs.db"]
default_role = "code"
nitpicky = False

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "out" / "docs-notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_mock_imports = missing_libraries()
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"deadtime {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
