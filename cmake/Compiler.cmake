# How our own code is compiled: tools that speed the build up where present,
# warnings as errors, sanitizers on request.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE)
  # A precompiled header hides macros and times from ccache, which then refuses; ours use neither __DATE__ nor __TIME__.
  # What one clone has compiled serves the others: paths count from the root of the tree.
  set(ccache_command ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
                     CCACHE_NOHASHDIR=true ${LOCKSTEP_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${ccache_command})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache_command})
endif()

find_program(LOCKSTEP_MOLD mold)
if(LOCKSTEP_MOLD AND (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1))
  add_link_options(-fuse-ld=mold)
endif()

# Contraction would let two builds round differently; the same bits everywhere is a promise.
add_compile_options(-ffp-contract=off)

# Calls inside liblockstep.so go straight to their target instead of through a table:
# a small collective makes some twenty of them in 100 ns.
add_compile_options(-fno-semantic-interposition)

if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()

# Applied per target, so that headers of others stay out of it.
set(LOCKSTEP_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wconversion
                      -Wno-sign-conversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND LOCKSTEP_WARNINGS -Wno-restrict)  # wrong for char + std::string at -O3
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND LOCKSTEP_SANITIZE)
  # Instrumented code confuses the flow analysis of these two.
  list(APPEND LOCKSTEP_WARNINGS -Wno-maybe-uninitialized -Wno-tsan)
endif()
