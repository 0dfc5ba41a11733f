# What install and run share; sourced, never run.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=$root/.venv-peers
bin=$venv/bin
gloo_python_file=$venv/gloo-python  # holds the path of a Python that has torch
venv_ml=$venv/ml
sklearn_python_file=$venv/sklearn-python

# First line on stderr is the reason a reader sees: keep it whole.
die() {
  echo "$2" >&2
  exit "$1"
}

# mpi_tool FAMILY TOOL: the TOOL (mpicc, mpirun) of openmpi or mpich. Debian installs
# both side by side with suffixes; elsewhere the plain name belongs to one of them.
mpi_tool() {
  local family=$1 tool=$2 version
  if command -v "$tool.$family"; then return; fi
  version=$(mpirun --version 2>/dev/null) || return 1
  case $family:$version in
    openmpi:*"Open MPI"*) command -v "$tool" ;;
    mpich:*Intel*) return 1 ;;
    mpich:*HYDRA*) command -v "$tool" ;;
    *) return 1 ;;
  esac
}

# intel_mpi FOLDER: readies the environment for the Intel MPI that pip installed there. Its launcher must
# find its own helpers first in PATH, or it takes MPICH's and aborts.
intel_mpi() {
  export PATH=$1/bin:$PATH LD_LIBRARY_PATH=$1/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export I_MPI_ROOT=$1 I_MPI_FABRICS=shm I_MPI_HYDRA_BOOTSTRAP=fork
}

# with_torch PROGRAM OPTIONS…: becomes the program of this folder, in the Python that has torch and gloo.
with_torch() {
  [ -s "$gloo_python_file" ] || die 3 "not installed: run benchmarks/peers/install gloo"
  exec "$(<"$gloo_python_file")" -W ignore "$here/$1" "${@:2}"
}
