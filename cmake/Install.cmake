# What `cmake --install` puts in place: the library, its headers, the program and
# a CMake package, so that another project writes
#   find_package(Lockstep REQUIRED)
#   target_link_libraries(mine PRIVATE Lockstep::lockstep)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)

# torch and pyarrow are not installed with us: their libraries are found where they were.
set(engine_folders ${LOCKSTEP_TORCH}/lib ${arrow_folder})
set_target_properties(lockstep PROPERTIES INSTALL_RPATH "$ORIGIN;${engine_folders}")
install(TARGETS lockstep EXPORT LockstepTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# The plug-in lies beside the library, which loads it from there.
if(TARGET lockstep_mpi)
  set_target_properties(lockstep_mpi PROPERTIES INSTALL_RPATH "$ORIGIN;${engine_folders}")
  install(TARGETS lockstep_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# The program is the one target in apps/ whose file is called lockstep.
get_property(app_targets DIRECTORY ${PROJECT_SOURCE_DIR}/apps PROPERTY BUILDSYSTEM_TARGETS)
foreach(app ${app_targets})
  get_target_property(output_name ${app} OUTPUT_NAME)
  if(output_name STREQUAL "lockstep")
    file(RELATIVE_PATH to_library /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
    set_target_properties(${app} PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library};${engine_folders}")
    install(TARGETS ${app} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

# Without the tests' helpers, whose code is not in the library.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/lockstep ${PROJECT_BINARY_DIR}/generated/lockstep
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
        PATTERN on_ranks.h EXCLUDE PATTERN memory_wire.h EXCLUDE)

install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION ${package_folder})
configure_file(cmake/LockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/LockstepConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/LockstepConfig.cmake ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
        DESTINATION ${package_folder})
