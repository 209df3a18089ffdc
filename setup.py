"""Builds the one native module, `morphspark._core`: a thin Cython face over the plain C++20 core in `csrc/`.

Everything static lives in pyproject.toml. This file holds only what needs code: which sources there are, and
a compile step that setuptools lacks, one that uses all cores and recompiles only what changed.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)  # setuptools wants relative source paths, and a front end may call us from elsewhere

COMPILE_FLAGS = [
    "-std=c++20",
    "-O3",
    "-g1",  # line tables only: profilers and crash traces stay readable, the module stays small
    "-ffp-contract=off",  # a fused multiply-add rounds differently: the result would depend on the CPU
    "-fno-math-errno",  # nobody reads errno after sqrt; without it the compiler can inline the instruction
    "-fvisibility=hidden",  # only PyInit__core is exported: no clash with symbols of other native modules
    "-Wall",
    "-Wextra",
    "-pthread",
    # Only `arrow/c/abi.h` (the C data interface) and `arrow/vendored/xxhash.h` are included from here.
    # Nothing is linked against libarrow: the module is not tied to one pyarrow version.
    "-isystem",
    pyarrow.get_include(),
]


class IncrementalBuildExt(build_ext):
    """build_ext with parallel, incremental compilation of the objects of one extension.

    setuptools' `-j` works across extensions (there is one), and a change of one file recompiles all of them.
    """

    def finalize_options(self):
        super().finalize_options()
        # An editable install compiles into a temporary folder, so that every `pip install -e .` starts anew.
        # A fixed place lets it share objects with `setup.py build_ext --inplace`.
        self.build_temp = os.path.join("build", "ext", f"{self.plat_name}-{sys.implementation.cache_tag}")

    def build_extension(self, ext):
        # setuptools would skip the whole extension by comparing times with `depends`; the check per object
        # knows more (flags, headers really included), and costs milliseconds.
        self.force = True
        self.compiler.compile = self._compile_stale_objects
        super().build_extension(ext)

    def _compile_stale_objects(
        self,
        sources,
        output_dir=None,
        macros=None,
        include_dirs=None,
        debug=0,
        extra_preargs=None,
        extra_postargs=None,
        depends=None,
    ):
        """Takes the place of the compiler object's `compile`, and its arguments."""
        compiler = self.compiler
        macros, objects, postargs, pp_opts, build = compiler._setup_compile(
            output_dir, macros, include_dirs, sources, depends, extra_postargs
        )
        cc_args = compiler._get_cc_args(pp_opts, debug, extra_preargs)
        command = json.dumps([compiler.compiler_so, compiler.compiler_so_cxx, cc_args, postargs])

        def compile_one(obj):
            source, extension = build[obj]
            dependencies = ["-MMD", "-MF", f"{obj}.d"]
            compiler._compile(obj, source, extension, cc_args, [*postargs, *dependencies], pp_opts)
            Path(f"{obj}.cmd").write_text(command)  # last: an interrupted compilation stays stale

        stale = [obj for obj in objects if obj in build and _is_stale(obj, build[obj][0], command)]
        jobs = int(self.parallel or os.environ.get("MORPHSPARK_BUILD_JOBS") or os.cpu_count() or 1)
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            list(pool.map(compile_one, stale))  # list(): raise the first error
        return objects


def _is_stale(obj, source, command):
    """True unless `obj` was made by this very command and is newer than all it was made from."""
    try:
        if Path(f"{obj}.cmd").read_text() != command:
            return True
        made = os.path.getmtime(obj)
        # A make rule, `obj: a.cc a.h \<newline> b.h`. No path of ours contains a space.
        inputs = Path(f"{obj}.d").read_text().replace("\\\n", " ").partition(": ")[2].split()
        return any(os.path.getmtime(path) > made for path in [source, *inputs])
    except OSError:  # something is missing: never compiled, or a header was removed
        return True


core = Extension(
    "morphspark._core",
    # Sorted: the same link order, so the same module, on every machine.
    sources=["morphspark/_core.pyx"]
    + sorted(str(p) for p in Path("csrc").rglob("*.cc") if not p.name.endswith("_test.cc")),
    depends=sorted(str(p) for p in Path("csrc").rglob("*.h")),
    include_dirs=["csrc"],
    language="c++",
    extra_compile_args=COMPILE_FLAGS,
    extra_link_args=["-pthread"],
)

setup(
    ext_modules=cythonize([core], compiler_directives={"language_level": "3"}),
    cmdclass={"build_ext": IncrementalBuildExt},
)
