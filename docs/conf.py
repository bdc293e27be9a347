"""Settings of the documentation site; `docs/build` builds it."""

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

DOCS = Path(__file__).parent
# Notebooks compile as the tests do, see `tests/conftest.py`: quickly, and kept on disk.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1",
)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(DOCS.parent / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Their pictures are sharp at any size, and what a call returns is not printed.
KERNEL = """
c = get_config()
c.InteractiveShell.ast_node_interactivity = "none"
c.InlineBackend.figure_formats = {"svg"}
c.HistoryManager.enabled = False
"""
profile = DOCS / "_build" / ".ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text(KERNEL, "utf-8")
os.environ["IPYTHONDIR"] = str(profile.parent)
sys.path.insert(0, str(DOCS / "_extensions"))

project = "bregjax"
copyright = "the bregjax authors"
version = release = version_of("bregjax")
html_title = f"bregjax {release}"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "myst_nb",
    # Those of this folder:
    "collected_pages",
    "every_name",
    "every_picture",
    "plain_docstrings",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "jupyter_execute"]
default_role = "name"
smartquotes_action = "D"  # quotes of options are those that one types
add_module_names = False
toc_object_entries = False

autosummary_generate = True
autosummary_ignore_module_all = False
# What overrides a documented method has no docstring of its own, and no second place.
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
python_maximum_signature_line_length = 60
python_display_short_literal_types = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
napoleon_use_rtype = False

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 150
nb_execution_raise_on_error = True
# Without a GPU its numbers would say little.
nb_execution_excludepatterns = ["notebooks/gpu*"]
nb_execution_cache_path = str(DOCS / "_build" / ".jupyter_cache")
nb_merge_streams = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "source_repository": "https://github.com/bregjax/bregjax/",
    "source_branch": "main",
    "source_directory": "docs/",
    "top_of_page_buttons": [],
}
pygments_style = "tango"
pygments_dark_style = "monokai"
