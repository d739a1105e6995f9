# SPDX-License-Identifier: BSD-3-Clause
import os

from spack_repo.builtin.build_systems import cmake, python
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class Offbeat(CMakePackage, PythonPackage):
    """MPI collectives that stay fast when ranks arrive late, for unchanged programs. A library that is
    preloaded under an MPI program, and with +python a command line tool that traces, benchmarks and tunes."""

    # The source archive of tools/portable_wheel.py, in $OFFBEAT_SOURCES.
    url = f"file://{os.environ.get('OFFBEAT_SOURCES', '/tmp')}/offbeat-0.1.0.tar.gz"

    license("BSD-3-Clause")

    version("0.1.0", sha256=os.environ.get("OFFBEAT_SHA256", "0" * 64))

    build_system(
        conditional("python_pip", when="+python"), conditional("cmake", when="~python"), default="cmake"
    )

    variant("python", default=False, description="Install the command line tool (run, trace, bench, tune, report)")
    # One library serves every MPI of a family, so none depends on an MPI when it runs.
    variant(
        "abi",
        default="openmpi",
        values=("openmpi", "mpich", "mpiabi"),
        multi=True,
        description="Families of MPIs to build a preload library for",
        when="~python",
    )

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("python@3.10:", type="build")

    # Only the headers are used.
    depends_on("openmpi@5:", type=("build", "test"), when="abi=openmpi")
    depends_on("mpich@5:", type=("build", "test"), when="abi=mpich")
    depends_on("mpich@5:", type=("build", "test"), when="abi=mpiabi")

    with when("+python"):
        depends_on("openmpi@5:", type="build")
        depends_on("mpich@5:", type="build")
        depends_on("python@3.10:", type=("build", "run"))
        depends_on("py-scikit-build-core@0.10:", type="build")
        depends_on("py-numpy@1.24:", type=("build", "run"))
        depends_on("py-rich@13:", type=("build", "run"))
        depends_on("py-tomli@2:", type=("build", "run"), when="^python@:3.10")

    conflicts("platform=darwin", msg="offbeat is for Linux")
    conflicts("%gcc@:10", msg="offbeat needs C++20 coroutines")

    def headers_of(self, name, vendor):
        return (f"OFFBEAT_{vendor}_INCLUDE", self.spec[name].prefix.include)


class CMakeBuilder(cmake.CMakeBuilder):
    def cmake_args(self):
        families = self.spec.variants["abi"].value
        args = [self.define("OFFBEAT_FAMILIES", ";".join(families)), self.define("OFFBEAT_UNITY", True)]
        if "openmpi" in families:
            args.append(self.define(*self.pkg.headers_of("openmpi", "OPENMPI")))
        if "mpich" in families or "mpiabi" in families:
            args.append(self.define(*self.pkg.headers_of("mpich", "MPICH")))
        return args


class PythonPipBuilder(python.PythonPipBuilder):
    def config_settings(self, spec, prefix):
        headers = dict(self.pkg.headers_of(name, name.upper()) for name in ("openmpi", "mpich"))
        return {f"cmake.define.{name}": folder for name, folder in headers.items()}
