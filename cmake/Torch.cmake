# The target Torch::cpu, from headers and libraries found directly: Torch's own
# CMake package asks for a CUDA toolkit when the wheel was built with CUDA.
#
# LOCKSTEP_TORCH is the folder of the Python package (the one that holds include/ and
# lib/): the environment's, else this variable's, else the first of an active
# environment, .venv and the system's python3 that has torch.
set(LOCKSTEP_TORCH "" CACHE PATH "Folder of the torch Python package")

# Asked anew when the environment names one, or the one remembered has gone.
if(NOT "$ENV{LOCKSTEP_TORCH}" STREQUAL "" OR NOT EXISTS "${LOCKSTEP_TORCH}/version.py")
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/setup --print-torch WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE torch_folder OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
  if(NOT result EQUAL 0 OR NOT torch_folder)
    message(FATAL_ERROR "No torch was found. Remedy: run 'make build' (it sets everything up), "
                        "or set LOCKSTEP_TORCH to the folder of the torch Python package.")
  endif()
  set(LOCKSTEP_TORCH ${torch_folder} CACHE PATH "" FORCE)
endif()

find_library(TORCH_CPU_LIBRARY torch_cpu PATHS ${LOCKSTEP_TORCH}/lib NO_DEFAULT_PATH NO_CACHE REQUIRED)
find_library(TORCH_C10_LIBRARY c10 PATHS ${LOCKSTEP_TORCH}/lib NO_DEFAULT_PATH NO_CACHE REQUIRED)
file(STRINGS ${LOCKSTEP_TORCH}/version.py version_line REGEX "^__version__")
string(REGEX REPLACE ".*'([^']+)'.*" "\\1" LOCKSTEP_TORCH_VERSION "${version_line}")
message(STATUS "torch ${LOCKSTEP_TORCH_VERSION} in ${LOCKSTEP_TORCH}")

add_library(Torch::cpu INTERFACE IMPORTED)
# Searched last: torch carries an fmt of its own, which would hide the one that spdlog was built for.
target_compile_options(Torch::cpu INTERFACE
  "SHELL:-idirafter ${LOCKSTEP_TORCH}/include" "SHELL:-idirafter ${LOCKSTEP_TORCH}/include/torch/csrc/api/include")
# A CUDA build of torch_cpu needs CUDA libraries that only its own run path finds.
target_link_options(Torch::cpu INTERFACE -Wl,--allow-shlib-undefined)
target_link_libraries(Torch::cpu INTERFACE ${TORCH_CPU_LIBRARY} ${TORCH_C10_LIBRARY})
