# lockstep_module(NAME SOURCES … [DEPENDS module …] [LIBRARIES target …] [PRECOMPILE header …])
#   One folder under src/lockstep: an OBJECT library that goes into liblockstep.so
#   whole (a static archive would drop self-registering files).
#   PRECOMPILE: headers that most sources of the module take long to parse (decision 7).
#   They are read before every source, whether it includes them or not: a build with
#   -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON finds the #include that is missing.
# lockstep_test(FILE … [SOURCES helper …] [LABELS …] [TIMEOUT s] [SERIAL] [FULL] [LIBRARIES target …])
#   One test program per file, the helpers in each; ctest sees each of its cases. SERIAL:
#   they have deadlines, so nothing runs beside them. FULL: cases that take long for what they
#   add are instantiated as Full; they have the label full alone, and sanitizers leave them out.

function(lockstep_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LIBRARIES;PRECOMPILE" ${ARGN})
  set(target lockstep_${name})
  add_library(${target} OBJECT ${arg_SOURCES})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
  target_compile_options(${target} PRIVATE ${LOCKSTEP_WARNINGS})
  target_link_libraries(${target} PUBLIC Torch::cpu Threads::Threads fmt::fmt ${arg_LIBRARIES})
  foreach(dependency ${arg_DEPENDS})
    target_link_libraries(${target} PUBLIC lockstep_${dependency})
  endforeach()
  target_link_libraries(lockstep PRIVATE ${target})
  if(arg_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${arg_PRECOMPILE})
    cached_with_precompiled_header(${target})
  endif()
endfunction()

# ccache sees through a precompiled header only if the compiler says so (Compiler.cmake has the rest).
function(cached_with_precompiled_header target)
  if(LOCKSTEP_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  elseif(LOCKSTEP_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# What all programs of tests have in common; a precompiled header is for one set of options.
function(compiled_as_test name)
  # A test spends its time in the library: to optimise its own lines takes longer than they run.
  target_compile_options(${name} PRIVATE ${LOCKSTEP_WARNINGS} $<$<CONFIG:Release>:-O1>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${name} PRIVATE lockstep Torch::cpu fmt::fmt Headers::toml Headers::xxhash
                        nlohmann_json::nlohmann_json spdlog::spdlog GTest::gtest_main)
  cached_with_precompiled_header(${name})
endfunction()

function(lockstep_test)
  if(NOT LOCKSTEP_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "SERIAL;FULL" "TIMEOUT" "SOURCES;LABELS;LIBRARIES" ${ARGN})
  if(NOT arg_SERIAL)
    set(arg_SERIAL OFF)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  foreach(source ${arg_UNPARSED_ARGUMENTS})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source} ${arg_SOURCES})
    compiled_as_test(${name})
    target_precompile_headers(${name} REUSE_FROM lockstep_test_headers)
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
    if("threads" IN_LIST arg_LABELS OR "unit" IN_LIST arg_LABELS)
      set_property(GLOBAL APPEND PROPERTY LOCKSTEP_SANITIZER_TESTS ${name})
    endif()
    set(environment)
    if("threads" IN_LIST arg_LABELS)
      set_property(GLOBAL APPEND PROPERTY LOCKSTEP_THREAD_TESTS ${name})
      # Ranks are the threads. Two tests side by side whose OpenMP threads spin for each other took a hundred times as long.
      set(environment OMP_NUM_THREADS=1)
    endif()
    if(LOCKSTEP_SANITIZE)
      # All of a program at once: with a sanitizer each start takes longer than most tests.
      add_test(NAME ${name} COMMAND ${name} --gtest_filter=-Full/*)
      set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "${arg_LABELS}" RUN_SERIAL ${arg_SERIAL}
                           ENVIRONMENT "${environment}")
      continue()
    endif()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_FILTER -Full/*
                         PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" RUN_SERIAL ${arg_SERIAL}
                                    ENVIRONMENT "${environment}")
    if(arg_FULL)
      gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_FILTER Full/* TEST_LIST ${name}_full
                           PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS full RUN_SERIAL ${arg_SERIAL} ENVIRONMENT "${environment}")
    endif()
  endforeach()
endfunction()

if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  # What most tests take long to parse, once for all of them (decision 14): a program without a test.
  file(WRITE ${PROJECT_BINARY_DIR}/generated/test_headers.cpp "")
  add_executable(lockstep_test_headers EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/generated/test_headers.cpp)
  compiled_as_test(lockstep_test_headers)
  target_precompile_headers(lockstep_test_headers PRIVATE <filesystem> <functional> <map> <string> <thread> <vector>
                            <ATen/core/Tensor.h> <ATen/TensorOperators.h> <fmt/format.h> <gtest/gtest.h> <nlohmann/json.hpp>)
endif()
