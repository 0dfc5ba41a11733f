# LOCKSTEP_CUDA asks for a CUDA toolkit; nothing of ours is compiled with it yet.
option(LOCKSTEP_CUDA "Build with CUDA" OFF)
if(LOCKSTEP_CUDA)
  find_package(CUDAToolkit REQUIRED)
  message(STATUS "CUDA ${CUDAToolkit_VERSION} in ${CUDAToolkit_BIN_DIR}")
endif()
