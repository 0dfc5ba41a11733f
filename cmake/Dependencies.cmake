# Engines found on the machine. .headers/ holds header-only libraries that
# scripts/gather-headers collected for a machine that cannot install them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)

function(lockstep_header_library target header)
  find_path(${target}_INCLUDE ${header} HINTS ${PROJECT_SOURCE_DIR}/.headers NO_CACHE)
  if(NOT ${target}_INCLUDE)
    message(FATAL_ERROR "${header} was not found. Remedy: run scripts/setup, or on a machine that can install "
                        "run scripts/gather-headers and copy the folder .headers into this tree.")
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
endfunction()
lockstep_header_library(Headers::toml toml++/toml.h)
lockstep_header_library(Headers::xxhash xxhash.h)
lockstep_header_library(Headers::cli11 CLI/CLI.hpp)

if(LOCKSTEP_MPI)
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    message(STATUS "MPI was not found: built without the mpi and hier back-ends")
  endif()
endif()
